"""The counters of pods' cgroups, as readings like those of resctrl: CPU time and waits, memory, disk.

Source: kernel, Documentation/admin-guide/cgroup-v2.rst ("CPU Interface Files", "Memory Interface Files", "IO Interface
Files"), accounting/psi.rst. Nothing is read of a cgroup v1.
"""

import posix

from ....core.node.host.files import kernel_text
from ....core.node.resctrl.counters import AVAILABLE, COUNTERS, CUMULATIVE, Domain, Reading
from .io_stat import read_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....core.node.resctrl.counters import Counter

    Found = dict[str, "int | float"]

CGROUP = "cgroup"
"""The resource of these counters, and the folder of their only domain."""
_DOMAIN = Domain(CGROUP, CGROUP, 0)
_MICRO = 1e-6
_CPU, _WAITING, _THROTTLED = "cpu_seconds", "cpu_waiting_seconds", "cpu_throttled_seconds"
_MEMORY, _DISK = "memory_bytes", "disk_bytes"
_TICKS = 7  # columns of /proc/stat until softirq; steal is not the node's
CGROUP_COUNTERS = [COUNTERS[name] for name in (_CPU, _WAITING, _THROTTLED, _MEMORY, _DISK)]
_BY_LARGEST = _WAITING  # cgroups wait at the same time
_stacked: "dict[str, bool]" = {}  # by folder in sysfs


def read_used(folders: "Sequence[str]", when: float, sys_path: str) -> "list[Reading]":
    """Return a pod's counters from the folders of its cgroups; those that the kernel lacks are left out.

    Args:
        folders: the pod's cgroup, or those of its containers.
        when: the time, in seconds since the boot.
        sys_path: where sysfs is mounted.
    """
    sums: "Found" = {}
    for folder in folders:
        for name, value in _read(folder, sys_path).items():
            known = sums.get(name, 0)
            sums[name] = max(known, value) if name == _BY_LARGEST else known + value
    return [_reading(COUNTERS[name], value, when) for name, value in sums.items()]


def _reading(counter: "Counter", value: "int | float", when: float) -> Reading:
    seconds = round(when, 3) if counter.kind == CUMULATIVE else None  # a cgroup counts in each second
    return Reading(_DOMAIN, counter, value, AVAILABLE, None, seconds)


def _read(folder: str, sys_path: str) -> "Found":
    stat = _words(kernel_text(f"{folder}/cpu.stat"))
    found: "Found" = {}
    for name, word in ((_CPU, "usage_usec"), (_THROTTLED, "throttled_usec")):
        if word in stat:
            found[name] = round(stat[word] * _MICRO, 3)
    some = kernel_text(f"{folder}/cpu.pressure").partition("\n")[0].rpartition("total=")[2]
    if some.isdigit():
        found[_WAITING] = round(int(some) * _MICRO, 3)
    memory = kernel_text(f"{folder}/memory.current").strip()
    if memory.isdigit():
        found[_MEMORY] = int(memory)
    if stat:  # a pod that has moved no bytes has an empty io.stat
        moved = _disk(kernel_text(f"{folder}/io.stat"), sys_path)
        if moved is not None:
            found[_DISK] = moved
    return found


def read_busy(proc: str) -> "float | None":
    """Return the seconds for which the node's CPUs were busy, with pods and all else; None if unknown (proc(5))."""
    words = kernel_text(f"{proc}/stat").partition("\n")[0].split()[1:8]
    if len(words) < _TICKS or not all(word.isdigit() for word in words):
        return None
    return (sum(map(int, words)) - int(words[3]) - int(words[4])) / posix.sysconf("SC_CLK_TCK")  # idle, iowait


def _words(text: str) -> "dict[str, int]":
    return {word: int(number) for word, _, number in (line.partition(" ") for line in text.splitlines())}


def _disk(text: str, sys_path: str) -> "int | None":
    """Return the bytes that were read and written; a device on top of others is left out, whose bytes these count."""
    parts = [
        numbers.get("rbytes", 0) + numbers.get("wbytes", 0)
        for device, numbers in read_numbers(text).items()
        if not is_stacked(device, sys_path)
    ]
    return sum(parts) if parts else None


def is_stacked(device: str, sys_path: str) -> bool:
    """Return whether a block device, as MAJOR:MINOR, is on top of others, such as one of LVM."""
    below = f"{sys_path}/dev/block/{device}/slaves"
    found = _stacked.get(below)
    if found is None:
        try:
            found = bool(posix.listdir(below))
        except OSError:
            found = False
        _stacked[below] = found
    return found
