"""Details of a container from records of any version."""

from typing import TYPE_CHECKING, Any

import pytest

from resctrl_hooks.core.inventory.details import details_of
from resctrl_hooks.core.inventory.feature_display.table import display, names

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord

BGS = {"feature": "scheduling", "action": "schedule", "needs": {"class": "bg", "process": {"nice": 10}}}


def member(*steps: Any) -> "MemberRecord":
    record: Any = {"id": "c" * 64, "steps": list(steps)}
    found: MemberRecord = record
    return found


@pytest.mark.parametrize("needs", [{}, None, {"class": None, "limits": None, "names": ["a"], "decision": "?"}])
@pytest.mark.parametrize("feature", ["memory", "memtierd", "placement", "blockio", "rdt"])
def test_record_of_another_version_hides_no_other_feature(feature: str, needs: Any) -> None:
    steps = ({"feature": feature, "action": "?", "needs": needs}, BGS)
    found = details_of(member(*steps))
    assert found["scheduling"] == {"class": "bg", "nice": 10}
    assert (feature in found) != (feature in found.get("unreadable", {}))
    for row in map(display, names()):
        assert row.columns is None or len(row.columns.cells([found])) == len(row.columns.heads)


def test_step_without_parameters_is_named() -> None:
    found = details_of(member({"feature": "memory", "action": "limit"}, BGS))
    assert found["unreadable"] == {"memory": "KeyError: 'needs'"}
