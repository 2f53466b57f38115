"""Windows of a made-up node: a victim and its neighbours, with what each one uses."""

from typing import Any

from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.causes.cause import Cause
from resctrl_hooks.observe.node.slowdown.causes.table import causes_of, confirmed
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.window import Window
from resctrl_hooks.observe.node.slowdown.units import CpuPart
from resctrl_hooks.observe.node.slowdown.verdict import Verdict, judge

VICTIM, NOISY, OTHER = "victim", "noisy", "other"
SECONDS = 10.0
WORK = 1e10
"""Instructions of the victim in a window."""


def use(price: float | None = 2.0, moved: float | dict[int, float] = 1e9, **more: Any) -> Use:
    """Return what a pod with perf events used; ``moved`` is in bytes per second, by domain or to domain 0."""
    traffic = moved if isinstance(moved, dict) else {0: moved}
    work = more.pop("work", WORK)
    cost = None if price is None else price * work
    waits = dict.fromkeys(("throttled", "waited", "stood", "reclaimed", "reclaimed_fully"), 0.0)
    values: dict[str, Any] = {"missed": 1.0, "clock": 1.0, "throttles": 0, "memory_events": 0, **waits}
    counted = {"method": "perf", "cost": cost, "work": None if price is None else work, "cpu": 1.0}
    found = Use(**{**counted, "traffic": traffic, "occupancy": {}, **values, **more})
    stood, throttled = float(found.stood or 0), float(found.throttled or 0)
    cpus = max(1.0, (found.cpu or 0.0) / (1 - stood - float(found.reclaimed_fully or 0)))
    lost = Lost(found.cpu or 0.0, max(0.0, stood - throttled) * cpus, throttled * cpus)
    return found if "lost" in more else found._replace(lost=lost)


def window(number: int, load: float | dict[int, float | None] | None = 0.1, **uses: Use) -> Window:
    """Return a window of pods by key; their traffic is all that there is."""
    loads = load if isinstance(load, dict) else {0: load}
    moved: dict[int, float | None] = {}
    for one in uses.values():
        for domain, rate in (one.traffic or {}).items():
            moved[domain] = (moved.get(domain) or 0.0) + rate
    return Window(number * SECONDS, SECONDS, loads, uses, CpuPart(0.0), moved)


def quiet_baseline(
    price: float = 2.0, samples: int = 20, beside: dict[str, float | None] | None = None, **more: Any
) -> Baseline:
    """Return a baseline of the victim's quiet samples, of which every other one is 2 % dearer."""
    found = Baseline()
    for number in range(samples):
        found.learn(use(price * (1 + 0.02 * (number % 2)), **more), SECONDS, beside=beside)
    return found


def diagnose(windows: list[Window], baseline: Baseline | None) -> tuple[Verdict, dict[str, Cause]]:
    """Return the victim's verdict, and its causes by name."""
    verdict = judge(windows, VICTIM, baseline)
    causes = causes_of(windows, VICTIM, verdict)
    return confirmed(verdict, causes), {one.cause: one for one in causes}


def verdict_of(ratio: float) -> Verdict:
    """Return the verdict on a pod that is slowed by a ratio, without a basis."""
    return Verdict("slowed", "", ratio, ratio, ratio, ratio, "perf", 10, 20)
