"""What the node code of nri adds to core's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..part import NodePart

PART: "NodePart" = {
    "keys": {"nri": {"adjust": [], "allow": {}}},
    "commands": {"nri": "nri.command:nri_command"},
}
