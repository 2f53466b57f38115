"""The cpusets that this project's NRI plugin put into containers' specifications.

Placement leaves any other cpuset in a specification unchanged. Write only under `allocations.lock`.
"""

from ... import shapes
from ...host.files import format_json, read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context

_NAME = "placement.specified"
_LIMIT = 4 << 20


def specified(context: "Context") -> "dict[str, str]":
    """Return CPUs by container id; empty if the file is missing or unreadable."""
    try:
        found: "dict[str, str]" = shapes.parse(read_file(f"{context.ledger.folder}/{_NAME}", _LIMIT), shapes.SPECIFIED)
    except (OSError, ValueError):
        return {}
    return found


def write_specified(cpusets: "dict[str, str]", context: "Context") -> None:
    """Replace the file.

    Raises:
        OSError: the kernel refuses.
    """
    write_file(f"{context.ledger.folder}/{_NAME}", format_json(cpusets))
