"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Entry, Keys, Part, Rival

PART: Final = Part(
    "placement",
    commands={
        "topology": Entry("Look", "Draw this node's CPUs, caches and memory.", ("topology",), rank=2),
        "config balloons": Entry("Set up", "Convert a file of a placement policy.", ("config balloons balloons.yaml",)),
    },
    documents="resctrl_hooks.placement.documents:DOCUMENTS",
    rooms=("placement/node/",),
    keys=(Keys("resctrl_hooks.placement.config.placement:PlacementKeys", after="rdt"),),
    checks=("placement",),
    displays={"placement": "resctrl_hooks.placement.inventory.feature_display.placement:PLACEMENT"},
    clauses={
        "policy": "`resctrl-hook config balloons FILE` prints its `placement` section",
        "wide": "; where containers are placed, also pool and CPUs",
    },
    rivals=tuple(Rival(name, "CPUs and memory nodes", "placement") for name in ("topology-aware", "balloons")),
)
