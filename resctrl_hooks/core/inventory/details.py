"""Results of the features for a container, from its record, as `feature_display.table` shows them."""

from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.node.errors import HookError

from .feature_display.memory import CGROUP, memory_of
from .feature_display.table import display

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord, StepRecord


def details_of(record: "MemberRecord") -> dict[str, Any]:
    """Return a container's details: the result of each feature, missing features, memory limits.

    A record of a feature in an unknown format is reported as unreadable.
    """
    steps: dict[str, list[StepRecord]] = {}
    for step in record.get("steps") or []:
        steps.setdefault(str(step.get("feature", "")), []).append(step)
    found: dict[str, dict[str, Any]] = {}
    unreadable: dict[str, str] = {}
    for name, own in steps.items():
        try:
            found[name] = display(name).describe(record, own)
        except Exception as error:  # noqa: BLE001  # one record must not hide the node's other pods
            unreadable[name] = str(error) if isinstance(error, HookError) else f"{type(error).__name__}: {error}"
    found["without"] = dict(record.get("unmet") or {})
    found["kept"] = {name: "; ".join(values) for name, values in (record.get("kept") or {}).items()}
    found["unreadable"] = unreadable
    found[CGROUP] = memory_of(str(record.get("cgroup", "")))
    return {name: values for name, values in found.items() if values}
