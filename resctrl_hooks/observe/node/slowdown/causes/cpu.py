"""The CPU: the pod's tasks wait to run while others use the CPUs that it may use."""

from ..case import mean
from ..constants import WAITED
from ..units import WallPart
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .culprits import smallest_set
from .remedy import Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "cpu-contention"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether the pod waits for CPUs, and who uses them."""
    waited, throttled = case.part(lambda use: use.waited), case.part(lambda use: use.throttled)
    stolen = mean([float(window.stolen) for window in case.windows]) or 0.0
    if stolen >= WAITED:
        return Cause(NAME, SUPPORTED, f"the hypervisor took {stolen:.0%} of the CPUs' time")
    if waited is None:
        return Cause(NAME, UNKNOWN, "the kernel counts no CPU pressure of its cgroup")
    part = max(0.0, float(waited - (throttled or WallPart(0.0))))
    text = f"it waited for a CPU for {part:.0%} of the time"
    if part < WAITED:
        return Cause(NAME, EXCLUDED, text)
    return Cause(NAME, SUPPORTED, text, tuple(smallest_set(case.runners())))


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield more CPUs for the victim."""
    yield Remedy(f"CPUs of its own for {facts.name}: `placement`")
    yield Remedy(f"or a larger CPU request of {facts.name} (`resources.requests.cpu`)")
