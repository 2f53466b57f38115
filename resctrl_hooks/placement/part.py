"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Entry, Keys, Part, Rival, Subcommand

PART: Final = Part(
    "placement",
    commands={
        "Look": {
            "topology": Entry(
                "resctrl_hooks.placement.cli.topology:command",
                "Draw this node's CPUs, caches and memory.",
                ("topology",),
                rank=2,
            ),
        },
    },
    subcommands=(
        Subcommand(
            "config", "balloons", "resctrl_hooks.placement.cli.balloons:command", ("config balloons balloons.yaml",)
        ),
    ),
    documents="resctrl_hooks.placement.documents:DOCUMENTS",
    rooms=("placement/node/",),
    keys=(Keys("resctrl_hooks.placement.config.placement:PlacementKeys", after="rdt"),),
    checks=("resctrl_hooks.placement.doctor.placement:CHECKS",),
    displays={"placement": "resctrl_hooks.placement.inventory.feature_display.placement:PLACEMENT"},
    clauses={
        "policy": "`resctrl-hook config balloons FILE` prints its `placement` section",
        "wide": "; where containers are placed, also pool and CPUs",
    },
    rivals=tuple(Rival(name, "CPUs and memory nodes", "placement") for name in ("topology-aware", "balloons")),
)
