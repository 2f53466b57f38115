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


CLASS, GROUP, CONTAINER, NODE = "class", "group", "container", "node"
"""What a feature's steps concern: the container's RDT class, its pod's group, the container alone, the whole node."""

SELECTED, LISTED = "selected", "listed"
"""How the settings name the containers that a feature serves: by the general selection, or by its ``namespaces``."""


class Row:
    """All that is known of a feature without importing it.

    Args:
        module: its module below `features`.
        mark: what stands in the names of all annotations that ask for it; empty where other things do.
        defaults: its section of the settings, where nothing is said.
        kind: what its steps concern, one of the four above.
        serves: SELECTED or LISTED; empty where annotations and classes say whom it serves.
        by_class: the key of a memory class that turns it on; empty where ``enabled`` in its section does.
        policies: the sections whose first ``failurePolicy`` counts; empty for its own. One that has some refuses by
            default, as the memtierd plugin does: a workload must not run with another memory policy unnoticed.
        most_starts: how often it is started again within an hour, where it may end by itself; 0 where it does not.
    """

    __slots__ = ("by_class", "defaults", "kind", "mark", "module", "most_starts", "policies", "serves")

    def __init__(
        self,
        module: str,
        mark: str,
        defaults: "dict[str, Any]",
        kind: str = CONTAINER,
        serves: str = "",
        by_class: str = "",
        policies: "tuple[str, ...]" = (),
        most_starts: int = 0,
    ) -> None:
        self.module = module
        self.mark = mark
        self.defaults = defaults
        self.kind = kind
        self.serves = serves
        self.by_class = by_class
        self.policies = policies
        self.most_starts = most_starts


_MEMTIERD_MARK = "memtierd.nri.io"

FEATURES: "dict[str, Row]" = {
    "rdt": Row(
        "rdt_class",
        "rdt",
        {
            "enabled": False,
            # Read by the guard's own process only.
            "guard": {"mode": "off", "protect": [], "throttle": {}, "high": 0.85, "low": 0.70, "interval": 1.0},
        },
        CLASS,
    ),
    "monitoring": Row(
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
        GROUP,
        SELECTED,
    ),
    "placement": Row(
        "placement.feature",
        "",
        {"enabled": False, "policy": "topology-aware", "pinMemory": True, "kubeletPath": "/var/lib/kubelet"},
        NODE,
        LISTED,
    ),
    "blockio": Row("blockio", "blockio", {"enabled": False}),
    "scheduling": Row("scheduling", "scheduling", {"enabled": False}),
    "memory": Row("memory", _MEMTIERD_MARK, {"allow": {"*": ["*"]}}, by_class="name", policies=("memory", "memtierd")),
    "memtierd": Row(
        "memtierd.feature",
        _MEMTIERD_MARK,
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
    ),
}
