"""The time that each CPU spent on tasks, interrupts and for the hypervisor (proc(5), ``/proc/stat``)."""

from typing import NamedTuple

from ......core.node.host.cpulist import members
from ......core.node.host.files import kernel_text
from ...units import CpuPart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Ticks = Mapping[int, tuple[int, ...]]

_COLUMNS = 8  # user, nice, system, idle, iowait, irq, softirq, steal
_TASKS, _IDLE, _INTERRUPTS, _STEAL = slice(0, 3), slice(3, 5), slice(5, 7), 7


class Processor(NamedTuple):
    """Parts of one CPU's time, or the mean of several CPUs."""

    tasks: float = 0.0
    interrupts: float = 0.0
    """Hardware and software interrupts."""
    stolen: float = 0.0
    """A hypervisor ran something else."""


def read_processors(proc: str) -> "Ticks":
    """Return the ticks of each online CPU by column; without those of a line that is not as documented."""
    found: "dict[int, tuple[int, ...]]" = {}
    for line in kernel_text(f"{proc}/stat").splitlines():
        name, *words = line.split()
        if name[:3] != "cpu":
            break
        if name[3:].isdigit() and len(words) >= _COLUMNS and all(map(str.isdigit, words[:_COLUMNS])):
            found[int(name[3:])] = tuple(map(int, words[:_COLUMNS]))
    return found


def processors_between(before: "Ticks", after: "Ticks") -> "dict[int, Processor]":
    """Return the parts of each CPU's time between two readings."""
    found = {}
    for cpu, new in after.items():
        grown = [max(0, more - less) for more, less in zip(new, before.get(cpu, new))]
        whole = sum(grown)
        if whole:
            parts = sum(grown[_TASKS]), sum(grown[_INTERRUPTS]), grown[_STEAL]
            found[cpu] = Processor(*[part / whole for part in parts])
    return found


def mean_of(processors: "Mapping[int, Processor]", cpus: int) -> Processor:
    """Return the mean over the known ones of a set of CPUs; over all CPUs for the empty set."""
    chosen = [processors[cpu] for cpu in members(cpus) if cpu in processors] if cpus else [*processors.values()]
    if not chosen:
        return Processor()
    return Processor(*[sum(parts) / len(chosen) for parts in zip(*chosen)])


def stolen_of(processors: "Mapping[int, Processor]") -> CpuPart:
    """Return the part of all CPUs' time that a hypervisor took."""
    return CpuPart(mean_of(processors, 0).stolen)
