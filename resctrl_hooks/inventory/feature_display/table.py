"""The features once more, a row each, for people: `show`, `list -o wide` and `explain` read this table.

`node.feature_table` has what the node half knows of them; a test holds this table to the same names. Rows stand in the
order of their columns in `list`.
"""

from .memory import MEMORY
from .memtierd import MEMTIERD
from .model import Display, of_class
from .monitoring import MONITORING
from .placement import PLACEMENT

DISPLAYS: dict[str, Display] = {
    "rdt": Display(of_class),
    "monitoring": MONITORING,
    "memory": MEMORY,
    "memtierd": MEMTIERD,
    "placement": PLACEMENT,
    "blockio": Display(of_class),
    "scheduling": Display(of_class),
}
