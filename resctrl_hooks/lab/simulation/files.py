"""The files of a resctrl filesystem: their content and their writes."""

import errno
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from resctrl_hooks.core.node.host.cpulist import format_list
from resctrl_hooks.core.node.resctrl.layouts import L3, NODE, assignments_file, info_folder, parse_domain
from resctrl_hooks.core.node.resctrl.rmids import ARCHITECTURE

from . import cpus, schemata
from .counters import domain_folders
from .errors import RefusedError
from .group import Group
from .machine import FULL_MASK, SHAREABLE_BITS, Machine
from .model import Resctrl
from .tasks import Caller

Read = Callable[[Group], str]
Change = Callable[[Group, str], None]
Write = Callable[[Group, str, Caller], None]


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """A file that groups have, such as `tasks`; those of `info` belong to the root group.

    Args:
        read: Returns its text in a group.
        write: Accepts one write; None for a read-only file.
        counter: Folder and name of a counter.
    """

    read: Read
    write: Write | None = None
    counter: tuple[str, str] | None = None

    @property
    def mode(self) -> int:
        """Its initial type and permissions."""
        return stat.S_IFREG | (0o444 if self.write is None else 0o644)


def info_files(sim: Resctrl) -> dict[str, File]:
    """Return the files of `info`, by their path below it: the machine's capabilities, and the kernel's last status."""
    machine = sim.machine
    kinds: dict[str, list[str]] = {}
    for folder, place in domain_folders(machine).items():
        if "/" not in folder:
            resource, _ = parse_domain(folder) or ("", 0)
            kinds[info_folder(resource)] = list(place.events)
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
        constants[f"{kind}/mon_features"] = "\n".join(events)
        constants[f"{kind}/num_rmids"] = str(machine.groups)
    if machine.bandwidth == NODE:
        constants["MB/resource_schemata/MB/scope"] = NODE
    assignments, counts = sim.counters.assignments, info_folder(machine.bandwidth_resource or L3)
    if counts != info_folder(L3):
        constants[f"{info_folder(L3)}/mbm_assign_mode"] = "[default]"
    files = {path: _constant(text) for path, text in constants.items()} | {
        "last_cmd_status": File(lambda _: sim.status),
        "L3_MON/max_threshold_occupancy": File(
            lambda _: f"{sim.threshold}\n", lambda _, text, __: sim.write_threshold(text)
        ),
        f"{counts}/mbm_assign_mode": File(
            lambda _: assignments.mode_text(), _line(sim, lambda _, line: sim.write_assign_mode(line))
        ),
    }
    for name in machine.caches:
        files[f"{name}/bit_usage"] = File(lambda _: schemata.bit_usage_text(machine, sim.all_classes()))
    if machine.assignable_counters:
        files |= {
            f"{counts}/num_mbm_cntrs": File(lambda _: assignments.total_text()),
            f"{counts}/available_mbm_cntrs": File(lambda _: sim.read_assignments(assignments.available_text)),
            f"{counts}/mbm_assign_on_mkdir": File(
                lambda _: sim.read_assignments(assignments.on_mkdir_text),
                _command(sim, lambda _, text: assignments.write_on_mkdir(text)),
            ),
        }
    return files


def _constant(text: str) -> File:
    return File(lambda _: f"{text}\n")


def group_files(sim: Resctrl) -> dict[str, File]:
    """Return the files in every group's directory, by name."""
    files = {
        "tasks": File(lambda group: "".join(f"{tid}\n" for tid in sim.tasks.listed(group)), sim.write_tasks),
        "cpus": _cpus_file(sim, partial(cpus.mask_text, machine=sim.machine), cpus.parse_mask),
        "cpus_list": _cpus_file(sim, format_list, cpus.parse_list),
    }
    if sim.machine.assignable_counters:
        assignments = sim.counters.assignments
        read = partial(sim.read_assignments, assignments.text)
        files[assignments_file(sim.machine.bandwidth_resource)] = File(read, _line(sim, assignments.write))
    return files


def class_files(sim: Resctrl) -> dict[str, File]:
    """Return the files that only CTRL groups have."""
    return {
        "schemata": File(
            lambda group: schemata.schemata_text(group, sim.machine.other_schemata), _line(sim, sim.write_schemata)
        ),
        "mode": File(lambda group: f"{group.mode}\n", _line(sim, sim.write_mode)),
        "size": File(schemata.size_text),
    }


def counter_files(sim: Resctrl) -> dict[str, File]:
    """Return the files of `mon_data`, by their path below it."""
    places = domain_folders(sim.machine).items()
    return {f"{folder}/{event}": _counter(sim, folder, event) for folder, place in places for event in place.events}


def _counter(sim: Resctrl, folder: str, event: str) -> File:
    return File(lambda group: f"{sim.counters.text(group, folder, event)}\n", counter=(folder, event))


def _cpus_file(sim: Resctrl, text: Callable[[int], str], parse: Callable[[str, Machine], int]) -> File:
    def change(group: Group, written: str) -> None:
        cpus.assign(group, parse(written, sim.machine), sim.root, sim.all_classes())

    return File(lambda group: f"{text(group.cpus)}\n", _command(sim, change))


def _command(sim: Resctrl, change: Change) -> Write:
    """Return a write that leaves its result in `last_cmd_status`."""

    def write(group: Group, text: str, _: Caller) -> None:
        with sim.command():
            change(group, text)

    return write


def _line(sim: Resctrl, change: Change) -> Write:
    """Return such a write of a line; without a newline, the kernel refuses and leaves `last_cmd_status` unchanged."""
    command = _command(sim, change)

    def write(group: Group, text: str, caller: Caller) -> None:
        if not text.endswith("\n"):
            raise RefusedError(errno.EINVAL)
        command(group, text[:-1], caller)

    return write
