"""No alarm without a loss: random windows of one pod, judged after each as the sampling process does."""

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from observe.node.slowdown.samples import SECONDS, VICTIM, use, window
from resctrl_hooks.observe.node.slowdown.baseline.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.causes.table import causes_of, confirmed
from resctrl_hooks.observe.node.slowdown.constants import JUDGED, SLOWED
from resctrl_hooks.observe.node.slowdown.evidence.alone import teaches
from resctrl_hooks.observe.node.slowdown.evidence.cpu.lost_time import Lost
from resctrl_hooks.observe.node.slowdown.evidence.disks import DiskWork
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.units import WallPart
from resctrl_hooks.observe.node.slowdown.verdict import judge, latest

NEAR = 0.9
"""An alarm is right from this part of `SLOWED`: what waits cost is known within 15 %."""

NOTICED = 0.03
"""Waits of a smaller part of the time are wake-ups."""


class Seen(NamedTuple):
    """A window, and what is true of it."""

    use: Use
    took: float
    """Seconds by second that the pod's work took."""
    alone: float
    """That it would have taken alone."""


def seen(ran: float, late: float = 0.0, own: float = 0.0, **more: Any) -> Seen:
    """Return a window in which the pod ran, lost time to others, and waited for its own disk."""
    return Seen(use(None, cpu=ran, user=0.8 * ran, **more), ran + late + own, ran + own)


def waited(ran: float, part: float, *, limited: bool) -> Seen:
    """Return a window in which a part of the pod's time is lost to its own limit or to others' work on its CPUs."""
    lost = ran * part / (1 - part)
    own, others = (lost, 0.0) if limited else (0.0, lost)
    pressure = WallPart(part * min(1.0, ran + lost))
    values: dict[str, Any] = {
        "waited": pressure,
        "stood": pressure,
        "throttled": WallPart(own and float(pressure)),
        "throttles": 9,
    }
    return seen(ran, lost, **values, lost=Lost(ran, others, own))


def on_disk(ran: float, share: float, waits: float, *, parallel: bool) -> Seen:
    """Return a window in which the pod reads a disk that it has for itself, or one that serves all as fast as one."""
    time = 0.0004 if parallel else 0.002
    queued = waits
    disk = DiskWork(f"disk{parallel:d}", queued / time, 65536.0, queued, share if parallel else 1.0, 1.0, not parallel)
    return seen(ran, own=waits, blocked=WallPart(waits), blocked_fully=WallPart(waits), disk=disk)


def reclaimed(ran: float, part: float) -> Seen:
    """Return a window in which a part of the pod's time is lost to reclaim."""
    lost = ran * part / (1 - part)
    return seen(ran, lost, reclaimed=WallPart(lost), reclaimed_fully=WallPart(lost))


NO, YES = st.sampled_from([False]), st.sampled_from([True])
CPU = st.floats(0.05, 0.9)
RESTS = st.builds(seen, st.floats(0.02, 0.1))
BUSY = st.builds(seen, st.floats(0.5, 6.0))
SHORT = st.builds(waited, CPU, st.floats(0.0, 0.1), limited=st.booleans())
SPIKE = st.builds(waited, CPU, st.floats(0.3, 0.9), limited=st.booleans())
OWN_DISK = st.builds(on_disk, st.floats(0.02, 0.2), st.just(1.0), st.floats(0.1, 0.75), parallel=NO)
FAST_DISK = st.builds(on_disk, st.floats(0.02, 0.2), st.floats(0.1, 0.9), st.floats(0.1, 0.75), parallel=YES)
RECLAIM = st.builds(reclaimed, CPU, st.floats(0.0, 0.04))
KINDS = st.sampled_from([RESTS, BUSY, SHORT, OWN_DISK, FAST_DISK, RECLAIM]).flatmap(lambda kind: kind)


@given(st.lists(KINDS | SPIKE, min_size=3, max_size=24), st.booleans())
def test_pod_is_slowed_by_waits_if_and_only_if_its_work_took_longer(windows: list[Seen], learns: bool) -> None:
    baseline, found = Baseline(), []
    for number, one in enumerate(windows):
        if learns and teaches(one.use):
            baseline.alone.learn(one.use, SECONDS)
        found.append(window(number, victim=one.use))
        judged = windows[max(0, number + 1 - JUDGED) : number + 1]
        now = latest(found[-JUDGED:], VICTIM, JUDGED)
        verdict = judge(now, VICTIM, baseline if learns else None)
        verdict = confirmed(verdict, causes_of(now, VICTIM, verdict))
        truth = sum(each.took for each in judged) / sum(each.alone for each in judged)
        if verdict.verdict == "slowed":
            assert truth >= NEAR * SLOWED, (truth, verdict)
        late = sum(each.took - each.alone for each in judged) / len(judged)
        is_long = late >= NOTICED * max(1.0, sum(each.took for each in judged) / len(judged))
        if is_long and truth >= 1.25 and not any(each.use.disk for each in judged):
            assert verdict.verdict == "slowed", (truth, verdict)
