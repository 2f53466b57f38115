"""The table of feature presentations that `show`, `list -o wide` and `explain` use.

`node.feature_table` has the node half's part; a test compares the names of both tables. The order of
`names` is that of the columns in `list`.
"""

from typing import Final

from resctrl_hooks.core.parts import load, parts

from .memory import MEMORY
from .memtierd import MEMTIERD
from .model import Display, of_class
from .monitoring import MONITORING

DISPLAYS: Final[dict[str, Display]] = {
    "rdt": Display(of_class),
    "monitoring": MONITORING,
    "memory": MEMORY,
    "memtierd": MEMTIERD,
    "blockio": Display(of_class),
    "scheduling": Display(of_class),
}
"""The features of the core; the others are in the houses' parts."""
_NO_ROW: Final = Display()


def names() -> list[str]:
    """Return the names of all features with a row."""
    return [*DISPLAYS, *(name for part in parts() for name in part.displays)]


def display(name: str) -> Display:
    """Return the row of a feature; the default one for a feature without a row, such as one of another version."""
    if name in DISPLAYS:
        return DISPLAYS[name]
    found = next((part.displays[name] for part in parts() if name in part.displays), "")
    row: Display = load(found) if found else _NO_ROW
    return row
