"""The parts of the houses whose node code is here.

On a node, this module has the values of the parts themselves: `install.payload` writes it, because a hook has no time
to look for modules.
"""

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .part import NodePart

_FOLDER: str = sys.modules[__name__.partition(".")[0]].__path__[0]
_OTHERS = sorted({*posix.listdir(_FOLDER)} - {"core"})
PARTS: "tuple[NodePart, ...]" = tuple(
    __import__(f"{name}.node.part", globals(), None, ("PART",), 3).PART
    for name in _OTHERS
    if posix.access(f"{_FOLDER}/{name}/node/part.py", posix.F_OK)
)
