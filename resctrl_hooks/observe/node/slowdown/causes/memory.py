"""Memory: the pod waits for reclaim, because it reached its own limit."""

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

NAME = "memory-limit"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether the pod waits for memory."""
    part = plain(case.part(lambda use: use.reclaimed))
    events = sum(use.memory_events or 0 for use in case.uses)
    if part is None:
        return Cause(NAME, UNKNOWN, "the kernel counts no memory pressure of its cgroup")
    text = f"it waited for memory for {part:.0%} of the time"
    if part < WAITED:
        return Cause(NAME, EXCLUDED, text)
    if events:
        return Cause(NAME, SUPPORTED, f"{text}, and reached its own limit {events} times")
    return Cause(NAME, UNKNOWN, f"{text}, without reaching its limit")


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield more memory."""
    what = "a higher memory limit for {name} (`resources.limits.memory`), or another memory class (`classes`)"
    yield Remedy(what.format(name=facts.name))
