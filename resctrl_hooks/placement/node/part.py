"""What the node code of placement adds to core's."""

from ...core.node.part import LISTED, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.part import NodePart

PART: "NodePart" = {
    "features": {
        "placement": Row(
            3,
            "placement.node.feature",
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
            LISTED,
            adopts=True,
            adjustable=3,
            reverts=True,
            leaves=("placement.cpus", "placement.irqs"),
            needs="placement.node.policy:PlacementNeeds",
        )
    }
}
