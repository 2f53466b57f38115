"""The processor's frequency: fewer cycles by reference cycle than in quiet times."""

from ..constants import SLOWER_CLOCK
from .cause import EXCLUDED, NO_BASELINE, SUPPORTED, UNKNOWN, Cause
from .remedy import Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "frequency"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether the processor runs slower than in quiet times."""
    usual = case.usual("clock")
    now = case.mean(lambda use: use.clock)
    if now is None or not usual:
        return Cause(NAME, UNKNOWN, "reference cycles are not counted" if now is None else NO_BASELINE)
    text = f"the processor runs at {now / usual:.0%} of its usual frequency"
    if now < SLOWER_CLOCK * usual:
        return Cause(NAME, SUPPORTED, text, factor=usual / now)
    return Cause(NAME, EXCLUDED, text)


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield where to look."""
    yield Remedy("look for the node's power or temperature limit; `resctrl-hook top` shows which pods use the power")
