"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Part

PART: Final = Part("nri")
