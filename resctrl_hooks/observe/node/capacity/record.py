"""The file of the sampling process with the largest rate of each memory domain, a lower bound of the capacity.

The file is in the state directory, so it describes one boot. It also has the capacities by the firmware's tables, which
other processes, such as a pod with the metrics, may not read.
"""

from ....core.node.host.files import format_json, write_file
from ....core.node.host.state_file import read_state
from ....core.node.shapes import Number, Text, TypedDict

NAME = "memory-capacity.json"


class CapacityRecord(TypedDict):
    """The file: bytes per second by memory domain."""

    tables: dict[Text, Number]
    source: Text
    """Of ``tables``; empty without one."""
    seen: dict[Text, Number]


def read_record(folder: str) -> "CapacityRecord":
    """Return the content of the file in the state directory; nothing without a usable one."""
    return read_state(f"{folder}/{NAME}", CapacityRecord) or {"tables": {}, "source": "", "seen": {}}


def write_record(folder: str, record: "CapacityRecord") -> None:
    """Replace the file.

    Raises:
        OSError: from the kernel.
    """
    write_file(f"{folder}/{NAME}", format_json(record))
