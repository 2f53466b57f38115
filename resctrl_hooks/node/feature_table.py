"""The features, a row each, in the order in which their steps are done: all that is known of one without importing it.

The RDT class comes before the group, which lives in the class, and permission to swap before the memtierd that swaps.
A feature has the name of its section of the settings. Settings, configuration, hooks, reconcile and `explain` read
this table; what a feature does is in its own module.
"""

from .names import STATE_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    class Sections:
        """Each feature's section of the settings, with its defaults; so mypy finds a misspelt name."""

        rdt: "dict[str, Any]"
        monitoring: "dict[str, Any]"
        placement: "dict[str, Any]"
        blockio: "dict[str, Any]"
        scheduling: "dict[str, Any]"
        memory: "dict[str, Any]"
        memtierd: "dict[str, Any]"


MEMTIERD_MARK = "memtierd.nri.io"

# name: its module below `features`; what stands in the names of all annotations that ask for it ("" where other things
# do); its section's defaults. What has none is empty, or not there.
FEATURES: "dict[str, tuple[str, str, dict[str, Any]]]" = {
    "rdt": ("rdt_class", "rdt", {"enabled": False}),
    "monitoring": (
        "monitoring",
        "",
        {
            "enabled": True,
            "release": "pod",
            "events": ("mbm_total_bytes", "mbm_local_bytes"),
            "classCounters": "while-free",
            "takeOver": False,
            "exec": "watch",
        },
    ),
    "placement": (
        "placement.feature",
        "",
        {"enabled": False, "policy": "topology-aware", "pinMemory": True, "kubeletPath": "/var/lib/kubelet"},
    ),
    "blockio": ("blockio", "blockio", {"enabled": False}),
    "scheduling": ("scheduling", "scheduling", {"enabled": False}),
    "memory": ("memory", MEMTIERD_MARK, {"allow": {"*": ["*"]}}),
    "memtierd": (
        "memtierd.feature",
        MEMTIERD_MARK,
        {
            "allow": {"*": ["*"]},
            "runDir": f"{STATE_DIR}/memtierd",
            "binary": "memtierd",
            "supervisor": "auto",
            "startSeconds": 0.2,
            "memoryMax": "512M",
        },
    ),
}

# Features that have no ``enabled``: they are in use where a memory class has this key.
BY_CLASS = {"memory": "name", "memtierd": "memtierdconfig"}

# Features that refuse by default, as the memtierd plugin does: a workload must not run with another memory policy than
# was asked for without anybody noticing. Of these sections the first that has a failurePolicy counts.
REFUSES_BY_DEFAULT = {"memory": ("memory", "memtierd"), "memtierd": ("memtierd", "memory")}
