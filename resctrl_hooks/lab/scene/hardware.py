"""The CPUs, cache and memory of a simulated node as files of sysfs, which placement and `topology` read.

Source: kernel, Documentation/admin-guide/cputopology.rst and ABI/testing/sysfs-devices-system-cpu.
"""

import os

from resctrl_hooks.lab.simulation.machine import CACHE_BYTES

_MEMORY = 64 << 30
"""Bytes of the node."""


def write_sysfs(folder: str, cpus: int) -> None:
    """Write a machine of one package, one L3 cache and one NUMA node; each core has one thread."""
    every = f"0-{cpus - 1}"
    files = {f"cpu/{name}": every for name in ("online", "possible", "present")}
    files |= {"cpu/offline": "", "cpu/isolated": ""}
    files |= {"node/online": "0", "node/has_memory": "0", "node/has_normal_memory": "0"}
    files |= {"node/node0/cpulist": every, "node/node0/distance": "10"}
    files["node/node0/meminfo"] = f"Node 0 MemTotal: {_MEMORY >> 10} kB"
    for cpu in range(cpus):
        topology = {"core_id": cpu, "physical_package_id": 0, "core_cpus_list": cpu, "package_cpus_list": every}
        cache = {"level": 3, "id": 0, "type": "Unified", "size": f"{CACHE_BYTES >> 10}K", "shared_cpu_list": every}
        files |= {f"cpu/cpu{cpu}/topology/{name}": str(value) for name, value in topology.items()}
        files |= {f"cpu/cpu{cpu}/cache/index3/{name}": str(value) for name, value in cache.items()}
    for name, text in files.items():
        path = f"{folder}/devices/system/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
