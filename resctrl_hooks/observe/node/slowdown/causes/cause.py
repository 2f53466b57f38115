"""A cause of a slowdown: its state by its own evidence, who has a part in it, and its part of the ratio."""

from types import MappingProxyType
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    from ..case import Case, Culprit
    from .remedy import Facts, Remedy

    Judged = Mapping[str, "Cause"]
    """All causes of a case by name; each is judged when it is first asked for."""

    class Rule(Protocol):
        """What the module of a cause has."""

        NAME: str
        """Its name in documents and metrics."""

        def judge(self, case: Case, judged: Judged) -> "Cause":
            """Return its state in a case; what it needs of others is in ``judged``. No two may need each other."""

        def remedies(self, cause: "Cause", facts: Facts) -> Iterator[Remedy]:
            """Yield what helps where it is supported, the best first; what cannot act on this node is left out."""


_NOTHING: "Mapping[str, str]" = MappingProxyType({})
SUPPORTED, EXCLUDED, UNKNOWN = "supported", "excluded", "unknown"
NO_BASELINE = "there is no baseline to compare its work with"
SAME_COST = "its work costs no more than in quiet times"


class Cause(NamedTuple):
    """One cause, with those who have a part in it, the largest first."""

    cause: str
    state: str
    text: str
    pods: "tuple[Culprit, ...]" = ()
    factor: "float | None" = None
    """Its factor of the ratio: the factors of causes that act at once multiply. None: unknown."""
    answer: str = ""
    """Which of a cause's different answers it is; empty: it has one only."""
    values: "Mapping[str, str]" = _NOTHING
    """What its remedies need: values that suffice, by what they set (`remedy`), or a name."""
