"""One look at the node as rows: for each pod, foreign group and class remainder, and each domain, its counters.

A class's counters are the sums of its own tasks' and of its groups' (kernel, resctrl.rst, "Resource monitoring
rules"), so what is in no group is the class's number less those of its groups.
"""

import socket
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from resctrl_hooks.inventory.pod_names import PodNames
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.node.resctrl.counters import AVAILABLE, MON_DATA, Counter, Slot

POD, GROUP, REST = "pod", "group", "rest"
"""Kinds of rows: a pod's, a group's that others made, what of a class is in no group."""
LABELS: Final = ("time", "host", "kind", "key", "namespace", "pod", "container", "rdt_class", "domain", "missing")
Value = str | float | None
Row = Mapping[str, Value]
_UNITS = {"By": "bytes", "J": "joules"}
_Raw = int | float | str | None


def column_of(counter: Counter) -> str:
    """A counter's column: its file's name, with its unit at the end."""
    unit = _UNITS.get(counter.unit, "")
    return counter.name if not unit or counter.name.endswith(f"_{unit}") else f"{counter.name}_{unit}"


class Sampler:
    """Looks at the node again and again.

    Args:
        node: the node that is looked at.

    Raises:
        HookError: resctrl can't be read.
    """

    def __init__(self, node: Context) -> None:
        self._node = node
        self._names = PodNames(node)
        self._host = socket.gethostname()
        self._root = node.monitor.resctrl.root
        node.monitor.resctrl.classes()
        self._slots = [slot for slot in layout(f"{self._root}/{MON_DATA}") if slot.domain.node is None]
        self.columns = (*LABELS, *dict.fromkeys(column_of(slot.counter) for slot in self._slots))
        """What each row has: `LABELS` and the counters of this machine."""

    def look(self) -> list[Row]:
        """The rows of this moment.

        Raises:
            HookError: resctrl or the state directory can't be read.
        """
        resctrl = self._node.monitor.resctrl
        when = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        readings = self._node.monitor.read_all()
        self._names.learn(readings)
        rows: list[Row] = []
        for key, found in readings.items():
            namespace, pod, container = self._names.of(key)
            labels = {"key": key, "namespace": namespace, "pod": pod, "container": container}
            numbers = [
                (Slot(reading.domain, reading.counter), reading.value if reading.state == AVAILABLE else reading.state)
                for reading in found
                if reading.domain.node is None
            ]
            rows += self._rows(when, POD, labels, numbers)
        ours = {self._node.monitor.group_prefix + key for key in readings}
        for rdt_class in ("", *sorted(resctrl.classes())):
            held: list[list[_Raw]] = []
            for name in resctrl.groups(rdt_class):
                values = self._read(resctrl.group_folder(rdt_class, name))
                if values is None:
                    continue
                held.append(values)
                if name not in ours:
                    labels = {"key": name, "rdt_class": rdt_class}
                    rows += self._rows(when, GROUP, labels, zip(self._slots, values, strict=True))
            whole = self._read(resctrl.class_folder(rdt_class))
            if whole is not None:
                rest = [_less(*column) for column in zip(whole, *held, strict=True)]
                rows += self._rows(when, REST, {"rdt_class": rdt_class}, zip(self._slots, rest, strict=True))
        return rows

    def _read(self, folder: str) -> list[_Raw] | None:
        try:
            return read_group(folder, self._slots)[1]
        except OSError:
            return None  # removed a moment ago

    def _rows(self, when: str, kind: str, labels: Row, numbers: Iterable[tuple[Slot, _Raw]]) -> list[Row]:
        """A row for each domain. What has no number is named in ``missing``, with the kernel's word for it."""
        found: dict[str, dict[str, Value]] = {}
        for slot, value in numbers:
            if value is None:
                continue
            first = {"time": when, "host": self._host, "kind": kind, "domain": slot.domain.folder, **labels}
            row = found.setdefault(slot.domain.folder, first)
            column = column_of(slot.counter)
            if isinstance(value, str):
                row["missing"] = f"{row.get('missing', '')} {column}:{value}".lstrip()
            else:
                row[column] = value
        return list(found.values())


def _less(whole: _Raw, *parts: _Raw) -> _Raw:
    """What of a class's number its groups leave; the share of one that has no number stays in it."""
    if whole is None or isinstance(whole, str):
        return whole
    return max(whole - sum(part for part in parts if isinstance(part, (int, float))), 0)
