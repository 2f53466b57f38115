"""The baselines of all workloads in one file that outlives pods and boots, bounded in number and age.

Their age is counted by a clock of the file: the time for which processes have had it open. It runs on over restarts and
boots, and no setting of the wall clock changes it.
"""

import posix
import time
from collections import Counter

from .....core.node.errors import HookError
from .....core.node.host.durable import replace_file
from .....core.node.host.files import ASIDE, format_json, make_folder, parse_json, read_file
from ..constants import FORGOTTEN_AFTER, MOST_OF_NAMESPACE, MOST_WORKLOADS
from ..section import BASELINES
from .baseline import Baseline, baseline_of, baseline_of_ranges
from .cell import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workload import Workload

NAME = BASELINES
_FORMAT = 2
_OF_RANGES = 1  # the format of version 0.2
_LIMIT = 1 << 25
_OWNERS = 0o755
_PRIVATE = 0o600
_MOST_FORGOTTEN = 8
"""Workloads forgotten by one save, so that a wrong age costs few of them."""


class StoreError(HookError):
    """The baselines cannot be read or written."""

    reason = "baselines"


class _Stored:
    """A workload in the store.

    Its last quiet sample was ``at`` seconds of the file's clock, and ``seen`` seconds since 1970, for people.
    """

    __slots__ = ("at", "baseline", "namespace", "owner", "seen")

    def __init__(self, namespace: str, owner: str, seen: float, at: float, baseline: Baseline) -> None:
        self.namespace = namespace
        self.owner = owner
        self.seen = seen
        self.at = at
        self.baseline = baseline


class Store:
    """The baselines, in memory until `save`.

    Args:
        folder: its directory, such as ``/var/lib/resctrl-hooks``.

    Attributes:
        path: the file.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.path = f"{folder}/{NAME}"
        self._workloads: "dict[str, _Stored]" = {}  # the one that was seen longest ago is the first
        self._changed = False
        self._begun = time.monotonic()  # when the file's clock was 0

    @property
    def _clock(self) -> float:
        return time.monotonic() - self._begun

    def __len__(self) -> int:
        return len(self._workloads)

    def load(self) -> str:
        """Read the file; return a line if it was damaged and set aside, else an empty string.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            data = read_file(self.path, _LIMIT, trusted=True)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError.of_file(error, self.path, "read") from error
        try:
            self._workloads, clock = _parsed(data)
            self._begun = time.monotonic() - clock
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            self._workloads = {}
            try:
                posix.rename(self.path, self.path + ASIDE)
                moved = f"moved to {NAME}{ASIDE}"
            except OSError as refused:
                moved = f"not moved to {NAME}{ASIDE}: {refused.strerror}"
            return (
                f"baselines in {self.path} are damaged ({type(error).__name__}: {error}); "
                f"{moved}; pods are compared again after enough quiet samples"
            )
        return ""

    def find(self, workload: "Workload") -> "Baseline | None":
        """Return a workload's baseline; None if it is new."""
        found = self._workloads.get(workload.key)
        return found.baseline if found else None

    def obtain(self, workload: "Workload") -> Baseline:
        """Return a workload's baseline for a quiet sample of now.

        A new one may need the place of another: its namespace's oldest if that has `MOST_OF_NAMESPACE`; else, of a full
        store, the oldest of the namespace with the most workloads.
        """
        self._changed = True
        found = self._workloads.pop(workload.key, None)
        if found is None:
            self._make_room(workload.namespace)
            found = _Stored(workload.namespace, workload.owner, 0.0, 0.0, Baseline())
        self._workloads[workload.key] = found
        found.seen, found.at = time.time(), self._clock
        return found.baseline

    def _make_room(self, namespace: str) -> None:
        number = Counter(one.namespace for one in self._workloads.values())
        if number[namespace] >= MOST_OF_NAMESPACE:
            self._drop_oldest(namespace)
        elif len(self._workloads) >= MOST_WORKLOADS:
            self._drop_oldest(number.most_common(1)[0][0])

    def _drop_oldest(self, namespace: str) -> None:
        del self._workloads[next(key for key, one in self._workloads.items() if one.namespace == namespace)]

    def save(self) -> None:
        """Write the file durably if something changed, without workloads that have not been seen for long.

        Raises:
            StoreError: it cannot be written.
        """
        if not self._changed:
            return
        clock = self._clock
        for key in [key for key, one in self._workloads.items() if clock - one.at > FORGOTTEN_AFTER][:_MOST_FORGOTTEN]:
            del self._workloads[key]
        workloads = {
            key: {
                "namespace": one.namespace,
                "owner": one.owner,
                "seen": one.seen,
                "at": round(one.at, 1),
                "baseline": one.baseline.as_record(),
            }
            for key, one in self._workloads.items()
        }
        try:
            make_folder(self._folder, _OWNERS)
            record = {"format": _FORMAT, "clock": round(clock, 1), "workloads": workloads}
            replace_file(self.path, format_json(record), _PRIVATE)
        except OSError as error:
            raise StoreError.of_file(error, self.path, "write") from error
        self._changed = False


def _parsed(data: bytes) -> "tuple[dict[str, _Stored], float]":
    """Return the workloads, the one that was seen longest ago first, and the file's clock.

    Version 0.2 writes no clock: all its workloads have the age 0, and the order of their times.
    """
    record: "Any" = parse_json(data)
    if record["format"] not in (_FORMAT, _OF_RANGES):
        raise ValueError(f"format {record['format']!r}")
    is_old = record["format"] == _OF_RANGES
    if len(record["workloads"]) > MOST_WORKLOADS:
        raise ValueError("too many workloads")
    clock = number_of(record.get("clock", 0.0))
    found: "list[tuple[float, float, str, _Stored]]" = []
    for key, one in record["workloads"].items():
        namespace, owner, seen = str(one["namespace"]), str(one["owner"]), number_of(one["seen"])
        at = min(number_of(one.get("at", 0.0)), clock)
        found.append(
            (
                at,
                seen,
                key,
                _Stored(
                    namespace,
                    owner,
                    seen,
                    at,
                    baseline_of_ranges(one["ranges"]) if is_old else baseline_of(one["baseline"]),
                ),
            )
        )
    return {key: one for _, _, key, one in sorted(found, key=lambda one: one[:2])}, clock
