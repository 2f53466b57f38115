"""The constants of evidence, baselines and causes, each with its reason. ``docs/dev/results.md`` has measurements."""

AET, PERF, TRAFFIC = "aet", "perf", "traffic"
GRADES = (AET, PERF, TRAFFIC)
"""The sources of a pod's cost, the best first."""

# Windows
WINDOW = 10.0
"""Seconds of one window of the resident process. CPI² (EuroSys 2013) counts 10 s of each minute, too."""
SLOTS = 6
"""Windows of a minute; with the most watched pods, each has perf events in one of them."""
STORED_WINDOWS = 60
"""Windows that the resident process keeps: ten minutes, so ten windows of each pod with perf events."""
UNWATCHED_WINDOWS = 20
"""Those that it keeps while no pod has perf events, to use less memory: `JUDGED` ones of a pod that rests half of the
time."""
JUDGED = 10
"""Windows with a cost that a verdict is based on: more than `CHANGES`, and few enough to follow a change."""
LEAST_RUNNING = 0.5
"""The least part of a window in which events must have run on the processor: scaling up by more is guesswork."""
LEAST_CPU = 0.02
"""The least use of CPUs for a sample: below 2 % of one CPU, wake-ups decide what an instruction costs."""
MOST_SLOWED, SLOWED_TURNS = 32, 3
"""The slowed pods that are judged after each window. If there are more, a third of them is, so that their causes do
not cost the more the busier the node is. Each is judged after three windows, by windows of which seven are known."""

# Baselines
BINS_PER_OCTAVE = 16
"""A bin is 4.4 % wide: a third of the smallest slowdown that is reported."""
CELLS_PER_OCTAVE = 2
"""Cells by octave of memory traffic by unit of work. The cost between two cells is interpolated, so their width only
decides how many samples have one: noise of 3 % reaches two cells at most."""
MOST_CELLS = 24
"""Cells of one workload: eight octaves of traffic by unit of work at its usual intensity, and some others."""
OLD_CURVES = 10
"""A curve of costs is used again until a tenth of the samples is newer: to compute it takes as long as ten verdicts."""
SLOWER_BY = 1.0
"""Octaves of intensity by which a slowed pod may be below its quiet samples at no distance: a slowdown of 2."""
NEAR = 0.5
"""Octaves of intensity within which quiet samples count nearly the same (the standard deviation of their weight)."""
FARTHEST = 2.0
"""Octaves of intensity from which nothing can be compared: work that is 8 times as slow, or 4 times as fast."""
ENOUGH = 10
"""Quiet samples for a baseline: the median of ten is within one bin if nine tenths of them are within two."""
MOST_WEIGHT = 256.0
"""Samples of a range after which all are halved, so that an old version of a program is forgotten after some hours."""
QUIET_LOAD = 0.5
"""The load of a memory domain below which it is quiet. Latency rises with load; below half it is flat."""
QUIET_SHARE = 0.25
"""Others' part of the traffic, and of the L3's contents, up to which a domain is quiet where loads are unknown."""
MOST_WORKLOADS = 512
"""Workloads in the store: about 1 MB."""
MOST_OF_NAMESPACE = 64
"""Workloads of one namespace, so that none can fill the store."""
FORGOTTEN_AFTER = 30 * 86400.0
"""Seconds after which an unseen workload is forgotten."""

# Verdicts
SLOWED = 1.15
"""The ratio from which a pod is slowed: three bins, above the noise of ten samples."""
SLOWED_ESTIMATE = 1.25
"""The rise of the cost from which a pod is slowed by `TRAFFIC`. CPU seconds also contain time that the processor's
frequency or another machine took: a guest beside others had 1.21 though nothing slowed it."""
CERTAIN = 1.05
"""The least value of the ratio's lower bound for that verdict: one bin above normal."""
OFTEN = 10
"""The fewest samples of which the half may be dearer than nine tenths of the quiet ones instead: five of ten by chance
in one of 600 pods."""
FEWEST = 3
"""The fewest samples for a verdict."""
OFTEN_QUIET = 0.9
"""The part of quiet samples that a rare one exceeds."""
LEAST_STILL = 0.02
"""The part of wall time for which a pod stands still from which waits count. A pod that rests may run for less, but
then its waits are wake-ups of a millisecond."""

# Causes
LOADED = 0.75
"""The load from which memory bandwidth explains a higher cost. The guard acts at 0.85."""
MORE_LOAD = 0.2
"""The rise of the load, from quiet times to one above `QUIET_LOAD`, that explains a higher cost below `LOADED`: in an
open queue it makes memory slower by a sixth at least."""
MORE_TRAFFIC = 2.0
"""The rise of the neighbours' traffic that has to go with it: then most of the new load is theirs."""
SAME_TRAFFIC = 1.1
"""The rise of the neighbours' traffic up to which they do what they did in quiet times."""
CHANGES = 6
"""The fewest changes for a correlation: of six coin tosses, one in 64 agrees by chance."""
CORRELATED = 0.6
"""The correlation from which traffic moves with the cost."""
VARIES = 0.05
"""The least relative spread of a quantity that can be correlated."""
BESIDE = 0.15
"""The least part of a pod's own traffic that others must move to slow it by bandwidth."""
NAMED_SHARE = 0.03
"""The least part of others' use for which one is named: so few users that each window has all of them at hand."""
MOST_OF_USE = 0.7
"""The part of others' use that the named ones make together, if they can."""
ALIKE = 0.75
"""A user with this part of the use of the smallest named one is like it, and named as well."""
MOST_LATENCY = 4.0
"""The factor of a miss's time in full memory that the parts of combined causes assume at most."""
MORE_MISSES = 1.3
"""The rise of memory traffic by unit of work from which a pod lost cache, or changed its work."""
LEAST_MISSED = 1e-3
"""The fewest bytes from memory by unit of work that a rise is counted from: a line in 64 000 instructions. A program
that lives in the cache has none in quiet times."""
OTHER_WORK = 0.5
"""The fall of memory traffic by unit of work from which it is other work: without prefetching it falls by less."""
LESS_CACHE = 0.85
"""The fall of a pod's own part of the L3 that shows a loss."""
NEIGHBOURS_CACHE = 0.15
"""Others' part of the L3's contents from which they can have taken it."""
WAITED = 0.05
"""The part of the time for which a pod waits for CPUs or memory, from which that is a cause: a ratio of 1.05."""
SLOWER_CLOCK = 0.9
"""The fall of cycles by reference cycles from which the frequency is a cause."""
IDLE_SIBLING = 0.1
"""The use of the other hyperthreads up to which they slow a pod by less than a bin: at most a third of that use."""
