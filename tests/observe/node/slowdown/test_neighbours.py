"""A pod's neighbours, its quiet windows, and the units of times: what a limit and what neighbours took."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from observe.node.slowdown.samples import NOISY, SECONDS, VICTIM, diagnose, quiet_baseline, use, window
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.baseline.quiet import Peaks, disturbance, is_quiet, others_held, others_moved
from resctrl_hooks.observe.node.slowdown.case import OUTSIDE, Case
from resctrl_hooks.observe.node.slowdown.causes.culprits import smallest_set
from resctrl_hooks.observe.node.slowdown.causes.table import causes_of
from resctrl_hooks.observe.node.slowdown.constants import ALIKE, MOST_OF_USE, NAMED_SHARE
from resctrl_hooks.observe.node.slowdown.evidence.neighbours import shares_cpus
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.window import Counts, Waits, Window, use_between
from resctrl_hooks.observe.node.slowdown.units import CpuPart, CpuTime, WallTime
from resctrl_hooks.observe.node.slowdown.verdict import judge

DOMAINS = 3


def scene(random: Random, pods: int, price: float = 2.0) -> list[Window]:
    """Return windows of pods of very different sizes, of which some pause, come or go; the victim's price is higher."""
    sizes = {VICTIM: 1.0, **{f"pod{number}": 10 ** random.uniform(-2, 1) for number in range(pods)}}
    cpus = {key: random.choice((0, 0b11, 0b1100, 0b1111)) for key in sizes}
    windows = []
    for number in range(12):
        uses = {
            key: use(
                3.2 * random.uniform(0.8, 1.2) if key == VICTIM else price,
                {domain: 1e9 * size * random.choice((0.0, random.random())) for domain in range(DOMAINS)},
                cpu=size * random.random(),
                occupancy={domain: float(int(1e6 * size * random.random())) for domain in range(DOMAINS)},
                waited=0.2,
                cpus=cpus[key],
            )
            for key, size in sizes.items()
            if key == VICTIM or random.random() < 0.9
        }
        moved = {domain: random.choice((None, 1e8)) for domain in range(DOMAINS)}
        loads = dict.fromkeys(range(DOMAINS), 0.9)
        windows.append(Window(number * SECONDS, SECONDS, loads, uses, CpuPart(0.0), moved))
    return windows


def largest(windows: list[Window], of: Any, domains: Iterable[int] = ()) -> dict[str, float]:
    """Return the parts of those that are to be named, by a look at all pods and what else is moved to domains."""
    used: dict[str, float] = {}
    for looked in windows:
        for key, one in looked.uses.items():
            if key != VICTIM:
                used[key] = used.get(key, 0.0) + of(one)
        for domain in domains:
            pods = sum((one.traffic or {}).get(domain, 0.0) for one in looked.uses.values())
            used[OUTSIDE] = used.get(OUTSIDE, 0.0) + max(0.0, (looked.moved[domain] or 0.0) - pods)
    whole = sum(used.values())
    return {key: part / whole for key, part in used.items() if part > 0 and part / whole >= NAMED_SHARE}


@pytest.mark.parametrize("seed", range(25))
def test_named_neighbours_are_those_that_a_look_at_all_pods_finds(seed: int) -> None:
    random = Random(seed)
    windows = scene(random, random.choice((1, 2, 7, 30)))
    case = Case(windows, VICTIM, judge(windows, VICTIM, None))
    cpus = windows[-1].uses[VICTIM].cpus
    looks: list[tuple[Any, Any, Any]] = [
        (case.movers(), lambda one: sum((one.traffic or {}).get(domain, 0.0) for domain in case.memory), case.memory),
        (case.holders(), lambda one: sum(one.occupancy.get(domain, 0.0) for domain in case.caches), ()),
        (case.runners(), lambda one: (one.cpu or 0.0) if shares_cpus(one.cpus, cpus) else 0.0, ()),
    ]
    for found, of, domains in looks:
        assert {one.key: one.share for one in found} == pytest.approx(largest(windows, of, domains))
        assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
        set_ = smallest_set(found)
        assert set_ == found[: len(set_)]
        assert sum(one.share for one in set_) >= min(MOST_OF_USE, sum(one.share for one in found))
        assert all(one.share < ALIKE * set_[-1].share for one in found[len(set_) :])
    for looked in windows:
        others = [one for key, one in looked.uses.items() if key != VICTIM]
        for domain in range(DOMAINS):
            pods = sum((one.traffic or {}).get(domain, 0.0) for one in others)
            own = (looked.uses[VICTIM].traffic or {}).get(domain, 0.0)
            all_ = max(pods, (looked.moved[domain] or 0.0) - own)
            assert others_moved(looked, VICTIM, domain) == pytest.approx(all_)
            assert others_held(looked, VICTIM, domain) == sum(one.occupancy.get(domain, 0.0) for one in others)


def test_pod_without_neighbours_has_exactly_nothing_beside_it() -> None:
    odd = {0: 0.1, 1: 0.2, 2: 0.3}
    windows = [Window(number * SECONDS, SECONDS, {}, {VICTIM: use(2.0, odd, occupancy=odd)}) for number in range(9)]
    assert [others_moved(windows[0], VICTIM, domain) for domain in odd] == [0.0] * 3
    case = Case(windows, VICTIM, judge(windows, VICTIM, None))
    assert (case.beside(), case.held_beside(), case.movers(), case.holders()) == (0.0, 0.0, [], [])


def calls(pods: int) -> int:
    """Return the number of function calls in which all pods of a node are judged, all of them slowed."""
    windows, baseline, count = scene(Random(1), pods, price=3.2), quiet_baseline(), [0]

    def called(*_: object) -> None:
        count[0] += 1

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        verdicts = {key: judge(windows, key, baseline) for key in windows[0].uses}
        found = [causes_of(windows, key, verdict) for key, verdict in verdicts.items()]
    finally:
        sys.setprofile(before)
    assert {verdict.verdict for verdict in verdicts.values()} == {"slowed"}
    supported = [any(one.state == "supported" for one in causes) for causes in found]
    assert sum(supported) > 0.9 * pods, supported
    return count[0]


def test_cost_of_judging_grows_linearly_with_the_pods_slowed_at_once() -> None:
    assert calls(200) < 2.5 * calls(100)


def seen(windows: Iterable[Window]) -> Peaks:
    peaks = Peaks()
    for one in windows:
        peaks.saw(one)
    return peaks


def quiet(
    one: Window, *before: Window, sizes: dict[int, float] | None = None, baseline: Baseline | None = None
) -> bool:
    return is_quiet(one, VICTIM, seen((*before, one)), sizes or {}, baseline)


LOUD = window(1, None, victim=use(), noisy=use(moved=9e9))


@pytest.mark.parametrize(
    "looked, before, expected",
    [
        *((window(1, load, victim=use(), noisy=use(moved=3e9)), [], load < 0.5) for load in (0.1, 0.49, 0.5, 0.9)),
        (window(1, {0: 0.1, 1: 0.9}, victim=use(), noisy=use(moved={1: 9e9})), [], True),  # in another memory
        (LOUD, [], False),
        (window(2, None, victim=use(), noisy=use(moved=1e9)), [LOUD], True),
        (window(2, None, victim=use(), noisy=use(moved=4e9)), [LOUD], False),
        *((window(1, victim=bad), [], False) for bad in (use(None), use()._replace(traffic=None), use(reclaimed=0.2))),
    ],
)
def test_window_is_quiet_by_load_or_others_traffic(looked: Window, before: list[Window], expected: bool) -> None:
    assert quiet(looked, *before) is expected


@pytest.mark.parametrize(
    "missed, own, others, sizes, expected",
    [
        (1.0, 4e6, 9e6, {}, True),  # it has what it had
        (1.2, 3e6, 9e6, {}, True),  # it does not need what it lost
        *((missed, 3e6, 9e6, {}, False) for missed in (8.0, None)),
        (8.0, 3.5e6, 9e6, {}, True),
        (8.0, 3e6, 0.0, {}, True),  # nobody has it
        (8.0, 3e6, 2e6, {0: 32e6}, True),
    ],
)
def test_lost_cache_disturbs_and_held_cache_does_not(
    missed: float | None, own: float, others: float, sizes: dict[int, float], expected: bool
) -> None:
    before = quiet_baseline(occupancy={0: 4e6})
    victim, noisy = use(missed=missed, occupancy={0: own}), use(occupancy={0: others, 1: 9e6})
    looked = window(1, victim=victim, noisy=noisy)
    assert quiet(looked, sizes=sizes, baseline=before) is expected
    assert quiet(looked), "of a new workload nothing is known"


@pytest.mark.parametrize(
    "windows, number, text",
    [
        ([window(1, 0.1, victim=use())], 0, ""),
        ([window(number, load, victim=use(), noisy=use()) for number, load in enumerate((0.9, 1.15, 0.1))], 2,
         "memory domain 0 is loaded to 115% (limit 50%)"),
        ([window(1, 0.9, victim=use(reclaimed=0.2)), window(2, 0.1, victim=use(reclaimed=0.39))], 2,
         "it waited for memory for 39% of the time (limit 5%)"),
        ([LOUD], 1, "other traffic is above 25% of the maximum of memory domain 0"),
        ([window(1, victim=use(missed=2.0, occupancy={0: 4e6}), noisy=use(occupancy={0: 4e6}))], 1,
         "other pods hold 50% of L3 0 (limit 25%), and it lost its part"),
        ([window(1, victim=use(None))], 1, "the pod did too little work, or was not counted"),
    ],
    ids=["quiet", "load", "waits", "traffic", "cache", "work"],
)  # fmt: skip
def test_most_frequent_disturbance_is_named(windows: list[Window], number: int, text: str) -> None:
    expected = f"{number} of {len(windows)} samples were not quiet; most often: {text}" if text else ""
    assert disturbance(windows, VICTIM, seen(windows), {}, quiet_baseline(occupancy={0: 8e6})) == expected


def waits(cpu: float, throttled: float = 0.0, waited: float | None = 0.0, stood: float | None = 0.0) -> Counts:
    """Return the counts of so many seconds."""
    pressures: list[Any] = [None if part is None else WallTime(part) for part in (waited, stood)]
    return Counts(waits=Waits(CpuTime(cpu), CpuTime(throttled), 9, *pressures))


@pytest.mark.parametrize("cpus", [1, 2, 8, 32, 256])
@pytest.mark.parametrize(
    "ran, throttled, waited, stood",
    [(0.3, 0.02, 0.4, 0.15), (0.6, 0.02, 0.4, 0.4), (0.3, 0.02, 0.9, 0.5),
     (0.5, 0.5, 0.5, 0.5), (0.2, 0.1, 0.1, 0.1), (0.05, 0.9, 0.9, 0.9)],
    ids=["issue", "never idle", "many threads", "half", "a tenth", "nearly always"],
)  # fmt: skip
def test_contention_of_many_cpus_is_no_cpu_limit(
    cpus: int, ran: float, throttled: float, waited: float, stood: float
) -> None:
    """The numbers are parts of the time for which each of the pod's CPUs is in these states."""
    after = waits(cpus * ran * SECONDS, cpus * throttled * SECONDS, waited * SECONDS, stood * SECONDS)
    victim = use_between(waits(0.0), after, SECONDS, [])
    noisy = Use("traffic", None, None, 20.0, None, {})
    _, found = diagnose([window(number, victim=victim, noisy=noisy) for number in range(9)], None)
    limit, contention = found["cpu-limit"], found["cpu-contention"]
    if throttled == stood:
        assert (limit.state, contention.state) == ("supported", "excluded")
        assert f"for {throttled:.0%} of the time" in limit.text
    else:
        assert (limit.state, contention.state) == ("excluded", "supported")
        assert [one.key for one in contention.pods] == [NOISY]


@pytest.mark.parametrize(
    "throttled, waited, stood", [(0.2, None, None), (0.2, 0.2, None), (0.2, 0.0, 0.0), (0.0, 0.0, 0.0)]
)
def test_limit_without_pressure_is_a_part(throttled: float, waited: float | None, stood: float | None) -> None:
    pressures = [part and part * SECONDS for part in (waited, stood)]
    found = use_between(waits(0.0), waits(8.0, throttled * SECONDS, *pressures), SECONDS, [])
    assert float(found.throttled or 0.0) == pytest.approx(throttled)
    assert use_between(waits(7.0), waits(7.0), SECONDS, []).cpu == 0, "a pod that did not run used no processor"
    assert use_between(Counts(), waits(7.0), SECONDS, []).cpu is None


WRONG = [
    *("CpuTime(1) + WallTime(1)", "WallPart(0.4) - CpuPart(0.1)", "CpuPart(0.4) < WallPart(0.1)"),
    *("part: WallPart = CpuTime(1) / WallTime(1)", "CpuTime(1) + 1.0", "Waits(1.0)"),
]
RIGHT = ["CpuTime(1) + CpuTime(1)", "part: WallPart = CpuTime(1) / (CpuTime(1) / WallTime(1)) / WallTime(1)"]


PROJECT = Path(__file__).parents[4]


@pytest.mark.ci
def test_sum_of_two_units_is_a_mypy_error(tmp_path: Path) -> None:
    units = "from resctrl_hooks.observe.node.slowdown.units import CpuPart, CpuTime, WallPart, WallTime"
    lines = [units, "from resctrl_hooks.observe.node.slowdown.evidence.window import Waits", *RIGHT, *WRONG]
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(lines) + "\n")
    # A separate cache, as results of a run with other modules must not be shared.
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(PROJECT / ".mypy_cache/units"), str(snippet)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    wrong = {line.split(":")[1] for line in done.stdout.splitlines() if ": error: " in line}
    first = len(lines) - len(WRONG) + 1
    assert wrong == {str(number) for number in range(first, len(lines) + 1)}, done.stdout + done.stderr
