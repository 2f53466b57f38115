"""Which containers' own specifications have a cpuset because this project's NRI plugin put it there, and which one.

A cpuset in a specification is a choice of whoever made the container, which placement leaves alone, unless it is here.
Change it only under `allocations.lock`.
"""

from ...host.files import format_json, parse_json, read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context

_NAME = "placement.specified"
_LIMIT = 4 << 20


def specified(context: "Context") -> "dict[str, str]":
    """Return Cpus by container id; empty if there are none, or nothing that can be read."""
    try:
        found = parse_json(read_file(f"{context.ledger.folder}/{_NAME}", _LIMIT))
    except (OSError, ValueError):
        return {}
    return {id_: str(cpus) for id_, cpus in found.items()} if isinstance(found, dict) else {}


def write_specified(cpusets: "dict[str, str]", context: "Context") -> None:
    """Replace it.

    Raises:
        OSError: the kernel refuses.
    """
    write_file(f"{context.ledger.folder}/{_NAME}", format_json(cpusets))
