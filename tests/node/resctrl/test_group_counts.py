"""New values of a group, and the kept data after them."""

from typing import Any

from resctrl_hooks.node.resctrl.group_counts import GroupCounts


def read_on(record: list[Any], times: list[Any], numbers: list[Any], now: float, **how: Any) -> tuple[Any, Any]:
    kept: Any = {"groups": {"": record}, "times": {"": times}}
    group = GroupCounts.of_record(kept, "", now)
    group.read(numbers, now, **how)
    group.keep(kept, "")
    return kept["groups"][""], kept["times"][""]


def counted_on(record: list[Any], numbers: list[Any]) -> Any:
    return read_on(record, [0.0, 0, 0.0], numbers, 1.0)[0]


def timed_on(record: list[Any], before: list[Any], numbers: list[Any], now: float, **how: Any) -> Any:
    return read_on(before, record, numbers, now, **how)[1]


def test_assigned_counter_has_counted_since_its_assignment() -> None:
    before = ["ab", [3, None], [None, None]]  # of the second no start value is known
    times = [10.0, [4.0, 4.0], 20.0]
    assert timed_on(times, before, [6, 7], 21.0, fresh=False) == [10.0, [5.0, 5.0], 21.0]
    assert timed_on(times, before, [6, 7], 21.0, fresh=False, began=20.25) == [10.0, [4.25, 5.0], 21.0]
    assert timed_on(times, before, [None, 7], 21.0, fresh=False, began=20.25) == [10.0, [5.0, 5.0], 21.0]
    assert timed_on(times, before, [6, 7], 21.0, fresh=False, began=19.0) == [10.0, [4.0, 5.0], 21.0]


def test_silent_event_leaves_others_counting() -> None:
    assert counted_on(["ab", 0, [5, 7]], [6, None]) == ["ab", 0, [6, 7]]
    assert counted_on(["ab", 0, [5, None]], [6, 3]) == ["ab", 0, [6, 3]]
    assert counted_on(["ab", [1, 2], [5, 7]], [4, 8]) == ["ab", [2, 2], [4, 8]]


def test_gap_lasts_while_a_counter_did_not_count() -> None:
    before = ["ab", 0, [5, 7]]
    assert timed_on([10.0, 0, 20.0], before, [6, 7], 50.0, fresh=False) == [10.0, 0, 50.0]
    assert timed_on([10.0, 0, 20.0], before, [6, None], 50.0, fresh=False) == [10.0, [0, 30.0], 50.0]
    assert timed_on([10.0, [1, 2], 20.0], before, [4, 8], 50.0, fresh=False) == [10.0, [31.0, 2], 50.0]


def test_only_new_group_has_count_before_its_first_value() -> None:
    before = ["ab", 0, [None]]
    assert timed_on([10.0, 0, 20.0], before, [6], 50.0, fresh=True) == [10.0, 0, 50.0]
    assert timed_on([10.0, 0, 20.0], before, [6], 50.0, fresh=False) == [10.0, [30.0], 50.0]
