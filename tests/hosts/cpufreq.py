"""A simulated host whose CPUs have cpufreq, C-states, an uncore per package, and CPU classes; sysfs are plain files."""

from pathlib import Path
from typing import Any

from hosts.node import Node
from hosts.placed import MACHINE, PlacedHost
from resctrl_hooks.core.node.host.cpulist import lowest, members, parse_list
from resctrl_hooks.core.node.host.topology import Topology

FOUND = {
    "scaling_governor": "powersave", "energy_performance_preference": "balance_performance",
    "scaling_min_freq": "800000", "scaling_max_freq": "3600000", "cpuinfo_min_freq": "800000",
    "cpuinfo_max_freq": "3600000", "base_frequency": "2400000",
}  # fmt: skip
IDLE_STATES = {"state0": ("POLL", 0), "state1": ("C1", 2), "state2": ("C1E", 10), "state3": ("C6", 133)}
UNCORE = {
    "min_freq_khz": "800000", "max_freq_khz": "2200000", "initial_min_freq_khz": "800000",
    "initial_max_freq_khz": "2500000",
}  # fmt: skip
FAST = {"name": "fast", "minFreq": "turbo", "freqGovernor": "performance", "energyPerformancePreference": "performance"}
SLOW = {"name": "slow", "maxFreq": "1200000"}
POOLS: list[dict[str, Any]] = [
    {"name": "db", "cpus": "0-3", "cpuClass": "fast", "namespaces": ["shop"]},
    {"name": "batch", "cpus": "4-7", "cpuClass": "slow", "namespaces": ["batch"]},
    {"name": "plain", "cpus": "8-9"},
]
FAST_VALUES = {
    "scaling_governor": "performance", "energy_performance_preference": "performance", "scaling_min_freq": "3600000",
}  # fmt: skip


class Cpufreq:
    """The policies of a machine below a sysfs tree: one for each CPU, or with ``shared`` one for each core."""

    def __init__(self, topology: Topology, sys: str, *, shared: bool = False) -> None:
        self.folder = Path(sys) / "devices/system/cpu"
        for core in topology.cores:
            for cpu in members(core):
                policy = self.folder / f"cpufreq/policy{lowest(core) if shared else cpu}"
                if not policy.exists():
                    _write(policy, FOUND)
                (self.folder / f"cpu{cpu}/cpufreq").symlink_to(f"../cpufreq/{policy.name}")
                for state, (title, latency) in IDLE_STATES.items():
                    values = {"name": title, "latency": str(latency), "disable": "0"}
                    _write(self.folder / f"cpu{cpu}/cpuidle/{state}", values)
        for package in topology.packages:
            self.uncore(f"package_{package:02}_die_00", {})

    def uncore(self, name: str, values: dict[str, str]) -> Path:
        """Write a domain of the uncore; return its folder."""
        return _write(self.folder / f"intel_uncore_frequency/{name}", {**UNCORE, **values})

    def path(self, cpu: int, name: str) -> Path:
        return self.folder / f"cpu{cpu}/cpufreq/{name}"

    def read(self, cpu: int, name: str) -> str:
        return self.path(cpu, name).read_text().strip()

    def changed(self) -> dict[str, str]:
        """Return the values that differ from the first ones: by policy, CPU or domain of the uncore, and file."""
        first = {path: FOUND[path.name] for path in self.folder.glob("cpufreq/policy*/*") if path.is_file()}
        first |= dict.fromkeys(self.folder.glob("cpu*/cpuidle/*/disable"), "0")
        first |= {path: UNCORE[path.name] for path in self.folder.glob("intel_uncore_frequency/*/*_khz")}
        found = {}
        for path, value in sorted(first.items()):
            if (text := path.read_text().strip()) != value:
                cpu, _, folder = path.parts[-4:-1]
                found[f"{cpu}/{folder}" if path.name == "disable" else f"{folder}/{path.name}"] = text
        return found


def _write(folder: Path, values: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in values.items():
        (folder / name).write_text(f"{text}\n")
    return folder


class ClassHost(PlacedHost):
    def __init__(self, host: Node, *, shared: bool = False) -> None:
        super().__init__(host)
        self.cpufreq = Cpufreq(MACHINE, self.sys, shared=shared)
        self.classes()

    def classes(self, *, idle: str = "", **section: Any) -> None:
        values = {"policy": "pools", "pools": POOLS, "cpuClasses": [FAST, SLOW], "idleCpuClass": idle}
        self.place(**(values | section))

    @property
    def record(self) -> Path:
        return self.host.state / "placement.cpus"


def on(cpus: str, values: dict[str, str]) -> dict[str, str]:
    """Return values of CPUs as `Cpufreq.changed` does."""
    listed = [cpu for cpu in range(64) if parse_list(cpus) >> cpu & 1]
    return {f"policy{cpu}/{name}": text for cpu in listed for name, text in values.items()}
