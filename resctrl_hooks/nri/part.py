"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Entry, Keys, Part

PART: Final = Part(
    "nri",
    commands={
        "nri": Entry(
            "Called by the system",
            "Run as an NRI plugin of containerd or CRI-O.",
            ("nri --socket /var/run/nri/nri.sock",),
            rank=1,
        ),
    },
    metrics="resctrl_hooks.nri.metrics.nri:TABLE",
    units="resctrl_hooks.nri.install.nri:UNITS",
    choice="Also install the NRI plugin for CRI-O; containerd always gets it. Default: as installed before, else no.",
    delivered="Install the NRI plugin in addition to the hook.",
    runtimes="resctrl_hooks.nri.install.nri:RUNTIMES",
    keys=(
        Keys("resctrl_hooks.nri.config.nri:NriKeys", after="scheduling"),
        Keys("resctrl_hooks.nri.config.nri:ClassKeys", section="classes"),
    ),
    clauses={"served": "; for containerd, install the NRI plugin", "watched": "; the NRI plugin has it built in"},
    rooms=("nri/node/",),
    checks=("nri",),
)
