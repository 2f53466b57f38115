"""The memory domains of a moment of the history in `top`."""

from typing import Any

import pytest

from resctrl_hooks.observe.cli.top_past import _memory
from resctrl_hooks.observe.node.history.rows import CAPACITY, TRAFFIC


@pytest.mark.parametrize(
    "values, expected",
    [
        ({TRAFFIC: 30.0, CAPACITY: 80.0}, (30.0, 80.0, 37.5)),
        ({TRAFFIC: 0.0, CAPACITY: 80.0}, (0.0, 80.0, 0.0)),
        ({CAPACITY: 80.0}, (None, 80.0, None)),
        ({TRAFFIC: 30.0}, (30.0, None, None)),
    ],
)
def test_load_needs_a_rate_and_a_capacity(values: dict[str, Any], expected: tuple[float | None, ...]) -> None:
    found = _memory({"kind": "memory", "key": "mon_L3_02 mon_L3_03", **values})
    assert (found.domain, found.l3) == (2, [2, 3])
    assert (found.memory_bandwidth_bytes_per_second, found.capacity_bytes_per_second, found.load_percent) == expected
