"""The cpusets that this project's NRI plugin put into containers' specifications.

Placement leaves any other cpuset in a specification unchanged. Write only under `allocations.lock`.
"""

from ...errors import LedgerError
from ...file_shapes import SPECIFIED
from ...host.files import format_json, read_file, write_file
from ...shapes import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context

_NAME = "placement.specified"
_LIMIT = 4 << 20


def specified(context: "Context") -> "dict[str, str]":
    """Return CPUs by container id; empty if the file is missing or damaged.

    Raises:
        LedgerError: it cannot be read. Without it, our cpusets would pass for those of other programs.
    """
    path = f"{context.ledger.folder}/{_NAME}"
    try:
        found: "dict[str, str]" = parse(read_file(path, _LIMIT), SPECIFIED)
    except (FileNotFoundError, ValueError):
        return {}
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
    return found


def write_specified(cpusets: "dict[str, str]", context: "Context") -> None:
    """Replace the file.

    Raises:
        OSError: the kernel refuses.
    """
    write_file(f"{context.ledger.folder}/{_NAME}", format_json(cpusets))
