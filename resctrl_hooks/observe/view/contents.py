"""Contents of the view's files: every pod's totals since its start, and the node's, which never decrease."""

import json
import os

from resctrl_hooks.core.inventory.gather import waiting_keys
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.names import canonical_pod_uid
from resctrl_hooks.core.node.resctrl.counters import AVAILABLE, CUMULATIVE, KERNEL_WORDS, UNAVAILABLE, Reading, Slot
from resctrl_hooks.core.node.resctrl.group_names import Names
from resctrl_hooks.core.node.resctrl.layouts import PERF
from resctrl_hooks.observe.metrics.classes import class_totals
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, take

Files = dict[str, str]
"""The text of each file, by its path below the mountpoint."""
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

    def read(self) -> Files:
        """Return the files' texts from one read of the node.

        Raises:
            HookError: resctrl or the state directory cannot be read.
        """
        resctrl, snapshot = self._context.monitor.resctrl, take(self._context)
        slots = list(snapshot.slots.values())
        files = self._whole_node(snapshot)
        waiting, mirrors = waiting_keys(self._context), self._mirror_uids()
        names = Names(self._context.monitor)
        for key, found in snapshot.pods.items():
            classes = snapshot.held.get(key, set())
            group = f"{GROUPS}/{mirrors.get(key, key)}"
            tasks = {tid for name in classes for tid in resctrl.tasks(name, names.of(key, name))}
            files[f"{group}/tasks"] = "".join(f"{tid}\n" for tid in sorted(tasks))
            counted = found if classes and key not in waiting else []
            files |= {f"{group}/{slot.file}": _text(slot, _sum(slot, counted)) for slot in slots}
        return files

    def _whole_node(self, snapshot: Snapshot) -> Files:
        """Return the sum over all classes, of a cumulative counter including removed ones."""
        with class_totals(self._context, snapshot) as totals:
            node = totals.node
        files: Files = {}
        number = len(["", *self._context.monitor.resctrl.classes()])
        for path, slot in snapshot.slots.items():
            whole = {name: found.whole.get(path) for name, found in snapshot.classes.items()}
            now = {name: value for name, value in whole.items() if isinstance(value, (int, float))}
            # A class in which no task has run yet has no energy; for any other counter, the node's value is then
            # unknown.
            known = "" in now and (slot.domain.resource == PERF or len(now) == number)
            sums = node.get(path, 0) if slot.counter.kind == CUMULATIVE else sum(now.values())
            files[slot.file] = _text(slot, sums if known else UNAVAILABLE)
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
