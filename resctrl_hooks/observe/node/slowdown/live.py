"""Samples a node window by window: learns baselines in quiet ones, and judges pods by the last ones."""

import time
from collections import deque
from typing import NamedTuple

from ....core.node.log import WARNING
from ....core.node.retried import Retried
from .baseline.learner import Learner, Sample
from .baseline.quiet import Peaks, disturbance, is_quiet, surroundings
from .baseline.store import StoreError
from .baseline.workload import Workloads
from .case import mean
from .causes import bandwidth
from .causes.table import causes_of, confirmed, is_supported
from .constants import ENOUGH, STORED_WINDOWS
from .evidence.alone import CALM_WINDOWS, lacks_memory, teaches
from .evidence.perf.watched import BY_TRAFFIC, BY_WAITS, Watched
from .evidence.reader import NodeReader
from .evidence.waiting import waiting_of
from .evidence.window import place_of
from .verdict import SLOWED_WORD, judge, latest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ....core.node.context import Context
    from ....core.node.resctrl.open_files import OpenFiles
    from ..capacity.capacity import Capacity
    from .baseline.baseline import Baseline
    from .baseline.store import Store
    from .causes.cause import Cause
    from .evidence.reader import Moment, Readings
    from .evidence.window import Window
    from .verdict import Verdict

_SAVED = 60.0  # seconds between two writes of the store


class Finding(NamedTuple):
    """The result for one pod."""

    verdict: "Verdict"
    causes: "list[Cause]"
    domain: "int | None" = None
    """The memory domain of most of the pod's traffic."""
    load: "float | None" = None
    """The mean load of that domain, at most this by a capacity that is a bound; None without a capacity."""
    disturbance: str = ""
    """Of a pod without a baseline: how many samples were not quiet, and the most frequent reason."""
    windows: "Sequence[Window]" = ()
    """Its basis."""
    until: "float | None" = None
    """Seconds until the pod has a baseline, at the rate of quiet samples so far; None: it has one, or no sample was
    quiet."""
    capacity: "Capacity | None" = None
    """That of the domain."""


class Live:
    """A node's last windows.

    Args:
        context: the node.
        store: the baselines, loaded. They are saved at most once a minute, and by `close`.
        log: logs a line with its priority.
        perf: whether pods may have performance counters.
        sizes: bytes of each L3, as far as known.
        files: counter files that stay open.
        keep: the number of windows.
        saves: whether the baselines are saved; one process may do that.

    Raises:
        HookError: resctrl is missing, or the state directory is unusable.
    """

    def __init__(
        self,
        context: "Context",
        store: "Store",
        log: "Callable[[int, str], None]",
        *,
        perf: bool = True,
        sizes: "Mapping[int, float] | None" = None,
        files: "OpenFiles | None" = None,
        keep: int = STORED_WINDOWS,
        saves: bool = True,
    ) -> None:
        self._context = context
        self.store = store
        self.reader = NodeReader(context, files)
        otherwise = BY_TRAFFIC if self.reader.counted else BY_WAITS
        self.watched = Watched(
            context.settings.sys_path, self.reader.cgroups.of, log, enabled=perf, otherwise=otherwise
        )
        self.windows: "deque[Window]" = deque(maxlen=keep)
        self._peaks = Peaks(self.reader.capacities.seen)
        self._sizes = sizes or {}
        self.workloads = Workloads(context)
        self._learner = Learner(store)
        self._quiet: "dict[str, tuple[float, int, int]]" = {}
        """By pod: its seconds so far, its quiet samples in them, and its windows since it lacked memory."""
        self._last: "Moment | None" = None
        self._saved = time.monotonic() if saves else float("inf")
        self._log = log
        self.saving = Retried(log, "baselines are only in memory", "baselines are saved again")

    def step(self, watch: "Sequence[str]", readings: "Readings | None" = None) -> "Window | None":
        """End the current window and begin the next one, in which the pods of ``watch`` have performance counters.

        Return the ended window; None at the first call. ``readings`` are the pods' counters, if they are read already.

        Raises:
            HookError: resctrl is missing, or the state directory is unusable.
        """
        now = self.reader.read(self.watched, readings)
        self.workloads.update(now.pods, now.time)
        window = None
        if self._last is not None and now.time > self._last.time:
            window = self.reader.window(self._last, now)
            self.windows.append(window)
            self._learn(window)
        self.watched.turn(watch)
        for key in watch:
            if key in now.pods and now.pods[key].perf is None:  # its counters begin now
                count, started = self.watched.read(key)
                now.pods[key] = now.pods[key]._replace(perf=count, started=started)
        self._last = now
        if time.monotonic() - self._saved >= _SAVED:
            self._save()
        return window

    def forget(self, keep: int) -> None:
        """Forget all but so many windows."""
        while len(self.windows) > keep:
            self.windows.popleft()

    def _learn(self, window: "Window") -> None:
        self._peaks.saw(window)
        self._learner.keep(window.uses)
        self._quiet = {key: found for key, found in self._quiet.items() if key in window.uses}
        for key, use in window.uses.items():
            seconds, quiet, calm = self._quiet.get(key, (0.0, 0, CALM_WINDOWS))
            calm = 0 if lacks_memory(use) else calm + 1
            self._quiet[key] = seconds + window.seconds, quiet, calm
            workload = self.workloads.of(key)
            if workload is None or not self._is_of_present(window, key):
                continue
            if calm >= CALM_WINDOWS and teaches(use):
                self.store.obtain(workload).alone.learn(use, window.seconds)
            if is_quiet(window, key, self._peaks, self._sizes, self.store.find(workload)):
                waiting = waiting_of([(use, window.seconds)])
                self._learner.add(key, workload, Sample(use, window.seconds, waiting, surroundings(window, key)))
                self._quiet[key] = seconds + window.seconds, quiet + 1, calm

    def _is_of_present(self, window: "Window", key: str) -> bool:
        """Return whether the pod had its present containers for the whole window."""
        return window.time > self.workloads.since(key)

    def finding(self, key: str) -> Finding:
        """Return the verdict on a pod and its causes, from the windows so far."""
        windows = list(self.windows)
        verdict = self._judged(windows, key)
        causes = causes_of(windows, key, verdict)
        disturbed = ""
        if verdict.baseline_samples < ENOUGH:
            own = [one for one in windows if key in one.uses and self._is_of_present(one, key)]
            disturbed = disturbance(own, key, self._peaks, self._sizes, self._baseline(key))
        return self._finding(windows, key, verdict, causes)._replace(disturbance=disturbed)

    def present(self, key: str, most: int) -> Finding:
        """Return the verdict on a pod from its last ``most`` samples.

        Causes are looked for only if it is slowed, without values of remedies.
        """
        windows = latest(list(self.windows), key, most)
        verdict = self._judged(windows, key)
        causes = causes_of(windows, key, verdict, is_advised=False) if verdict.verdict == SLOWED_WORD else []
        return self._finding(windows, key, verdict, causes)

    def _finding(self, windows: "Sequence[Window]", key: str, verdict: "Verdict", causes: "list[Cause]") -> Finding:
        seconds, quiet, _ = self._quiet.get(key, (0.0, 0, 0))
        missing = ENOUGH - verdict.baseline_samples
        until = missing * seconds / quiet if missing > 0 and quiet else None
        return Finding(confirmed(verdict, causes), causes, windows=windows, until=until, **self._place(windows, key))

    def _place(self, windows: "Sequence[Window]", key: str) -> "dict[str, Any]":
        """Return the memory domain of most of a pod's traffic, its mean load and its capacity, as fields of a finding.

        The rules never see a load by the largest rate so far; people do.
        """
        domain, load = place_of(windows, key)
        capacity = None if domain is None else self.reader.capacities.of(domain)
        if domain is not None and capacity is not None and capacity.is_bound:
            load = capacity.load(mean([window.moved.get(domain) for window in windows if key in window.uses]))
        return {"domain": domain, "load": load, "capacity": capacity}

    def pressed(self, key: str, found: Finding, most: int) -> "tuple[Verdict, Sequence[Window]] | None":
        """Return the verdict on a pod that memory bandwidth slows in the last ``most`` samples of a finding.

        With the verdict, return the windows of these samples; None if memory bandwidth does not slow it.
        """
        windows = latest(found.windows, key, most)
        verdict = self._judged(windows, key)
        if verdict.verdict != SLOWED_WORD or not is_supported(bandwidth.NAME, windows, key, verdict):
            return None
        return verdict, [window for window in windows if key in window.uses]

    def _judged(self, windows: "Sequence[Window]", key: str) -> "Verdict":
        since = self.workloads.since(key)
        return judge([one for one in windows if one.time > since], key, self._baseline(key))

    def _baseline(self, key: str) -> "Baseline | None":
        workload = self.workloads.of(key)
        return self.store.find(workload) if workload else None

    def has_baseline(self, key: str) -> bool:
        """Return whether a pod's workload can be compared."""
        baseline = self._baseline(key)
        return baseline is not None and baseline.is_usable

    def _save(self) -> None:
        self._saved = time.monotonic()
        self.saving.attempt(self.store.save)

    def close(self) -> None:
        """Close the counters and save the baselines; if they cannot be written, log that."""
        self.watched.close()
        self._learner.keep(())
        try:
            self.store.save()
        except StoreError as error:
            self._log(WARNING, f"{error}; samples since the last save are lost")
