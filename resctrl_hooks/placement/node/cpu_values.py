"""The values of CPU classes in cpufreq, cpuidle and the uncore. CPUs that share a cpufreq policy share its files."""

import posix

from ...core.node.host.cpulist import members
from ...core.node.host.files import kernel_text
from .allocations import topology_of
from .cpu_classes import (
    BASE,
    FILES,
    SYMBOLS,
    TURBO,
    UNCORE_FILES,
    assign,
    below_turbo,
    idle_limits,
    values_of,
)
from .idle_states import DISABLE, disabled
from .node_values import OWN, NodeValues
from .uncore import FOLDER, is_rounded, limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from .cpu_classes import Assigned
    from .node_values import NodeValueRecord, Values
    from .usage import Usage

_FREQUENCY = "_freq"  # the end of the names of files with a limit
_GOVERNOR, _PREFERENCE = FILES["freqGovernor"], FILES["energyPerformancePreference"]


class CpuValues(NodeValues):
    """The files of cpufreq, cpuidle and the uncore, by path below sysfs' folder of CPUs."""

    title = "CPU classes"
    record = "placement.cpus"

    def __init__(self, context: "Context") -> None:
        super().__init__(f"{context.settings.sys_path}/devices/system/cpu", context)

    def wanted(self, usage: "Usage", values: "Values") -> "dict[str, str]":
        """Return the wanted values by file; a class of a missing definition has none."""
        options = self.context.settings.sections["placement"]
        if not options.get("cpuClasses"):
            return {}
        assigned = assign(usage, options)
        topology = topology_of(self.context, keep=False)
        alike = list(topology.kinds.values()) or [topology.online]
        turbo = below_turbo(assigned, options, list(topology.packages.values()))
        return {
            **self._frequencies(assigned, turbo),
            **disabled(self.base, assigned, idle_limits(options), alike),
            **limits(self.base, assigned, values_of(options, UNCORE_FILES), topology),
        }

    def _frequencies(self, assigned: "Assigned", turbo: "dict[str, int]") -> "dict[str, str]":
        """Return the values of cpufreq. ``turbo`` are the CPUs by class that do not get the turbo frequency.

        With a governor, the kernel may show and use another energy preference (intel_pstate: ``performance``). So each
        class with a governor has a preference, its own or the CPU's, which is written and recorded before the governor.
        """
        classes = values_of(self.context.settings.sections["placement"])
        folders: "dict[str, tuple[str, int]]" = {}
        for name, cpus in assigned:
            for cpu in members(cpus if classes.get(name) else 0):
                try:
                    policy = posix.readlink(f"{self.base}/cpu{cpu}/cpufreq").rpartition("/")[2]
                    folders.setdefault(f"cpufreq/{policy}", (name, cpu))
                except OSError:
                    folders.setdefault(f"cpu{cpu}/cpufreq", (name, cpu))  # no cpufreq, which the write reports
        for name, own in classes.items():
            if _GOVERNOR in own and _PREFERENCE not in own:
                classes[name] = {_PREFERENCE: OWN, **own}
        return {
            f"{folder}/{file}": BASE if value == TURBO and turbo.get(name, 0) >> cpu & 1 else value
            for folder, (name, cpu) in folders.items()
            for file, value in classes.get(name, {}).items()
        }

    def unlike(self, key: str, asked: str, now: str) -> bool:
        """Return whether a C-state is still enabled, or the uncore has another limit; cpufreq rounds as it likes."""
        return (key.endswith(DISABLE) and now != asked) or (key.startswith(FOLDER) and not is_rounded(asked, now))

    def learn(self, key: str, value: "NodeValueRecord", current: str) -> None:
        """Keep another program's value; the kernel itself changes what it shows for a limit, by temperature."""
        if not key.endswith(_FREQUENCY):
            super().learn(key, value, current)

    def write(self, key: str, value: str) -> str:
        """Write a value, or the frequency that it names; return the error's name if the kernel refuses."""
        folder, _, name = key.rpartition("/")
        if name.endswith(_FREQUENCY) and value in SYMBOLS:
            value = kernel_text(f"{self.base}/{folder}/{SYMBOLS[value]}")
            if not value:
                return "ENOENT"
        return super().write(key, value)
