"""Reading and writing of a class's MB values by L3 domain."""

from ....core.node.errors import ResctrlError
from ....core.node.host.files import GONE
from ....core.node.resctrl.schemata import parse_schemata, set_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.resctrl.filesystem import Resctrl

RESOURCE = "MB"


def read_limits(resctrl: "Resctrl", name: str) -> "dict[int, int]":
    """Return the MB values of a class by L3 domain; empty where the class or its MB is gone.

    Raises:
        ResctrlError: they cannot be read, so the answer is unknown.
    """
    path = f"{resctrl.class_folder(name)}/schemata"
    try:
        text = resctrl.fs.read(path).decode("ascii", "replace")
    except OSError as error:
        if error.errno in GONE:
            return {}
        raise ResctrlError(f"cannot read {path}", errno=error.errno or 0) from error
    values = parse_schemata(text).get(RESOURCE, {})
    return {number: int(value) for number, value in values.items() if value.isdigit()}


def held_limits(resctrl: "Resctrl", name: str) -> "dict[int, int]":
    """Return the MB values of a class that had some; empty where the class is gone.

    Raises:
        ResctrlError: as in `read_limits`, or the class is there and its file has none, so the answer is unknown.
    """
    now = read_limits(resctrl, name)
    if not now and resctrl.exists(name, ""):
        raise ResctrlError(f"no {RESOURCE} values in the schemata of RDT class {name or '/'}")
    return now


def write_limits(resctrl: "Resctrl", name: str, values: "dict[int, int]") -> "dict[int, int]":
    """Write MB values of a class by L3 domain; return those in effect, since the kernel rounds.

    Raises:
        ResctrlError: the kernel refuses, or the values cannot be read back.
    """
    effective = set_schemata(resctrl, name, RESOURCE, values)
    return {number: int(value) for number, value in effective.items() if value.isdigit()}
