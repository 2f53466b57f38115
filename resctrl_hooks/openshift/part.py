"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Entry, Part

PART: Final = Part(
    "openshift",
    commands={
        "machineconfig": Entry(
            "Set up",
            "Render OpenShift MachineConfigs.",
            ("machineconfig > 99-worker-resctrl-hooks.yaml",),
            rank=1,
            has_config=False,
        ),
    },
    clauses={"delivered": " (`resctrl-hook machineconfig` renders it)"},
)
