"""Assignable bandwidth counters (AMD's ABMC, Arm's MPAM): the groups and events that have one, by domain.

Each domain has a few counters (AMD about 32, NVIDIA's Grace and Vera one) for many more RMIDs; a group without a
counter reads ``Unassigned``. The kernel gives a new group the remaining counters silently, and a counter that is
assigned again starts at 0.

Source: kernel, Documentation/filesystems/resctrl.rst ("mbm_L3_assignments"), measured on Linux 7.2.
"""

import errno

from ..errors import BY_ERRNO, ResctrlError
from .bandwidth import order_of
from .layouts import INFO, L3, assignments_file, info_folder, owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl

    # Whether an event (``mbm_total_bytes``) is counted in a domain, by both.
    States = dict[str, dict[int, bool]]

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
        self._info = f"{resctrl.root}/info"
        self._resctrl = resctrl
        self._resource = ""

    @property
    def resource(self) -> str:
        """The resource whose counters are assigned, such as ``L3``; where none are, `L3` too."""
        if not self._resource:
            self._resource = next(filter(self._is_assigned, self._monitored()), L3)
        return self._resource

    def _monitored(self) -> "list[str]":
        try:
            names = self._resctrl.fs.listdir(self._info)
        except OSError:
            return []
        return sorted((name[: -len(INFO)] for name in names if name.endswith(INFO)), key=order_of)

    def _is_assigned(self, resource: str) -> bool:
        return _MODE in self._text("mbm_assign_mode", resource)

    def _text(self, name: str, resource: str) -> str:
        return text_of(self._resctrl, f"{self._info}/{info_folder(resource)}/{name}")

    def enabled(self) -> bool:
        """Return whether counters are assigned here: the processor can, and ``mbm_assign_mode`` is ``mbm_event``."""
        return self._is_assigned(self.resource)

    def capacity(self) -> "dict[int, int]":
        """Return how many counters each domain has; empty where counters aren't assigned."""
        return _numbers(self._text("num_mbm_cntrs", self.resource))

    def available(self) -> "dict[int, int]":
        """Return the number of unassigned counters by domain."""
        return _numbers(self._text("available_mbm_cntrs", self.resource))

    def of(self, folder: str) -> "States":
        """Return a group's counters: by event and domain, whether it is counted. Empty if counters are not assigned."""
        return parse(text_of(self._resctrl, f"{folder}/{assignments_file(self.resource)}"))

    def concerns(self, resource: str) -> bool:
        """Return whether the counters of a domain's resource are those that are assigned."""
        return owner_of(resource) == self.resource

    def set(self, folder: str, event: str, domain: int, *, counted: bool) -> None:
        """Assign a group a counter for an event in a domain, or release it.

        A newly assigned one counts from 0. A release drops the count: `counter_share.rearrange` saves that.

        Raises:
            NoCountersError: the domain has none left.
            ResctrlError: the kernel refuses otherwise.
        """
        try:
            line = f"{event}:{domain}={_ASSIGNED if counted else _NOT_ASSIGNED}\n"
            self._resctrl.fs.write(f"{folder}/{assignments_file(self.resource)}", line.encode())
        except OSError as error:
            what = "cannot assign a counter for" if counted else "cannot release the counter for"
            message = f"{what} {event} of {folder} in {self.resource} domain {domain}"
            raise self._resctrl.refused(error, message, kinds=_BY_ERRNO) from error


def text_of(resctrl: "Resctrl", path: str) -> str:
    """Return the text of a file below resctrl; empty if it cannot be read."""
    try:
        return resctrl.fs.read(path).decode("ascii", "replace")
    except OSError:
        return ""


def parse(text: str) -> "States":
    """Parse the content of a group's file, such as ``mbm_L3_assignments``."""
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
