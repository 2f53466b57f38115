"""The processes of a container's memtierd outside systemd: written down by their keeper, found again, ended."""

import posix
import time
from _signal import SIGKILL, SIGTERM

from ...errors import HookError
from ...host.cgroup import processes
from ...host.files import GONE, format_json, parse_json
from ...host.procfs import boot_id, start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...records import KeeperRecord
    from .run_dir import Opened

PROC = "/proc"  # our own processes are the machine's, wherever the settings look for containers
RECORD = "memtierd.keeper"
CGROUP = "resctrl-hooks"
_PATIENCE = 0.5  # seconds for SIGTERM, and again for SIGKILL
_NAP = 0.01


class KeeperError(HookError):
    """memtierd can't be started as a plain process, or will not end."""

    reason = "memtierd"


def cgroup_folder(cgroup_root: str, container: str) -> str:
    """Return the cgroup that a container's memtierd lives in.

    Raises:
        KeeperError: the root, which a record names, is no absolute path.
    """
    if cgroup_root[:1] != "/" or "/../" in f"{cgroup_root}/":
        raise KeeperError(f"no absolute path: {cgroup_root[:200]!r}")
    return f"{cgroup_root}/{CGROUP}/memtierd-{container}"


def record(folder: "Opened", children: "list[int]") -> None:
    """Write down who the calling keeper and its children are, before there is anything to be ended.

    A killed hook's keeper is found by it.
    """
    pids = [posix.getpid(), *children]
    named = [[pid, start_time(PROC, pid)] for pid in pids]
    kept: "KeeperRecord" = {"boot": boot_id(PROC), "processes": named}
    folder.write(RECORD, format_json(kept))


def living(folder: "Opened") -> "list[int]":
    """Return the keeper and the memtierd that a run folder names, as far as they are still those very processes."""
    return [pid for pid, begun in _recorded(folder) if begun and start_time(PROC, pid) == begun]


def memtierd_of(folder: "Opened") -> "list[int]":
    """Return the memtierd that a run folder names, if it still lives."""
    alive = living(folder)
    return [pid for pid, _ in _recorded(folder)[1:] if pid in alive]


def attended(folder: "Opened") -> bool:
    """Return whether the memtierd that a run folder names lives, and its keeper too, who reads its output."""
    recorded = _recorded(folder)
    return len(recorded) > 1 and living(folder) == [pid for pid, _ in recorded]


def _recorded(folder: "Opened") -> "list[tuple[int, int]]":
    """Return the recorded processes, the keeper first: pids and when they began."""
    try:
        found: KeeperRecord = parse_json(folder.read(RECORD))
        return [(int(pid), int(begun)) for pid, begun in found["processes"]] if found["boot"] == boot_id(PROC) else []
    except (ValueError, TypeError, KeyError):
        return []


def end(folder: "Opened", cgroup: str) -> None:
    """End a container's memtierd with all that it started, by its cgroup and by what its run folder names.

    Raises:
        KeeperError: something survives even SIGKILL.
    """
    for number in (SIGTERM, SIGKILL):
        targets = processes(cgroup) or _group(folder)
        if not targets:
            break
        if number == SIGKILL:
            tell(f"{cgroup}/cgroup.kill", b"1")
        for pid in targets:
            _kill(pid, number)
        until = time.monotonic() + _PATIENCE
        while (processes(cgroup) or _group(folder)) and time.monotonic() < until:
            time.sleep(_NAP)
    else:
        if processes(cgroup) or _group(folder):
            raise KeeperError(f"processes {targets} of a memtierd will not end", hint="look at them with ps")
    _remove_cgroup(cgroup)


def _group(folder: "Opened") -> "list[int]":
    """Return the process group that the keeper leads, as kill(2) takes it, if anyone of it is known to live."""
    return [-_recorded(folder)[0][0]] if living(folder) else []


def _kill(target: int, number: int) -> None:
    try:
        posix.kill(target, number)
    except ProcessLookupError:
        pass


def _remove_cgroup(cgroup: str) -> None:
    """Remove the cgroup, and the one above it if it was the last.

    Raises:
        KeeperError: the kernel refuses; as long as the run folder is there, reconcile tries again.
    """
    try:
        posix.rmdir(cgroup)
    except OSError as error:
        if error.errno in GONE:
            return
        raise KeeperError.of_file(error, cgroup, "removed") from error
    try:
        posix.rmdir(cgroup.rpartition("/")[0])
    except OSError:
        pass  # others' are beside it


def tell(path: str, data: bytes) -> bool:
    """Write to a file of the kernel's; say whether it took that."""
    try:
        fd = posix.open(path, posix.O_WRONLY)
        try:
            posix.write(fd, data)
        finally:
            posix.close(fd)
    except OSError:
        return False
    return True
