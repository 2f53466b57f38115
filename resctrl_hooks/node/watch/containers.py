"""The recorded containers by their cgroups, to find the container of a process that has called exec."""

import posix
import time

from ..errors import LedgerError
from ..features.monitoring import NAME as MONITORING
from ..registry import cgroup_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..host.cgroup import Leaf
    from ..ledger import Ledger
    from ..records import MemberRecord

_SETTLED = 100_000_000  # nanoseconds: a folder's time is as coarse as the kernel's clock tick


class Member:
    """A recorded container.

    ``wanted`` says whether it is to be monitored. ``classes`` are RDT classes in which its pod may have a group: the
    container's, and after an exec all that the pod had then. ``names`` are the known names of its pod's groups, by
    class. ``values`` are those that its steps set in its cgroup: pairs of a file and its content. ``asks``: its bundle
    asks its runtime for a group.
    """

    __slots__ = ("asks", "cgroup", "classes", "id", "key", "leaf", "names", "pid", "values", "wanted")

    def __init__(self, key: str, id_: str, record: "MemberRecord") -> None:
        steps = record.get("steps", [])
        monitored = [step for step in steps if step.get("feature") == MONITORING]
        self.key = key
        self.id = id_
        self.pid = record.get("pid", 0)
        self.cgroup = record.get("cgroup", "")
        self.wanted = bool(monitored)
        self.asks = bool(record.get("runtimeGroup"))
        self.classes: "tuple[str, ...]" = tuple(step["needs"]["class"] for step in monitored)
        self.names: "dict[str, str]" = {}
        self.values = [value for step in steps for value in cgroup_values(step)]
        self.leaf: "Leaf | None" = None


class Containers:
    """The containers that the ledger records, read again where one was added or removed."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._stamp: object = None
        self._by_id: "dict[str, Member]" = {}
        self._by_cgroup: "dict[str, Member]" = {}

    def refresh(self) -> None:
        """Read the records of new containers, and forget those that are gone.

        Raises:
            LedgerError: the state directory can't be read.
        """
        try:
            stamp = posix.stat(f"{self._ledger.folder}/containers").st_mtime_ns
        except FileNotFoundError:
            stamp = 0  # no hook has run yet
        except OSError as error:  # whether any is gone is unknown
            raise LedgerError(f"cannot read {self._ledger.folder}/containers", errno=error.errno or 0) from error
        if stamp == self._stamp:
            return
        names = set(self._ledger.containers()) if stamp else set()
        for gone in self._by_id.keys() - names:
            del self._by_id[gone]
        complete = True
        for name in names - self._by_id.keys():
            key = self._ledger.key_of(name)
            record = self._ledger.read_member(key, name) if key else None
            if record is None:
                complete = False  # its hook has made the link, and not yet the record
                continue
            self._by_id[name] = Member(key, name, record)
        self._by_cgroup = {member.cgroup: member for member in self._by_id.values() if member.cgroup}
        settled = complete and time.time_ns() - stamp > _SETTLED
        self._stamp = stamp if settled else None

    def of_cgroup(self, folder: str) -> "Member | None":
        """Return the container whose cgroup ``folder`` is, or is below."""
        while folder:
            member = self._by_cgroup.get(folder)
            if member is not None:
                return member
            folder = folder.rpartition("/")[0]
        return None

    def with_values(self) -> "list[Member]":
        """Return the containers with values in their cgroups."""
        return [member for member in self._by_id.values() if member.values]

    def read_again(self) -> None:
        """Let the next `refresh` read the records with values again: reconcile can have planned other ones."""
        for member in self.with_values():
            del self._by_id[member.id]
        self._stamp = None

    def of_id(self, id_: str) -> "Member | None":
        """Return a container by its id."""
        return self._by_id.get(id_)

    def wanted(self) -> "list[Member]":
        """Return the containers that are to be monitored."""
        return [member for member in self._by_id.values() if member.wanted]
