"""All causes, in the order in which they are listed. A further resource is one more module and one more entry here."""

from ..case import Case
from ..constants import TRAFFIC
from ..verdict import SLOWED_WORD, UNCOUNTED
from ..verdict import UNKNOWN as UNKNOWN_WORD
from . import bandwidth, cache, cpu, cpu_limit, disk, frequency, hyperthread, memory, own_change, reclaim
from .cause import SUPPORTED, Cause
from .parts import with_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..evidence.window import Window
    from ..verdict import Verdict
    from .cause import Rule

_RULES: "tuple[Rule, ...]" = (
    bandwidth,
    cache,
    cpu_limit,
    cpu,
    frequency,
    hyperthread,
    memory,
    reclaim,
    disk,
    own_change,
)
CAUSES: "dict[str, Rule]" = {rule.NAME: rule for rule in _RULES}


class _Judged(dict[str, Cause]):
    """The causes of a case that were asked for so far."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    def __missing__(self, name: str) -> Cause:
        found = self[name] = CAUSES[name].judge(self._case, self)
        return found


def causes_of(windows: "Sequence[Window]", key: str, verdict: "Verdict", *, is_advised: bool = True) -> "list[Cause]":
    """Return each cause's state for a pod in the last windows; ``is_advised``: with the values of its remedies."""
    case = Case(windows, key, verdict, is_advised=is_advised)
    judged = _Judged(case)
    return with_parts(case, [judged[name] for name in CAUSES])


def is_supported(name: str, windows: "Sequence[Window]", key: str, verdict: "Verdict") -> bool:
    """Return whether one cause is supported in the last windows, without a look at the others."""
    return _Judged(Case(windows, key, verdict))[name].state == SUPPORTED


def confirmed(verdict: "Verdict", causes: "Sequence[Cause]") -> "Verdict":
    """Return the verdict; an estimate by `TRAFFIC` counts only together with a cause that has its own evidence.

    The same change of a program's traffic may be another kind of work.
    """
    if verdict.method != TRAFFIC or verdict.verdict != SLOWED_WORD or any(one.state == SUPPORTED for one in causes):
        return verdict
    why = f"its traffic fell to 1/{verdict.ratio:.2f} of that in quiet times, which other work explains, too"
    if verdict.reason.startswith(UNCOUNTED):
        why = f"{UNCOUNTED}; it waited, and no cause has evidence of its own"
    return verdict._replace(
        verdict=UNKNOWN_WORD,
        reason=why,
        ratio=None,
        low=None,
        high=None,
    )
