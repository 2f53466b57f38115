"""The C-states that CPU classes disable: files ``cpuN/cpuidle/stateM/disable`` (Linux, admin-guide/pm/cpuidle.rst)."""

from ...core.node.host.cpulist import lowest, members
from ...core.node.host.files import kernel_text, list_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cpu_classes import Assigned

DISABLE = "/disable"
_DISABLED = "1"
_STATE = "state"


def disabled(
    base: str, assigned: "Assigned", limits: "dict[str, tuple[list[str], int | None]]", alike: "list[int]"
) -> "dict[str, str]":
    """Return the values by path below ``base``, sysfs' folder of CPUs.

    A state that a CPU lacks has the path of its name, so that the write is refused and reported. ``alike`` are sets of
    CPUs with the same states, which are read of one CPU only.
    """
    found: "dict[str, str]" = {}
    for kind in alike if any(cpus for name, cpus in assigned if name in limits) else ():
        states = _states(f"{base}/cpu{lowest(kind)}/cpuidle")
        for name, cpus in assigned:
            if name in limits:
                folders = _disabled(states, *limits[name])
                for cpu in members(cpus & kind):
                    found.update({f"cpu{cpu}/cpuidle/{folder}{DISABLE}": _DISABLED for folder in folders})
    return found


def _states(folder: str) -> "list[tuple[str, str, int]]":
    """Return each state's folder, name, and exit latency in microseconds."""
    found = []
    for state in sorted(list_folder(folder)):
        latency = kernel_text(f"{folder}/{state}/latency")
        if state.startswith(_STATE) and latency.isdecimal():
            found.append((state, kernel_text(f"{folder}/{state}/name"), int(latency)))
    return found


def _disabled(states: "list[tuple[str, str, int]]", names: "list[str]", most: "int | None") -> "list[str]":
    slow = [state for state, _, latency in states if most is not None and latency > most]
    folders = {name: state for state, name, _ in states}
    named = [folders.get(name, name) for name in names]
    missing = [_STATE] if most is not None and not states else []
    return [*slow, *(folder for folder in named if folder not in slow), *missing]
