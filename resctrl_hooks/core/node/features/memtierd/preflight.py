"""Requirements of memtierd that it does not check itself, or reports in unhelpful words.

Source: memtierd's documentation (intel/memtierd, docs), and experiments. YAML cannot be parsed here, so a
configuration's requirements are found in its lines.
"""

from ...classes.memory import SWAP
from ...errors import HookError
from ...host.cgroup import read_value
from ...host.files import is_folder, kernel_text
from ...host.programs import ALL_FOLDERS, find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...settings import Settings

_CAPABILITIES = (("CAP_SYS_PTRACE", 19), ("CAP_SYS_ADMIN", 21), ("CAP_SYS_NICE", 23))


class Needs:
    """Requirements of a memtierd configuration: the trackers that it names, and whether it swaps out."""

    __slots__ = ("swaps", "trackers")

    def __init__(self, text: str) -> None:
        lines = [line.replace('"', "").replace("'", "").strip(" -{},") for line in text.splitlines()]
        values = [line.split(":", 1) for line in lines if ":" in line]
        self.trackers = [value.strip() for name, value in values if name == "name" and value.strip() in _TRACKERS]
        self.swaps = any(name == "swapoutms" and value.strip() not in ("", "0") for name, value in values)


def lacking(needs: Needs, settings: "Settings", cgroup: str) -> "tuple[list[str], list[str]]":
    """Return the missing requirements of a configuration on this node, for the container in this cgroup folder.

    The first ones prevent memtierd's work. The second ones leave it nothing to do.
    """
    fatal = [words for words in (tracker_lacks(settings, tracker) for tracker in needs.trackers) if words]
    missing = missing_capabilities()
    if missing:
        fatal.append(f"{', '.join(missing)} is missing from the capabilities; memtierd cannot work without it")
    idle = []
    if needs.swaps:
        if not swap_total(settings.proc_path):
            idle.append("this node has no swap space (swapon); memtierd cannot swap")
        closed = swap_forbidden_by(cgroup, settings.cgroup_path)
        if closed:
            idle.append(f"{SWAP} is 0 in {closed}; memtierd cannot swap; set allowswap to allow it")
    return fatal, idle


def tracker_lacks(settings: "Settings", tracker: str) -> str:
    """Return why a memtierd tracker cannot work on this kernel, or an empty string."""
    check = _TRACKERS.get(tracker)
    return check(settings) if check is not None else ""


def _idlepage(settings: "Settings") -> str:
    return _without(f"{settings.sys_path}/kernel/mm/page_idle", "idlepage", "CONFIG_IDLE_PAGE_TRACKING")


def _softdirty(settings: "Settings") -> str:
    # A new mapping is soft-dirty from its first moment, if the kernel supports it (proc(5), smaps, VmFlags).
    flags = kernel_text("/proc/self/smaps").split("VmFlags:")[1:]
    if not flags or any("sd" in line.split("\n", 1)[0].split() for line in flags):
        return ""
    return "the tracker softdirty requires a kernel with CONFIG_MEM_SOFT_DIRTY"


def _damon(settings: "Settings") -> str:
    words = _without(f"{settings.sys_path}/kernel/mm/damon/admin", "damon", "CONFIG_DAMON_SYSFS")
    if words:
        return words
    if read_value(f"{settings.sys_path}/module/damon_stat/parameters", "enabled") == "Y":
        return "the tracker damon conflicts with damon_stat in the kernel; disable damon_stat"
    for program in ("bpftrace", "perf"):
        try:
            return find_program(program, ALL_FOLDERS) and ""
        except HookError:
            continue
    return "the tracker damon requires the program bpftrace or perf"


def _without(folder: str, tracker: str, option: str) -> str:
    return "" if is_folder(folder) else f"the tracker {tracker} requires a kernel with {option}"


_TRACKERS: "dict[str, Callable[[Settings], str]]" = {"idlepage": _idlepage, "softdirty": _softdirty, "damon": _damon}


def missing_capabilities() -> "list[str]":
    """Return memtierd's capabilities that this process lacks (capabilities(7))."""
    have = _field("/proc/self/status", "CapEff:")
    return [name for name, bit in _CAPABILITIES if have and not int(have, 16) >> bit & 1]


def swap_total(proc: str) -> int:
    """Return the node's swap space in bytes."""
    return int(_field(f"{proc}/meminfo", "SwapTotal:") or 0) << 10


def _field(path: str, name: str) -> str:
    """Return the first word of a line that begins with a name; empty without such a line."""
    for line in kernel_text(path).splitlines():
        if line.startswith(name):
            return line.split()[1]
    return ""


def swap_forbidden_by(folder: str, root: str) -> str:
    """Return the cgroup, this one or one above it, that forbids swapping; empty if none does."""
    while len(folder) > len(root):
        if read_value(folder, SWAP) == "0":
            return folder
        folder = folder.rpartition("/")[0]
    return ""
