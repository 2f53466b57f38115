"""The pod's own CPU limit (``cpu.max``): it stops the pod's tasks, also on idle CPUs."""

from ..constants import WAITED
from ..units import plain
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .remedy import Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "cpu-limit"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether its limit stops the pod."""
    part = plain(case.part(lambda use: use.throttled))
    times = sum(use.throttles or 0 for use in case.uses)
    if part is None:
        return Cause(NAME, UNKNOWN, "cpu.stat has no throttled_usec")
    if part >= WAITED:
        text = f"its own CPU limit stopped it {times} times, for {part:.0%} of the time"
        return Cause(NAME, SUPPORTED, text)
    return Cause(NAME, EXCLUDED, f"its own CPU limit stopped it for {part:.0%} of the time")


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield a higher limit."""
    yield Remedy(f"a higher CPU limit for {facts.name} (`resources.limits.cpu`), or fewer threads in it")
