"""CPU classes: which CPUs have which frequencies, governor and energy preference. Pure functions.

The settings are those of the balloons policy (nri-plugins, docs/resource-policy/policy/balloons.md), the files those of
the kernel (Documentation/admin-guide/pm/cpufreq.rst).
"""

from .policy import pools_in_use, sets_in
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .usage import Usage

FILES = {
    "freqGovernor": "scaling_governor",
    "energyPerformancePreference": "energy_performance_preference",
    "maxFreq": "scaling_max_freq",
    "minFreq": "scaling_min_freq",
}
SYMBOLS = {"min": "cpuinfo_min_freq", "base": "base_frequency", "turbo": "cpuinfo_max_freq"}
"""Frequencies by name, and the file with each CPU's value."""


def assign(usage: "Usage", options: "dict[str, Any]") -> "list[tuple[str, int]]":
    """Return classes with their CPUs; if a CPU is in several of these sets, the first one counts.

    A pool's class applies to the pool's CPUs on which its containers run, and to their exclusive CPUs. The idle class
    applies to CPUs without a container, except reserved and isolated ones. ``options`` is the ``placement`` section.

    Raises:
        PlacementError: a pool is invalid.
    """
    found: "list[tuple[str, int]]" = []
    for name, inside, pool in sets_in(pools_in_use(options)):
        if pool.get("cpuClass"):
            cpus = 0
            for grant in usage.grants:
                if grant.decision.pool == name:
                    cpus |= grant.decision.owned | effective(grant.decision, usage) & inside
            found.append((pool["cpuClass"], cpus & usage.online))
    if options.get("idleCpuClass"):
        busy = usage.owned
        for grant in usage.grants:
            busy |= effective(grant.decision, usage)
        found.append((options["idleCpuClass"], usage.usable & ~busy))
    return found


def values_of(options: "dict[str, Any]") -> "dict[str, dict[str, str]]":
    """Return the values of each class by file."""
    return {
        spec["name"]: {file: str(spec[key]) for key, file in FILES.items() if spec.get(key) not in (None, "")}
        for spec in options.get("cpuClasses") or []
    }
