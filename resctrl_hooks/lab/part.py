"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Entry, Part

PART: Final = Part(
    "lab",
    commands={
        "demo": Entry(
            "Try without hardware",
            "Demonstrate the hook with one container, on any Linux machine.",
            ("demo",),
            has_config=False,
        ),
        "simulate": Entry(
            "Try without hardware",
            "Mount a simulated resctrl.",
            ("simulate /tmp/resctrl --rmids 16", "simulate /tmp/node --scene noisy"),
            has_config=False,
        ),
    },
    clauses={"hardware": "; try it with `resctrl-hook demo`", "hidden": ", or try `resctrl-hook demo`"},
)
