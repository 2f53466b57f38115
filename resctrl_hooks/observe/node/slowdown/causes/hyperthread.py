"""The other hyperthread of a core: tasks there use the same units, and the pod's cycles count on.

No general performance counter tells how much that costs. So it is excluded where the others stand still, or where cores
have one hyperthread each, and unknown otherwise.
"""

from .....core.node.host.cpulist import union
from ..constants import IDLE_SIBLING
from .cause import EXCLUDED, NO_BASELINE, SAME_COST, UNKNOWN, Cause
from .remedy import Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "hyperthread"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether tasks on the other hyperthreads may slow the pod."""
    windows = [window for window in case.windows if window.node.processors]
    if not windows or not windows[-1].node.cores:
        return Cause(NAME, UNKNOWN, "the hyperthreads of its cores are not known")
    shared = [core for core in windows[-1].node.cores if core & core - 1]
    if not shared:
        return Cause(NAME, EXCLUDED, "the cores of this node have one hyperthread each")
    cpus = next((use.cpus for use in reversed(case.uses) if use.cpus), 0) or case.windows[-1].online
    near = union([core for core in shared if core & cpus])
    others = near & ~cpus or near
    busy = sum([one.contests.spent(others).tasks for one in windows]) / len(windows) if near else 0.0
    text = f"the other hyperthreads of its cores are busy for {busy:.0%} of the time"
    if busy < IDLE_SIBLING:
        return Cause(NAME, EXCLUDED, text)
    if case.verdict.dearer is None:
        return Cause(NAME, UNKNOWN, f"{text}; {NO_BASELINE}")
    if not case.is_dearer:
        return Cause(NAME, EXCLUDED, SAME_COST)
    return Cause(NAME, UNKNOWN, f"{text}, and no counter tells what that costs")


def is_suspect(case: "Case", judged: "Judged") -> bool:
    """Return whether the other hyperthreads are busy while the pod's work is dear."""
    return case.is_dearer and judged[NAME].state == UNKNOWN and any(window.node.cores for window in case.windows)


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield whole cores for the victim."""
    yield Remedy(f"whole cores for {facts.name}: `placement`")
