"""What the features did for a container, told from its record, as `feature_display.table` says."""

from typing import TYPE_CHECKING, Any

from .feature_display.memory import CGROUP, memory_of
from .feature_display.model import Display
from .feature_display.table import DISPLAYS

if TYPE_CHECKING:
    from resctrl_hooks.node.records import MemberRecord, StepRecord

_OF_ANOTHER_VERSION = Display()


def details_of(record: "MemberRecord") -> dict[str, Any]:
    """What to show of a container beside its threads: what each feature did, what it lacks, its memory limits."""
    steps: dict[str, list[StepRecord]] = {}
    for step in record.get("steps") or []:
        steps.setdefault(str(step.get("feature", "")), []).append(step)
    found = {name: DISPLAYS.get(name, _OF_ANOTHER_VERSION).describe(record, own) for name, own in steps.items()}
    found["without"] = dict(record.get("unmet") or {})
    found[CGROUP] = memory_of(str(record.get("cgroup", "")))
    return {name: values for name, values in found.items() if values}
