"""Looks at the files and groups of resctrl, which distinguish absent ones from those that cannot be read now."""

from ..host.files import GONE
from .counter_files import layout
from .counters import MON_DATA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .carried import Carried
    from .counters import Raw, Slot
    from .filesystem import Resctrl
    from .sources import Found


def see(resctrl: "Resctrl", carried: "Carried", folder: str) -> None:
    """Let a group's files be those to read.

    Raises:
        ResctrlError: they are unknown, and cannot be listed now.
    """
    try:
        carried.see(layout(f"{folder}/{MON_DATA}", carried.known))
    except OSError as error:
        raise resctrl.refused(error, f"cannot list the counters in {folder}/{MON_DATA}") from error


def look_at(
    places: "dict[str, str]", slots: "list[Slot]", read_one: "Callable[[str, list[Slot]], tuple[str, list[Raw]]]"
) -> "tuple[Found, bool]":
    """Return the groups at these places, given their folders; and whether one of them cannot be read now."""
    found: "Found" = {}
    hidden = False
    for place, folder in places.items():
        try:
            found[place] = read_one(folder, slots)
        except OSError as error:
            hidden = hidden or error.errno not in GONE
    return found, hidden
