"""Decisions on execs, and the limit of their rate."""

import pytest

from resctrl_hooks.node.watch.decision import MOVE, NOTHING, UNKNOWN, Load, decide


@pytest.mark.parametrize(
    "where, known, in_container, action",
    [
        (("", ""), True, True, MOVE),
        (("gold", ""), True, True, MOVE),
        (None, True, True, MOVE),  # the kernel doesn't say
        (("", "pod"), True, True, NOTHING),  # in its group, or in a foreign one
        (("", ""), False, True, NOTHING),  # recorded, and not to be monitored
        (("", ""), None, True, UNKNOWN),  # its hook may have failed
        (("", ""), None, False, NOTHING),  # a process of the host
    ],
)
def test_decision_follows_group_record_and_cgroup(
    where: "tuple[str, str] | None", known: "bool | None", in_container: bool, action: str
) -> None:
    assert decide(where, known, in_container=in_container) == action


def test_load_is_counted_per_second() -> None:
    load = Load(10)
    assert not load.is_too_much(10, 5.0)
    assert load.is_too_much(1, 5.9)
    assert not load.is_too_much(10, 6.0)
    assert load.is_too_much(11, 7.5)
