"""The pod's own memory limit: the pod waits for reclaim because it reached that."""

from ..constants import WAITED
from ..units import plain
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .remedy import MEMORY_MAX, Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "memory-limit"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether the pod waits for memory."""
    part = waited(case)
    events = sum(use.memory_events or 0 for use in case.uses)
    if part is None:
        return Cause(NAME, UNKNOWN, "the kernel counts no memory pressure of its cgroup")
    text = f"it waited for memory for {part:.0%} of the time"
    if part < WAITED:
        return Cause(NAME, EXCLUDED, text)
    if events:
        return Cause(NAME, SUPPORTED, f"{text}, and reached its own limit {events} times{bound(case)}")
    if all(use.memory_events is None for use in case.uses):
        return Cause(NAME, UNKNOWN, f"{text}; the kernel does not count how often it reached its limit")
    return Cause(NAME, EXCLUDED, f"{text}, without reaching its limit")


def waited(case: "Case") -> "float | None":
    """Return the part of the time for which the pod waited for memory, or for a disk with what was reclaimed from it.

    The kernel counts the latter as pressure of memory only for pages that were used often (psi.rst, mm/workingset.c).
    """
    part = plain(case.part(lambda use: use.reclaimed))
    return None if part is None else part + (case.mean(lambda use: use.again * float(use.blocked or 0)) or 0.0)


def bound(case: "Case") -> str:
    """Return in words that the factor of a lack of memory is a lower bound, if it is."""
    alone = case.verdict.alone
    if alone is None or alone.by_user is None:
        what = "what its work takes with enough memory is not known"
    elif case.verdict.dearer is None:
        what = "whether its own code runs as fast as then is not known"
    else:
        return ""
    return f"; {what}, so its factor is a lower bound"


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield more memory."""
    command = facts.own(MEMORY_MAX, "infinity")
    what = "a higher memory limit for {name} (`resources.limits.memory`, or its memory class); to try it"
    yield Remedy(f"{what.format(name=facts.name)}{command}" if command else what.format(name=facts.name)[:-11])
