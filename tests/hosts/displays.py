"""What the display of a feature presents."""

from typing import Any

from conftest import Host, workload_of

from resctrl_hooks.core.inventory.feature_display.model import Found
from resctrl_hooks.core.inventory.feature_display.table import display
from resctrl_hooks.core.node.feature import Step


def cells(feature: str, *containers: dict[str, Any]) -> tuple[str, ...]:
    columns = display(feature).columns
    assert columns is not None
    return tuple(columns.cells(containers))


def described(feature: str, record: dict[str, Any], needs: dict[str, Any]) -> dict[str, Any]:
    given: Any = record
    return display(feature).describe(given, [{"feature": feature, "action": "a", "needs": needs}])


def probed(feature: str, host: Host, needs: dict[str, Any]) -> Found:
    return display(feature).probe(Step(feature, "a", needs, ""), workload_of(host), host.context())
