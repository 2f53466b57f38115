"""What the node code of nri adds to core's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.part import NodePart

PART: "NodePart" = {
    "keys": {"nri": {"adjust": [], "allow": {}}},
    "commands": {"nri": "nri.node.command:nri_command"},
}
