"""The baselines of all workloads in one file that outlives pods and boots, bounded in number and age."""

import posix
from collections import Counter

from ..errors import HookError
from ..host.files import ASIDE, format_json, make_folder, parse_json, read_file, write_file
from .baseline import Baseline, baseline_of
from .constants import FORGOTTEN_AFTER, MOST_OF_NAMESPACE, MOST_WORKLOADS
from .section import BASELINES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workload import Workload

NAME = BASELINES
_FORMAT = 1
_LIMIT = 1 << 25
_OWNERS = 0o755


class StoreError(HookError):
    """The baselines cannot be read or written."""

    reason = "baselines"


class _Kept:
    """A workload in the store; ``seen`` is its last quiet sample, in seconds since 1970."""

    __slots__ = ("baseline", "namespace", "owner", "seen")

    def __init__(self, namespace: str, owner: str, seen: float, baseline: Baseline) -> None:
        self.namespace = namespace
        self.owner = owner
        self.seen = seen
        self.baseline = baseline


class Store:
    """The baselines, in memory until `save`.

    Args:
        folder: its directory, such as ``/var/lib/resctrl-hooks``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = f"{folder}/{NAME}"
        self._kept: "dict[str, _Kept]" = {}
        self._changed = False

    def __len__(self) -> int:
        return len(self._kept)

    def load(self) -> str:
        """Read the file; return a line if it was damaged and set aside, else an empty string.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            data = read_file(self._path, _LIMIT, trusted=True)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError.of_file(error, self._path, "read") from error
        try:
            self._kept = _parsed(data)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            self._kept = {}
            posix.rename(self._path, self._path + ASIDE)
            return (
                f"baselines in {self._path} are damaged ({type(error).__name__}: {error}); "
                f"moved to {NAME}{ASIDE}; pods are compared again after enough quiet samples"
            )
        return ""

    def find(self, workload: "Workload") -> "Baseline | None":
        """Return a workload's baseline; None if it is new."""
        found = self._kept.get(workload.key)
        return found.baseline if found else None

    def obtain(self, workload: "Workload", now: float) -> Baseline:
        """Return a workload's baseline for a quiet sample at ``now``, in seconds since 1970.

        A new one may need the place of another: its namespace's oldest if that has `MOST_OF_NAMESPACE`; else, of a full
        store, the oldest of the namespace with the most workloads.
        """
        self._changed = True
        found = self._kept.get(workload.key)
        if found is None:
            self._make_room(workload.namespace)
            found = self._kept[workload.key] = _Kept(workload.namespace, workload.owner, now, Baseline())
        found.seen = now
        return found.baseline

    def _make_room(self, namespace: str) -> None:
        number = Counter(one.namespace for one in self._kept.values())
        if number[namespace] >= MOST_OF_NAMESPACE:
            self._drop_oldest(namespace)
        elif len(self._kept) >= MOST_WORKLOADS:
            self._drop_oldest(number.most_common(1)[0][0])

    def _drop_oldest(self, namespace: str) -> None:
        theirs = [key for key, one in self._kept.items() if one.namespace == namespace]
        del self._kept[min(theirs, key=lambda key: self._kept[key].seen)]

    def save(self, now: float) -> None:
        """Write the file if something changed, without workloads that have not been seen for long.

        Raises:
            StoreError: it cannot be written.
        """
        if not self._changed:
            return
        self._kept = {key: one for key, one in self._kept.items() if now - one.seen < FORGOTTEN_AFTER}
        workloads = {
            key: {
                "namespace": one.namespace,
                "owner": one.owner,
                "seen": one.seen,
                "ranges": one.baseline.as_record(),
            }
            for key, one in self._kept.items()
        }
        try:
            make_folder(self._folder, _OWNERS)
            write_file(self._path, format_json({"format": _FORMAT, "workloads": workloads}))
        except OSError as error:
            raise StoreError.of_file(error, self._path, "write") from error
        self._changed = False


def _parsed(data: bytes) -> "dict[str, _Kept]":
    record: "Any" = parse_json(data)
    if record["format"] != _FORMAT:
        raise ValueError(f"format {record['format']!r}")
    found: "dict[str, _Kept]" = {}
    for key, one in record["workloads"].items():
        if len(found) >= MOST_WORKLOADS:
            raise ValueError("too many workloads")
        namespace, owner, seen = str(one["namespace"]), str(one["owner"]), float(one["seen"])
        found[key] = _Kept(namespace, owner, seen, baseline_of(one["ranges"]))
    return found
