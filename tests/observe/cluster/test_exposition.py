"""Reading of a node's metrics."""

import pytest

from resctrl_hooks.observe.cluster.exposition import labels_of, parse


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_other_line_separators_in_a_label_end_no_line(separator: str) -> None:
    series = f'resctrl_up{{pod="a{separator}b"}}'
    (found,) = parse(f"{series} 1\n", {"resctrl_up": ""})
    assert labels_of(found) == {"pod": f"a{separator}b"}
