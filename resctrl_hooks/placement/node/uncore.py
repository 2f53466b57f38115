"""The uncore frequency limits of CPU classes: ``intel_uncore_frequency`` in sysfs' folder of CPUs.

Source: Linux, admin-guide/pm/intel_uncore_frequency_scaling.rst. Where the processor has several domains in a package,
each has a folder ``uncoreNN``; those of packages and dies are their sums then, and are not written.
"""

from ...core.node.host.files import kernel_text, list_folder
from .cpu_classes import UNCORE_SYMBOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.host.topology import Topology
    from .cpu_classes import Assigned

FOLDER = "intel_uncore_frequency"
STEP = 100000
"""kHz; the hardware's unit."""


def limits(
    base: str, assigned: "Assigned", values: "dict[str, dict[str, str]]", topology: "Topology"
) -> "dict[str, str]":
    """Return the values by path below ``base``: in each domain the highest of those of all classes with CPUs there."""
    with_limits = [(values[name], cpus) for name, cpus in assigned if cpus and values.get(name)]
    found: "dict[str, str]" = {}
    for folder, near in _domains(base, topology) if with_limits else ():
        for of_class, cpus in with_limits:
            for file, value in of_class.items() if cpus & near else ():
                symbol = UNCORE_SYMBOLS.get(value)
                text = kernel_text(f"{base}/{folder}/{symbol}") if symbol else value
                key = f"{folder}/{file}"
                if int(text or 0) >= int(found.get(key, 0)):
                    found[key] = text or found.get(key, "0")
    return found


def is_rounded(asked: str, now: str) -> bool:
    """Return whether the kernel's value is the wanted one in the hardware's unit."""
    return now.isdecimal() and asked.isdecimal() and int(now) // STEP == int(asked) // STEP


def _domains(base: str, topology: "Topology") -> "list[tuple[str, int]]":
    """Return each domain's folder and its CPUs."""
    dies = topology.dies or {f"{package}.0": cpus for package, cpus in topology.packages.items()}
    found = []
    for name in sorted(list_folder(f"{base}/{FOLDER}")):
        if name.startswith("uncore"):
            package = kernel_text(f"{base}/{FOLDER}/{name}/package_id")
            die = kernel_text(f"{base}/{FOLDER}/{name}/die_id")  # since Linux 6.17, of domains with CPUs
            cpus = topology.packages.get(int(package), 0) if package.isdecimal() else 0
            found.append((f"{FOLDER}/{name}", dies.get(f"{package}.{die}", 0) if die else cpus))
    if found:
        return found
    for die, cpus in dies.items():
        package, _, number = die.partition(".")
        found.append((f"{FOLDER}/package_{int(package):02}_die_{int(number):02}", cpus))
    return found
