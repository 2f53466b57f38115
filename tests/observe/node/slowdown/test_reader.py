"""A pod's counters at one moment, from its readings."""

import pytest

from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    WAITING,
    Reading,
    slot_at,
)
from resctrl_hooks.observe.node.slowdown.reader import counts_of

SLOT = slot_at("mon_L3_00/mbm_total_bytes")


@pytest.mark.parametrize(
    "states, expected",
    [
        ([AVAILABLE], 7),
        ([WAITING], 7),
        ([UNASSIGNED], 7),
        ([ERROR], None),
        ([UNAVAILABLE], None),
        ([AVAILABLE, AVAILABLE], 14),
        ([AVAILABLE, ERROR], None),
        ([ERROR, AVAILABLE], None),
    ],
)
def test_traffic_is_unknown_while_a_counter_has_no_value(states: list[str], expected: int | None) -> None:
    """A total that stays would be an idle pod now, and the traffic of two windows in the next one."""
    readings = [Reading(SLOT.domain, SLOT.counter, 7, state, rdt_class) for rdt_class, state in enumerate(states)]  # type: ignore[arg-type]  # any names
    assert counts_of(readings, [], None).traffic == {0: (expected, None)}
