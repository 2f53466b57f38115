"""The table of feature presentations that `show`, `list -o wide` and `explain` use.

`node.feature_table` has the node half's part; a test compares the names of both tables. The rows' order is that of the
columns in `list`.
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
