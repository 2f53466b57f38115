"""Decisions on execs."""

import pytest

from resctrl_hooks.node.watch.decision import MOVE, NOTHING, UNKNOWN, decide


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
