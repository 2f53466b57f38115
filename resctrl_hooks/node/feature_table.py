"""The table of features, in the order of their steps, with the facts that are needed before a feature is imported.

The RDT class precedes the group, which lives in the class, and swap limits precede the memtierd that swaps. Settings,
configuration, hooks, reconcile and `explain` read this table.
"""

from .names import STATE_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    class Sections:
        """Each feature's section of the settings, with its defaults; mypy finds misspelt names."""

        rdt: "dict[str, Any]"
        monitoring: "dict[str, Any]"
        placement: "dict[str, Any]"
        blockio: "dict[str, Any]"
        scheduling: "dict[str, Any]"
        memory: "dict[str, Any]"
        memtierd: "dict[str, Any]"


CLASS, GROUP, CONTAINER, NODE = "class", "group", "container", "node"
"""Scope of a feature's steps: the container's RDT class, its pod's group, the container alone, the whole node."""

SELECTED, LISTED = "selected", "listed"
"""How the settings select a feature's containers: by the general selection, or by its ``namespaces``."""


class Row:
    """Facts about a feature that need no import.

    Args:
        module: its module below `features`.
        mark: the common part of all annotations that request it, or several of which each has one; empty if annotations
            do not.
        defaults: its section of the settings with defaults.
        kind: the scope of its steps, one of the four above.
        serves: SELECTED or LISTED; empty if annotations and classes select its containers.
        by_class: the key of a memory class that enables it; empty if ``enabled`` in its section does.
        by_list: with ``by_class``, the top-level list that enables it too; empty for none.
        policies: the sections whose first ``failurePolicy`` counts; empty for its own. Features with such sections
            refuse by default, as the memtierd plugin does: a workload must not run with another memory policy
            unnoticed.
        reverts: whether its steps leave things that must be removed when the container ends.
        leaves: files in the state directory, of which one exists while the feature has changed values of the node,
            also after it was disabled.
        most_starts: how often it is restarted within an hour if it ends by itself; 0 if it does not.
    """

    def __init__(
        self,
        module: str,
        mark: "str | tuple[str, ...]",
        defaults: "dict[str, Any]",
        kind: str = CONTAINER,
        serves: str = "",
        by_class: str = "",
        policies: "tuple[str, ...]" = (),
        most_starts: int = 0,
        *,
        by_list: str = "",
        reverts: bool = False,
        leaves: "tuple[str, ...]" = (),
    ) -> None:
        self.module = module
        self.marks = (mark,) if isinstance(mark, str) and mark else tuple(mark)
        self.defaults = defaults
        self.kind = kind
        self.serves = serves
        self.by_class = by_class
        self.by_list = by_list
        self.policies = policies
        self.most_starts = most_starts
        self.reverts = reverts
        self.leaves = leaves


_MEMORY_MARKS = ("memtierd.nri.io", "memory-qos.nri.io")

FEATURES: "dict[str, Row]" = {
    "rdt": Row(
        "rdt_class",
        "rdt",
        {
            "enabled": False,
            # Only the guard's own process reads this section.
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
            "memoryDomains": "auto",  # as `capacity`, read by the guard and by people only
        },
        GROUP,
        SELECTED,
        leaves=("released-counters",),
    ),
    "placement": Row(
        "placement.feature",
        "",
        {
            "enabled": False,
            "policy": "topology-aware",
            "preferIsolCpus": False,
            "pinMemory": True,
            "kubeletPath": "/var/lib/kubelet",
            "cdiPath": "/var/run/cdi",
            "irqbalancePath": "/run/irqbalance",
            "turboDomain": "package",
        },
        NODE,
        LISTED,
        reverts=True,
        leaves=("placement.cpus", "placement.irqs"),
    ),
    "blockio": Row("blockio", "blockio", {"enabled": False}),
    "scheduling": Row("scheduling", "scheduling", {"enabled": False}),
    "memory": Row(
        "memory",
        _MEMORY_MARKS,
        {"allow": {"*": ["*"]}},
        by_class="name",
        by_list="unified_annotations",
        policies=("memory", "memtierd"),
    ),
    "memtierd": Row(
        "memtierd.feature",
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
    ),
}
