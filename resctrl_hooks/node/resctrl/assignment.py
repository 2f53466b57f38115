"""Assignable bandwidth counters, AMD's ABMC: the groups and events that have one, by L3 domain.

Each L3 domain has a few counters (such as 32) for many more RMIDs; a group without a counter reads ``Unassigned``.
The kernel gives a new group the remaining counters silently, and a counter that is assigned again starts at 0.

Source: kernel, Documentation/filesystems/resctrl.rst ("mbm_L3_assignments"), measured on Linux 7.2.
"""

import errno

from ..errors import BY_ERRNO, ResctrlError
from .layouts import L3, info_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl

    # Whether an event (``mbm_total_bytes``) is counted in a domain, by both.
    States = dict[str, dict[int, bool]]

FILE = "mbm_L3_assignments"
EVENTS = ("mbm_total_bytes", "mbm_local_bytes")
_INFO = f"info/{info_folder(L3)}"
_MODE = "[mbm_event]"
_ASSIGNED, _NOT_ASSIGNED = "e", "_"


class NoCountersError(ResctrlError):
    """All bandwidth counters of a domain are in use (ENOSPC): an event of a group isn't counted there."""

    reason = "no-counters"
    hint = (
        "the pod's cache occupancy is counted, but not its bandwidth; `resctrl-hook list` shows the pods with counters"
    )


# As everywhere, but for an unknown domain, which is EINVAL here.
_BY_ERRNO = {**BY_ERRNO, errno.ENOSPC: NoCountersError, errno.EINVAL: ResctrlError}


class Assignments:
    """The assignable counters of one resctrl mount. Groups are named by their folders."""

    def __init__(self, resctrl: "Resctrl") -> None:
        self._root = resctrl.root
        self._resctrl = resctrl

    def enabled(self) -> bool:
        """Return whether counters are assigned here: the processor can, and ``mbm_assign_mode`` is ``mbm_event``."""
        return _MODE in text_of(self._resctrl, f"{self._root}/{_INFO}/mbm_assign_mode")

    def capacity(self) -> "dict[int, int]":
        """Return how many counters each domain has; empty where counters aren't assigned."""
        return _numbers(text_of(self._resctrl, f"{self._root}/{_INFO}/num_mbm_cntrs"))

    def available(self) -> "dict[int, int]":
        """Return the number of unassigned counters by domain."""
        return _numbers(text_of(self._resctrl, f"{self._root}/{_INFO}/available_mbm_cntrs"))

    def of(self, folder: str) -> "States":
        """Return a group's counters: by event and domain, whether it is counted. Empty if counters are not assigned."""
        return parse(text_of(self._resctrl, f"{folder}/{FILE}"))

    def set(self, folder: str, event: str, domain: int, *, counted: bool) -> None:
        """Assign a group a counter for an event in a domain, or release it.

        A newly assigned one counts from 0. A release drops the count: `counter_share.rearrange` saves that.

        Raises:
            NoCountersError: the domain has none left.
            ResctrlError: the kernel refuses otherwise.
        """
        try:
            state = _ASSIGNED if counted else _NOT_ASSIGNED
            self._resctrl.fs.write(f"{folder}/{FILE}", f"{event}:{domain}={state}\n".encode())
        except OSError as error:
            what = "cannot assign a counter for" if counted else "cannot release the counter for"
            message = f"{what} {event} of {folder} in L3 domain {domain}"
            raise self._resctrl.refused(error, message, kinds=_BY_ERRNO) from error


def text_of(resctrl: "Resctrl", path: str) -> str:
    """Return the text of a file below resctrl; empty if it cannot be read."""
    try:
        return resctrl.fs.read(path).decode("ascii", "replace")
    except OSError:
        return ""


def parse(text: str) -> "States":
    """Parse the content of ``mbm_L3_assignments``."""
    states: "States" = {}
    for line in text.splitlines():
        event, colon, domains = line.partition(":")
        if colon:
            pairs = (part.split("=", 1) for part in domains.split(";") if "=" in part)
            states[event] = {int(domain): state != _NOT_ASSIGNED for domain, state in pairs if domain.isdigit()}
    return states


def _numbers(text: str) -> "dict[int, int]":
    pairs = (part.partition("=") for part in text.strip().split(";"))
    return {int(domain): int(number) for domain, _, number in pairs if domain.isdigit() and number.isdigit()}
