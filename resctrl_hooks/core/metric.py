"""A metric as one row: name, sentence, labels, values. A house gives a table of its metrics in its part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from resctrl_hooks.core.node.context import Context

COUNTER: Final = "counter"


class Histogram(NamedTuple):
    """Numbers of observations up to each bound in seconds, one more without a bound, and the sum of all."""

    bounds: Sequence[float]
    counts: Sequence[int]
    seconds: float


Values = float | Histogram | None | Mapping[Any, float | Histogram]
"""One value; or values by the value of the label, or by those of several labels. None: nothing is known."""
Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Row(Generic[Facts]):
    """A metric. ``kind`` is gauge or counter; a `Histogram` among the values makes it a histogram."""

    name: str
    """Without the ``_total`` of a counter."""
    text: str
    values: Callable[[Facts], Values]
    labels: tuple[str, ...] = ()
    kind: str = "gauge"
    unit: str = ""

    @property
    def series(self) -> str:
        """Its name in queries."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


Status = Mapping[str, Any]
"""The content of a resident program's status file."""


class Table(NamedTuple):
    """Metrics with the same facts.

    Args:
        facts: returns the facts of a node, once for a scrape; None if the metrics do not exist now.
        rows: the metrics.
    """

    facts: Callable[[Context], Any]
    rows: tuple[Row[Any], ...]


def counter_of(name: str, text: str) -> Row[Status]:
    """Return the row of a number that only grows: ``nri_starts`` is the status's ``starts``."""
    return Row(f"resctrl_hooks_{name}", text, lambda status: status.get(name.partition("_")[2], 0), kind=COUNTER)
