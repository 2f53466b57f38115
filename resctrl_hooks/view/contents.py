"""Contents of the view's files: every pod's totals since its start, and the node's, which never decrease."""

import json
import os

from resctrl_hooks.inventory.gather import waiting_keys
from resctrl_hooks.inventory.snapshot import Snapshot, take
from resctrl_hooks.metrics.classes import class_totals, values_of
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.names import canonical_pod_uid
from resctrl_hooks.node.resctrl.counters import AVAILABLE, CUMULATIVE, KERNEL_WORDS, PERF, UNAVAILABLE, Reading, Slot

Files = dict[str, str]
"""The text of each file, by its path below the mountpoint."""
Values = dict[str, dict[str, float]]  # by path below mon_data, of each RDT class
GROUPS = "mon_groups"
_MIRROR = "kubernetes.io/config.mirror"


class Contents:
    """Reader of the node.

    Args:
        context: the node.
        pods_file: a list of pods as `kubectl get pods -o json` prints it, for static pods' mirror UIDs; empty for none.
    """

    def __init__(self, context: Context, pods_file: str = "") -> None:
        self._context, self._pods_file = context, pods_file
        self._pods_read = 0
        self._mirrors: dict[str, str] = {}
        self._last: Values = {}
        self._node: dict[str, float] = {}

    def look(self) -> Files:
        """Return the files' texts from one read of the node.

        Raises:
            HookError: resctrl or the state directory cannot be read.
        """
        resctrl, snapshot = self._context.monitor.resctrl, take(self._context)
        slots = list(snapshot.slots.values())
        files = self._whole_node(slots, self._of_classes(snapshot))
        waiting, mirrors = waiting_keys(self._context), self._mirror_uids()
        for key, found in snapshot.pods.items():
            classes = snapshot.held.get(key, set())
            group = f"{GROUPS}/{mirrors.get(key, key)}"
            tasks = {tid for name in classes for tid in resctrl.tasks(name, self._context.monitor.group_prefix + key)}
            files[f"{group}/tasks"] = "".join(f"{tid}\n" for tid in sorted(tasks))
            counted = found if classes and key not in waiting else []
            files |= {f"{group}/{slot.file}": _text(slot, _sum(slot, counted)) for slot in slots}
        return files

    def _of_classes(self, snapshot: Snapshot) -> Values:
        """Return the classes' totals, as in the metrics."""
        values: Values = {path: {} for path in snapshot.slots}
        with class_totals(self._context, snapshot) as totals:
            for name, found in snapshot.classes.items():
                for path, value in values_of(found.whole, totals.of(name).total, snapshot.slots).items():
                    values[path][name] = value
        return values

    def _whole_node(self, slots: list[Slot], classes: Values) -> Files:
        """Return the sum over all classes.

        For a cumulative counter it is the sum of increases, including those of removed classes.
        """
        files: Files = {}
        number = len(["", *self._context.monitor.resctrl.classes()])
        for slot, now in [(slot, classes[slot.path]) for slot in slots]:
            # A class in which no task has run yet has no energy; for any other counter, the node's value is then
            # unknown.
            known = "" in now and (slot.domain.resource == PERF or len(now) == number)
            value: float | str = sum(now.values()) if known else UNAVAILABLE
            if slot.counter.kind == CUMULATIVE and not isinstance(value, str):
                last = self._last.setdefault(slot.path, dict(now))
                grown = sum(max(new - last.get(name, new), 0) for name, new in now.items())
                value = self._node[slot.path] = self._node.get(slot.path, value - grown) + grown
                last.update(now)
            files[slot.file] = _text(slot, value)
        return files

    def _mirror_uids(self) -> dict[str, str]:
        """Return the mirror pods' UIDs by the keys of static pods, from the file or from its last valid content."""
        if not self._pods_file:
            return {}
        try:
            changed = os.stat(self._pods_file).st_mtime_ns
            if changed != self._pods_read:
                with open(self._pods_file, encoding="utf-8") as file:
                    pods = [pod["metadata"] for pod in json.load(file)["items"]]
                marks = {pod["uid"]: (pod.get("annotations") or {}).get(_MIRROR) for pod in pods}
                self._mirrors = {canonical_pod_uid(mark): uid for uid, mark in marks.items() if mark}
                self._pods_read = changed
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            pass
        return self._mirrors


def _sum(slot: Slot, readings: list[Reading]) -> float | str:
    """Return a pod's value in one file over all its classes; a word if one is unknown, or none is counted."""
    parts = [reading for reading in readings if f"{reading.domain.folder}/{reading.counter.name}" == slot.path]
    word = next((part.state for part in parts if part.state != AVAILABLE), "" if parts else UNAVAILABLE)
    return word or sum(part.value or 0 for part in parts)


def _text(slot: Slot, value: float | str) -> str:
    number = ".6f" if slot.counter.unit in ("J", "F") else ".0f"
    word = value if value in KERNEL_WORDS else UNAVAILABLE
    return f"{word}\n" if isinstance(value, str) else f"{value:{number}}\n"
