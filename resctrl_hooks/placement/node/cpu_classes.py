"""CPU classes: which CPUs have which class, and the values of each class by file. Pure functions.

The settings are those of the balloons policy (nri-plugins, docs/resource-policy/policy/balloons.md), the files those of
the kernel (Documentation/admin-guide/pm: cpufreq.rst, cpuidle.rst, intel_uncore_frequency_scaling.rst).
"""

from ...core.node.host.cpulist import union
from .pool_sets import used_by_key
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .usage import Usage

    Assigned = list[tuple[str, int]]

FILES = {
    "freqGovernor": "scaling_governor",
    "energyPerformancePreference": "energy_performance_preference",
    "maxFreq": "scaling_max_freq",
    "minFreq": "scaling_min_freq",
}
"""Of a cpufreq policy."""
UNCORE_FILES = {"uncoreMaxFreq": "max_freq_khz", "uncoreMinFreq": "min_freq_khz"}
"""Of a domain of the uncore: a package's or die's caches and memory controllers."""
TURBO, BASE = "turbo", "base"
SYMBOLS = {"min": "cpuinfo_min_freq", BASE: "base_frequency", TURBO: "cpuinfo_max_freq"}
"""Frequencies by name, and the file with each CPU's value."""
UNCORE_SYMBOLS = {"min": "initial_min_freq_khz", TURBO: "initial_max_freq_khz"}
DEFAULT_CLASS = "default"
"""The class of CPUs that have no other one."""


def assign(usage: "Usage", options: "dict[str, Any]") -> "Assigned":
    """Return classes with their CPUs, which do not overlap; if a CPU is in several of these sets, the first one counts.

    A container's class applies to its exclusive CPUs. A pool's class applies to the pool's CPUs on which its containers
    run, and to their exclusive CPUs. The idle class applies to CPUs without a container, and `DEFAULT_CLASS` to all
    others; both except reserved and isolated ones. ``options`` is the ``placement`` section.

    Raises:
        PlacementError: a pool is invalid.
    """
    found = [(grant.decision.cpu_class, grant.decision.owned) for grant in usage.grants if grant.decision.cpu_class]
    found += used_by_key("cpuClass", usage, options)
    if options.get("idleCpuClass"):
        busy = usage.owned | union(effective(grant.decision, usage) for grant in usage.grants)
        found.append((options["idleCpuClass"], usage.usable & ~busy))
    if any(spec["name"] == DEFAULT_CLASS for spec in _specs(options)):
        found.append((DEFAULT_CLASS, usage.usable))
    assigned: "Assigned" = []
    left = usage.online
    for name, cpus in found:
        assigned.append((name, cpus & left))
        left &= ~cpus
    return assigned


def values_of(options: "dict[str, Any]", files: "dict[str, str]" = FILES) -> "dict[str, dict[str, str]]":
    """Return the values of each class by file."""
    return {
        spec["name"]: {file: str(spec[key]) for key, file in files.items() if spec.get(key) not in (None, "")}
        for spec in _specs(options)
    }


def below_turbo(assigned: "Assigned", options: "dict[str, Any]", packages: "list[int]") -> "dict[str, int]":
    """Return the CPUs by class on which `TURBO` means `BASE`, as a class with a higher ``turboPriority`` has CPUs near.

    Near is the package, or with ``turboDomain: system`` the node.
    """
    priorities = {spec["name"]: spec.get("turboPriority") or 0 for spec in _specs(options)}
    if not any(priorities.values()):
        return {}
    found: "dict[str, int]" = {}
    for domain in [-1] if options.get("turboDomain") == "system" else packages:
        here = {name for name, cpus in assigned if cpus & domain}
        highest = max((priorities.get(name, 0) for name in here), default=0)
        for name in here:
            if priorities.get(name, 0) < highest:
                found[name] = found.get(name, 0) | domain
    return found


def idle_limits(options: "dict[str, Any]") -> "dict[str, tuple[list[str], int | None]]":
    """Return the disabled C-states of the classes that have some: names, and the latency in µs above which all are."""
    found = {}
    for spec in _specs(options):
        names, latency = spec.get("disabledCstates") or [], spec.get("maxCstateLatency")
        if names or latency is not None:
            found[spec["name"]] = names, latency
    return found


def _specs(options: "dict[str, Any]") -> "list[dict[str, Any]]":
    return options.get("cpuClasses") or []
