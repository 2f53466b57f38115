"""The one rule of totals, and the events that choose a last value."""

from typing import TYPE_CHECKING, Any

import pytest
from hosts.counter_tree import ENERGY, TOTAL

from resctrl_hooks.core.node.resctrl.counters import ERROR, UNASSIGNED, UNAVAILABLE
from resctrl_hooks.core.node.resctrl.total import Source, Total

if TYPE_CHECKING:
    from resctrl_hooks.core.node.resctrl.counters import Raw


class Reads:
    """A total and its only source, first read at 10 s."""

    def __init__(self, starts: dict[str, float | None] | None = None) -> None:
        self.total = Total()
        self.source = Source("1", 10.0, starts)

    def at(self, now: float, value: "Raw", path: str = TOTAL, since: float | None = None) -> tuple[float, float]:
        """Return the amount and the seconds after a value; -1 for an amount that was never counted."""
        self.total.add(self.source, [(path, value)], now, since)
        return self.total.amounts.get(path, -1), self.total.seconds.get(path, 0.0)


@pytest.mark.parametrize(
    "reads",
    [
        [((20, 5), (5, 0)), ((30, 7), (7, 10)), ((35, 7), (7, 15))],
        *([((20, 5), (5, 0)), ((30, word), (5, 0)), ((40, 8), (8, 10))] for word in (None, ERROR, UNAVAILABLE)),
        [((20, 5), (5, 0)), ((30, UNASSIGNED), (5, 0)), ((40, 3), (8, 0))],
        [((20, 5), (5, 0)), ((50, UNASSIGNED), (5, 0)), ((60, 2, TOTAL, 57.5), (7, 2.5))],
        [((20, 5), (5, 0)), ((30, 3), (5, 0)), ((40, 4), (6, 10))],
        [((20, 700.0, ENERGY, 10.0), (0, 0)), ((30, 702.5, ENERGY), (2.5, 10))],
    ],
    ids=[
        "adds its difference and the time since the last read",
        *(f"{word} keeps the last value" for word in ("no file", "error", "unavailable")),
        "unassigned begins at zero",
        "unassigned begins when it was assigned",
        "lower value is a new start",
        "energy without a start counts from its first value",
    ],
)
def test_value_is_added_to_its_total(reads: list[tuple[tuple[Any, ...], tuple[float, float]]]) -> None:
    of = Reads()
    for given, found in reads:
        assert of.at(*given) == found


@pytest.mark.parametrize("start, amount, seconds", [(4.0, 1.5, 10), (0.0, 5.5, 10), (6.0, 0, 0), (None, 0, 0)])
def test_first_value_counts_from_the_start(start: float | None, amount: float, seconds: float) -> None:
    assert Reads({ENERGY: start}).at(20, 5.5, ENERGY, since=10.0) == (amount, seconds)


def test_sum_of_fractions_is_exact() -> None:
    reads = Reads({ENERGY: 0.0})
    for tenths in range(1, 100):
        assert reads.at(10 + tenths, tenths / 10, ENERGY)[0] == tenths / 10


def test_energy_is_unused_until_something_was_counted() -> None:
    for start, value, expected in ((0.0, UNAVAILABLE, True), (2.0, UNAVAILABLE, False), (0.0, ERROR, False)):
        assert Reads({ENERGY: start}).source.is_unused(ENERGY, value) is expected
    reads = Reads({ENERGY: 0.0})
    reads.at(20, 1.0, ENERGY)
    assert not reads.source.is_unused(ENERGY, UNAVAILABLE)
