"""The files of a resctrl filesystem: their content and their writes."""

import errno
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from resctrl_hooks.node.host.cpulist import format_list
from resctrl_hooks.node.resctrl.rmids import ARCHITECTURE

from . import cpus, schemata
from .counters import domain_folders
from .errors import RefusedError
from .group import Group
from .machine import FULL_MASK, SHAREABLE_BITS
from .model import Resctrl

_READABLE = stat.S_IFREG | 0o444
_WRITABLE = stat.S_IFREG | 0o644

Caller = tuple[int, int]
"""Thread id and user id of the writer."""
Write = Callable[[str, Caller], None]


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """A file.

    Args:
        group: Its group; after the group's removal, reads and writes of open files fail.
        path: Its path below the group.
        mode: Its initial type and permissions.
        read: Returns its text.
        write: Accepts one write; None for a read-only file.
        counter: Folder and name of a counter.
    """

    group: Group
    path: str
    mode: int
    read: Callable[[], str]
    write: Write | None = None
    counter: tuple[str, str] | None = None


def info_files(sim: Resctrl) -> dict[str, File]:
    """Return the files of `info`, by their path below it: the machine's capabilities, and the kernel's last status."""
    machine = sim.machine
    kinds: dict[str, list[str]] = {}
    for folder, place in domain_folders(machine).items():
        if "/" not in folder:
            kinds[folder.removeprefix("mon_").rpartition("_")[0]] = list(place.events)
    least, _, step = machine.traits.bandwidth
    constants: dict[str, str] = {
        "MB/bandwidth_gran": str(step),
        "MB/delay_linear": str(int(machine.traits.linear)),
        "MB/min_bandwidth": str(least),
        "MB/num_closids": str(machine.classes),
        ARCHITECTURE: machine.traits.architecture,
    }
    if machine.traits.throttle_mode:
        constants["MB/thread_throttle_mode"] = "max"
    for name in machine.caches:
        constants |= {
            f"{name}/cbm_mask": f"{FULL_MASK:x}",
            f"{name}/min_cbm_bits": str(machine.traits.min_cbm_bits),
            f"{name}/num_closids": str(machine.classes),
            f"{name}/shareable_bits": f"{SHAREABLE_BITS:x}",
            f"{name}/sparse_masks": str(int(machine.sparse)),
        }
    for kind, events in kinds.items():
        constants[f"{kind}_MON/mon_features"] = "\n".join(events)
        constants[f"{kind}_MON/num_rmids"] = str(machine.groups)
    files = {
        path: File(sim.root, f"info/{path}", _READABLE, lambda text=text: f"{text}\n")  # type: ignore[misc]
        for path, text in constants.items()
    }
    assignments = sim.counters.assignments
    variable: list[tuple[str, Callable[[], str], Write | None]] = [
        ("last_cmd_status", lambda: sim.status, None),
        ("L3_MON/max_threshold_occupancy", lambda: f"{sim.threshold}\n", lambda text, _: sim.write_threshold(text)),
        ("L3_MON/mbm_assign_mode", assignments.mode_text, _line(sim, sim.write_assign_mode)),
    ]
    variable += [
        (f"{name}/bit_usage", lambda: schemata.bit_usage_text(machine, sim.all_classes()), None)
        for name in machine.caches
    ]
    if machine.assignable_counters:
        on_mkdir = partial(sim.read_assignments, assignments.on_mkdir_text)
        variable += [
            ("L3_MON/num_mbm_cntrs", assignments.total_text, None),
            ("L3_MON/available_mbm_cntrs", partial(sim.read_assignments, assignments.available_text), None),
            ("L3_MON/mbm_assign_on_mkdir", on_mkdir, _command(sim, assignments.write_on_mkdir)),
        ]
    return files | {path: _file(sim.root, f"info/{path}", read, write) for path, read, write in variable}


def group_files(sim: Resctrl, group: Group) -> dict[str, File]:
    """Return the files in a group's own directory, by name."""
    rows: list[tuple[str, Callable[[], str], Write | None]] = [
        (
            "tasks",
            lambda: "".join(f"{tid}\n" for tid in sim.tasks.listed(group)),
            lambda text, caller: sim.write_tasks(group, text, caller),
        ),
        (
            "cpus",
            lambda: f"{cpus.mask_text(group.cpus, sim.machine)}\n",
            _command(sim, partial(sim.write_cpus, group)),
        ),
        ("cpus_list", lambda: f"{format_list(group.cpus)}\n", _command(sim, partial(sim.write_cpus_list, group))),
    ]
    if sim.machine.assignable_counters:
        assignments = sim.counters.assignments
        read = partial(sim.read_assignments, partial(assignments.text, group))
        rows.append(("mbm_L3_assignments", read, _line(sim, partial(assignments.write, group))))
    if group.parent is None:
        rows += [
            ("schemata", lambda: schemata.schemata_text(group), _line(sim, partial(sim.write_schemata, group))),
            ("mode", lambda: f"{group.mode}\n", _line(sim, partial(sim.write_mode, group))),
            ("size", lambda: schemata.size_text(group), None),
        ]
    return {name: _file(group, name, read, write) for name, read, write in rows}


def _file(group: Group, path: str, read: Callable[[], str], write: Write | None) -> File:
    return File(group, path, _READABLE if write is None else _WRITABLE, read, write)


def _command(sim: Resctrl, change: Callable[[str], None]) -> Write:
    """Return a write that leaves its result in `last_cmd_status`."""

    def write(text: str, _: Caller) -> None:
        with sim.command():
            change(text)

    return write


def _line(sim: Resctrl, change: Callable[[str], None]) -> Write:
    """Return such a write of a line; without a newline, the kernel refuses and leaves `last_cmd_status` unchanged."""
    command = _command(sim, change)

    def write(text: str, caller: Caller) -> None:
        if not text.endswith("\n"):
            raise RefusedError(errno.EINVAL)
        command(text[:-1], caller)

    return write


def counter_file(sim: Resctrl, group: Group, folder: str, event: str) -> File:
    """Return a counter's file."""
    path = f"mon_data/{folder}/{event}"
    return File(group, path, _READABLE, lambda: f"{sim.counters.text(group, folder, event)}\n", None, (folder, event))
