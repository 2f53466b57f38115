"""The recorded containers by their cgroups, to find the container of a process that has called exec."""

import posix
import time

from ..errors import LedgerError
from ..feature import Step
from ..feature_table import FEATURES, MONITORING, RDT
from ..host.procfs import container_in_cgroup
from ..ledger import MEMBER
from ..registry import feature_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..host.cgroup import Leaf
    from ..ledger import Ledger
    from ..records import MemberRecord, StepRecord

    Stamp = tuple[int, int, int]

_SETTLED = 100_000_000  # nanoseconds: a file's time is as coarse as the kernel's clock tick
_SHARE = 20  # a check of all records takes at most a twentieth of a processor
_ID_LENGTH = 64


class Member:
    """A recorded container.

    ``monitored`` is true if its steps include a group. ``classes`` are RDT classes in which its pod may have a group:
    the container's, and after an exec all that the pod had then. ``names`` are the known names of its pod's groups, by
    class. ``values`` are those that its steps set in its cgroup: pairs of a file and its content. ``asks``: its bundle
    asks its runtime for a group. ``stamp`` is of the file of its ``record``; None until the file is old
    enough for its time to be exact.
    """

    __slots__ = (
        "asks",
        "cgroup",
        "classes",
        "id",
        "key",
        "leaf",
        "monitored",
        "names",
        "pid",
        "record",
        "stamp",
        "values",
    )

    def __init__(self, key: str, id_: str, record: "MemberRecord", stamp: "Stamp | None") -> None:
        steps = record.get("steps", [])
        monitored = [step for step in steps if step.get("feature") == MONITORING]
        self.key = key
        self.id = id_
        self.pid = record.get("pid", 0)
        self.cgroup = record.get("cgroup", "")
        self.monitored = bool(monitored)
        self.asks = bool(record.get("runtimeGroup"))
        self.classes: "tuple[str, ...]" = tuple(step["needs"]["class"] for step in monitored)
        self.names: "dict[str, str]" = {}
        self.values = [value for step in steps for value in _cgroup_values(step)]
        self.leaf: "Leaf | None" = None
        self.record = record
        self.stamp = stamp


class Containers:
    """The containers that the ledger records.

    A record is always replaced whole: when a container is planned again, or restarted under its id. So a container that
    is looked up is read again if its file is another one. All are compared after a container was added or removed.
    """

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._stamp: object = None
        self._check_at = 0.0
        self._by_id: "dict[str, Member]" = {}
        self._by_cgroup: "dict[str, Member]" = {}

    def refresh(self) -> None:
        """Read the records of new containers, and forget those that are gone.

        Raises:
            LedgerError: the state directory can't be read.
        """
        folder = f"{self._ledger.folder}/containers"
        found = _stat(folder)
        stamp = found.st_mtime_ns if found else 0  # without a folder, no hook has run yet
        if stamp == self._stamp:
            return
        names = set(self._ledger.containers()) if stamp else set()
        for gone in self._by_id.keys() - names:
            self._forget(self._by_id[gone])
        new = names - self._by_id.keys()
        read = [self._read(name) for name in new]
        is_settled = _is_settled(stamp)
        if is_settled or time.monotonic() >= self._check_at:
            read += self._check_all()
        complete = None not in read  # a hook has made the link, and not yet the record
        self._stamp = stamp if is_settled and complete else None

    def of_cgroup(self, folder: str) -> "Member | None":
        """Return the container whose cgroup ``folder`` is, or is below.

        Raises:
            LedgerError: its record can't be read.
        """
        found = self._above(folder)
        if found is None:
            container = container_in_cgroup(folder)
            found = self._by_id.get(container.removesuffix(".scope")[-_ID_LENGTH:])
        if found is not None:
            self._check(found)
        return self._above(folder)

    def with_values(self) -> "list[Member]":
        """Return the containers with values in their cgroups, as their records are now.

        Raises:
            LedgerError: a record can't be read.
        """
        self._check_all()
        return [member for member in self._by_id.values() if member.values]

    def of_id(self, id_: str) -> "Member | None":
        """Return a container by its id.

        Raises:
            LedgerError: its record can't be read.
        """
        member = self._by_id.get(id_)
        return None if member is None else self._check(member)

    def _above(self, folder: str) -> "Member | None":
        while folder:
            member = self._by_cgroup.get(folder)
            if member is not None:
                return member
            folder = folder.rpartition("/")[0]
        return None

    def _check_all(self) -> "list[Member | None]":
        begun = time.monotonic()
        found = [self._check(member) for member in list(self._by_id.values())]
        now = time.monotonic()
        self._check_at = now + (now - begun) * _SHARE
        return found

    def _check(self, member: Member) -> "Member | None":
        """Return a known container as its record is now; None without one."""
        if self._stamp is None and self._ledger.key_of(member.id) not in ("", member.key):
            return self._read(member.id)
        found = _stat(self._path(member.key, member.id))
        return member if found and _stamp(found) == member.stamp else self._read(member.id)

    def _read(self, id_: str) -> "Member | None":
        """Read a container's record; a record with the same content leaves it as it is."""
        known = self._by_id.get(id_)
        key = self._ledger.key_of(id_) or (known.key if known is not None else "")
        found = _stat(self._path(key, id_)) if key else None
        record = self._ledger.read_member(key, id_) if found else None
        if found is None or record is None:
            if known is not None:
                self._forget(known)
            self._stamp = None
            return None
        stamp = _stamp(found) if _is_settled(found.st_mtime_ns) else None
        if known is not None and (known.key, known.record) == (key, record):
            known.stamp = stamp
            return known
        if known is not None:
            self._forget(known)
        member = self._by_id[id_] = Member(key, id_, record, stamp)
        if member.cgroup:
            self._by_cgroup[member.cgroup] = member
        return member

    def _forget(self, member: Member) -> None:
        del self._by_id[member.id]
        if self._by_cgroup.get(member.cgroup) is member:
            del self._by_cgroup[member.cgroup]

    def _path(self, key: str, id_: str) -> str:
        return f"{self._ledger.folder}/pods/{key}/{MEMBER}{id_}"


def _is_settled(stamp: int) -> bool:
    """Return whether a later change has another time, also if the clock was set back since."""
    return abs(time.time_ns() - stamp) > _SETTLED


def _stamp(found: "posix.stat_result") -> "Stamp":
    return found.st_mtime_ns, found.st_size, found.st_ino


def _stat(path: str) -> "posix.stat_result | None":
    """Return the state of a file; None without one.

    Raises:
        LedgerError: whether there is one is unknown.
    """
    try:
        return posix.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LedgerError(f"cannot read {path}", errno=error.errno or 0) from error


def _cgroup_values(step: "StepRecord") -> "list[list[str]]":
    """Return the values that a recorded step sets in the container's cgroup."""
    name = step["feature"]
    if name in (RDT, MONITORING) or name not in FEATURES or FEATURES[name].adopts:
        return []  # without an import
    feature = feature_named(name)
    return feature.values(Step.of_record(step)) if feature is not None else []
