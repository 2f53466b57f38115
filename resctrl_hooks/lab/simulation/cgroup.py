"""The cgroup of a simulated node's pod: a plain folder with the counters of cgroup v2 that its work makes."""

import contextlib
import functools
import os

from resctrl_hooks.core.node.host.cpulist import parse_list

_MICRO = 1_000_000
_ENDLESS = 1e9
_QUOTAS = 10
"""Periods of cpu.max by second."""
_FILES = {
    "cgroup.controllers": "cpuset cpu io memory\n",
    "cpu.weight": "100\n",
    "cpu.max": "max 100000\n",
    "io.stat": "",
    "memory.events": "high 0\nmax 0\n",
}
_PRESSURE = "avg10=0.00 avg60=0.00 avg300=0.00 total="
_QUIET = "".join(f"{kind} {_PRESSURE}0\n" for kind in ("some", "full"))


class Cgroup:
    """A folder whose counters go on with `run`. Its settings are files that anyone may write, as in the kernel."""

    def __init__(self, folder: str, cpus: int) -> None:
        self._folder = folder
        self._since: float | None = None
        self._used = self._throttled = self._waited = self._stopped = 0.0
        os.makedirs(folder, exist_ok=True)
        for name, text in {
            **_FILES,
            "cpuset.cpus.effective": f"0-{cpus - 1}\n",
            "memory.pressure": _QUIET,
            "io.pressure": _QUIET,
        }.items():
            if not os.path.exists(f"{folder}/{name}"):
                self._write(name, text)

    @property
    def weight(self) -> float:
        """`cpu.weight`."""
        word = self._read("cpu.weight")
        return float(word) if word.isdecimal() and int(word) else 100.0

    @property
    def limit(self) -> float:
        """The CPUs of `cpu.max`."""
        quota, _, period = self._read("cpu.max").partition(" ")
        return int(quota) / int(period or 100_000) if quota.isdecimal() and period.isdecimal() else _ENDLESS

    @property
    def cpus(self) -> int:
        """`cpuset.cpus` of its containers, as a set; 0: all."""
        with contextlib.suppress(OSError, ValueError):
            inside = [one.name for one in os.scandir(self._folder) if one.is_dir()]
            sets = [parse_list(self._read(f"{name}/cpuset.cpus")) for name in inside]
            return functools.reduce(int.__or__, sets, 0) if all(sets) else 0
        return 0

    def run(self, now: float, wanted: float, used: float, limit: float) -> None:
        """Count until now a pod that wants so many CPUs, may have at most ``limit``, and gets ``used``."""
        elapsed = now - self._since if self._since is not None else 0.0
        self._since = now
        still = 1 - used / wanted if wanted else 0.0
        stopped = max(0.0, wanted - limit)
        self._used += elapsed * used
        self._waited += elapsed * still
        self._throttled += elapsed * stopped
        self._stopped += elapsed * _QUOTAS * (stopped > 0)
        used_, stopped_ = int(self._used * _MICRO), int(self._throttled * _MICRO)
        self._write(
            "cpu.stat",
            f"usage_usec {used_}\nuser_usec {used_}\nsystem_usec 0\nnr_periods {int(self._stopped)}\n"
            f"nr_throttled {int(self._stopped)}\nthrottled_usec {stopped_}\n",
        )
        pressure = f"{_PRESSURE}{int(self._waited * _MICRO)}\n"
        self._write("cpu.pressure", f"some {pressure}full {pressure}")

    def _read(self, name: str) -> str:
        try:
            with open(f"{self._folder}/{name}", encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return ""

    def _write(self, name: str, text: str) -> None:
        """Replace a file at once, so that a reader never sees a part; after the pod's end, do nothing."""
        path = f"{self._folder}/{name}"
        with contextlib.suppress(OSError):
            with open(f"{path}~", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(f"{path}~", path)
