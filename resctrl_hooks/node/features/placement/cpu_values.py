"""The values of CPU classes in cpufreq. Files of CPUs that share a cpufreq policy are one file."""

import posix

from ...host.cpulist import members
from ...host.files import kernel_text
from .cpu_classes import FILES, SYMBOLS, assign, values_of
from .node_values import OWN, NodeValues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context
    from ...records import NodeValueRecord
    from .node_values import Values
    from .usage import Usage

_FREQUENCY = "_freq"  # the end of the names of files with a limit
_GOVERNOR, _PREFERENCE = FILES["freqGovernor"], FILES["energyPerformancePreference"]


class CpuValues(NodeValues):
    """The files of cpufreq, by path below sysfs' folder of CPUs."""

    title = "CPU classes"
    record = "placement.cpus"

    def __init__(self, context: "Context") -> None:
        super().__init__(f"{context.settings.sys_path}/devices/system/cpu", context)

    def wanted(self, usage: "Usage", values: "Values") -> "dict[str, str]":
        """Return the wanted values by file; a class of a missing definition has none.

        With a governor, the kernel may show and use another energy preference (intel_pstate: ``performance``). So each
        class with a governor has a preference, its own or the CPU's, which is written and recorded before the governor.
        """
        options = self.context.settings.placement
        classes = values_of(options)
        folders: "dict[str, str]" = {}
        for name, cpus in assign(usage, options):
            for cpu in members(cpus):
                try:
                    policy = posix.readlink(f"{self.base}/cpu{cpu}/cpufreq").rpartition("/")[2]
                    folders.setdefault(f"cpufreq/{policy}", name)
                except OSError:
                    folders.setdefault(f"cpu{cpu}/cpufreq", name)  # no cpufreq, which the write reports
        for name, own in classes.items():
            if _GOVERNOR in own and _PREFERENCE not in own:
                classes[name] = {_PREFERENCE: OWN, **own}
        return {
            f"{folder}/{file}": value
            for folder, name in folders.items()
            for file, value in classes.get(name, {}).items()
        }

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
