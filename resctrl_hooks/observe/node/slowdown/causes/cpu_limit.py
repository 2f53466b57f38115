"""The pod's own CPU limit (``cpu.max``): it stops the pod's tasks, also on idle CPUs."""

from ..constants import WAITED
from ..evidence.cpu.lost_time import mean_lost
from ..units import plain
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .remedy import CPU_MAX, OWN_MAX, Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "cpu-limit"
_SPARE = 1.25


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether its limit stops the pod."""
    part = plain(case.part(lambda use: use.throttled))
    times = sum(use.throttles or 0 for use in case.uses)
    if part is None:
        return Cause(NAME, UNKNOWN, "cpu.stat has no throttled_usec")
    if part >= WAITED:
        text = f"its own CPU limit stopped it {times} times, for {part:.0%} of the time"
        lost = mean_lost([use.lost for use in case.uses])
        # Above what it wanted: a limit is of each 100 ms, and no period is as the mean.
        values = {OWN_MAX: f"{_SPARE * (lost.used + lost.limited):.2g}"} if lost else {}
        return Cause(NAME, SUPPORTED, text, values=values)
    return Cause(NAME, EXCLUDED, f"its own CPU limit stopped it for {part:.0%} of the time")


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield a higher limit, or the end of one for a time."""
    owner = facts.owner(facts.key, CPU_MAX)
    if owner:
        yield Remedy(f"end its limit by {owner}: `resctrl-hook unlimit {facts.name}`")
    value = float(cause.values.get(OWN_MAX, 0))
    least = f" of at least {value:g} CPUs" if value else ", higher than now,"
    command = facts.own(CPU_MAX, f"{100 * value:.0f}") if value else ""
    text = f"a CPU limit{least} for {facts.name} (`resources.limits.cpu`), or fewer threads in it"
    yield Remedy(f"{text}{command}", OWN_MAX, value=value)
