"""The parts of the houses whose node code is here.

On a node, this module has the values of the parts themselves: `install.payload` writes it, because a hook has no time
to look for modules.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .part import NodePart

HOUSES = ("observe", "placement", "nri")
"""The houses beside core, in their order, each of which may be missing."""


def _found() -> "tuple[NodePart, ...]":
    found: "list[NodePart]" = []
    for name in HOUSES:
        try:
            found.append(__import__(f"{name}.node.part", globals(), None, ("PART",), 3).PART)
        except ModuleNotFoundError as error:
            if f".{name}" not in str(error.name):
                raise  # of one of its imports
    return tuple(found)


PARTS = _found()
