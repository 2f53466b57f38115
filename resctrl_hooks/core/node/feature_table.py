"""The table of features, in the order of their steps, with the facts that are needed before a feature is imported.

The RDT class precedes the group, which lives in the class, and swap limits precede the memtierd that swaps. Settings,
configuration, hooks, reconcile and `explain` read this table.
"""

from .names import STATE_DIR
from .part import SELECTED, Row
from .parts import PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    class Sections:
        """The sections of core's features in the settings; mypy finds misspelt names."""

        rdt: "dict[str, Any]"
        monitoring: "dict[str, Any]"
        blockio: "dict[str, Any]"
        scheduling: "dict[str, Any]"
        memory: "dict[str, Any]"
        memtierd: "dict[str, Any]"


RDT, MONITORING = "rdt", "monitoring"
"""The features on the way of every container: its RDT class, and its pod's group in this class."""

AUTO = "auto"
"""Of ``monitoring.enabled``: groups where the node can have them; elsewhere containers are only recorded."""

_MEMORY_MARKS = ("memtierd.nri.io", "memory-qos.nri.io")

_OF_CORE = {
    "rdt": Row(
        1,
        "core.node.features.rdt_class",
        "rdt",
        {"enabled": False},
        adjustable=2,
        needs="core.node.records:ClassNeeds",
    ),
    "monitoring": Row(
        2,
        "core.node.features.monitoring",
        "",
        {
            "enabled": AUTO,
            "release": "pod",
            "events": ("mbm_total_bytes", "mbm_local_bytes"),
            "classCounters": "while-free",
            "takeOver": False,
            "exec": "watch",
            "memoryDomains": "auto",  # as `capacity`, read by the guard and by people only
        },
        SELECTED,
        leaves=("released-counters",),
        needs="core.node.records:ClassNeeds",
    ),
    "blockio": Row(
        4,
        "core.node.features.blockio",
        "blockio",
        {"enabled": False},
        adjustable=4,
        needs="core.node.records:CgroupNeeds",
    ),
    "scheduling": Row(
        5,
        "core.node.features.scheduling",
        "scheduling",
        {"enabled": False},
        adjustable=5,
        needs="core.node.records:SchedulingNeeds",
    ),
    "memory": Row(
        6,
        "core.node.features.memory",
        _MEMORY_MARKS,
        {"allow": {"*": ["*"]}},
        by_class="name",
        by_list="unified_annotations",
        policies=("memory", "memtierd"),
        adjustable=1,
        needs="core.node.records:LimitNeeds",
    ),
    "memtierd": Row(
        7,
        "core.node.features.memtierd.feature",
        _MEMORY_MARKS,
        {
            "allow": {"*": ["*"]},
            "runDir": f"{STATE_DIR}/memtierd",
            "binary": "memtierd",
            "supervisor": "auto",
            "startSeconds": 0.2,
            "memoryMax": "512M",
        },
        by_class="memtierdconfig",
        policies=("memtierd", "memory"),
        most_starts=5,
        reverts=True,
        needs="core.node.records:MemtierdNeeds",
    ),
}


def _rank(item: "tuple[str, Row]") -> int:
    return item[1].rank


FEATURES = dict(_OF_CORE)
KEYS: "dict[str, Any]" = {}
"""The keys of the settings that parts add beside the sections of features, with their defaults."""
for _part in PARTS:
    FEATURES.update(_part.get("features", {}))
    for _name, _default in _part.get("keys", {}).items():
        if _name in _OF_CORE:
            _OF_CORE[_name].defaults.update(_default)
        else:
            KEYS[_name] = _default
FEATURES = dict(sorted(FEATURES.items(), key=_rank))
