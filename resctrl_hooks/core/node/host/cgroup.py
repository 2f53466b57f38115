"""A container's own version 2 cgroup: its path, its systemd unit, and safe access to its files."""

import errno
import posix

from ..errors import HookError
from .files import GONE, is_folder, is_there, read_kernel_file, write_kernel_file
from .procfs import CRUNS_LEAF, Cgroup, cgroups_of, own_cgroup

_SLICE, _SCOPE, _SERVICE = ".slice", ".scope", ".service"
_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}  # in file names of huge pages
_CLAMP, _UNCLAMPED = "cpu.uclamp.", "100.00"
_GONE = "cgroup {folder} no longer exists: the container has ended", ""
_OWN_CGROUP = "start it with a cgroup of its own (Podman: not with --cgroups=disabled)"
_NOT_ENABLED, _NO_SWAP, _VERSION_1, _NO_DISK = -1, -2, -3, -4  # in addition to the errnos
# Causes and remedies of failed writes (kernel, Documentation/admin-guide/cgroup-v2.rst).
_REFUSALS = {
    errno.ENODEV: _GONE,
    errno.ENOTDIR: _GONE,
    errno.EINVAL: ("the kernel rejected {value!r} for {name} of cgroup {folder}", ""),
    errno.ENOENT: ("this kernel has no {name}", ""),
    _NO_SWAP: ("this kernel has no {name}", "the kernel was built without CONFIG_SWAP or booted with swapaccount=0"),
    _VERSION_1: (
        "{folder} is a cgroup of version 1, which has no {name}",
        "boot with systemd.unified_cgroup_hierarchy=1",
    ),
    _NO_DISK: ("there is no disk {value} for {name} of cgroup {folder}", "`lsblk` lists the disks of this node"),
    _NOT_ENABLED: (
        "the {controller} controller is not enabled for cgroup {folder}",
        (
            "write +{controller} to cgroup.subtree_control of each parent directory; if "
            "/sys/fs/cgroup/cgroup.controllers lacks it, check cgroup_disable= on the kernel's command line"
        ),
    ),
}


class CgroupError(HookError):
    """The container's cgroup does not allow the operation."""

    reason = "cgroup"


class Leaf:
    """A container's cgroup.

    ``unit`` is the system manager's unit that contains it, empty for none. ``own_scope`` is true if that is a scope for
    this container only, and ``scope`` the scope's folder if crun made the cgroup below it. ``sent`` are the unit's
    properties that this call has sent to systemd, ``pending`` the pending ones.
    """

    __slots__ = ("folder", "own_scope", "path", "pending", "scope", "sent", "unit")

    def __init__(self, root: str, path: str) -> None:
        self.path = path
        self.folder = root + path
        self.sent: "dict[str, str]" = {}
        self.pending: "dict[str, str]" = {}
        parts = path.strip("/").split("/")
        depth = 0
        while depth < len(parts) and parts[depth].endswith(_SLICE):
            depth += 1
        # systemd manages slices and their units; everything below a unit is delegated.
        unit = parts[depth] if depth < len(parts) else ""
        self.unit = unit if unit.endswith((_SCOPE, _SERVICE)) else ""
        below = parts[depth + 1 :]
        self.own_scope = self.unit.endswith(_SCOPE) and below in ([], [CRUNS_LEAF])
        self.scope = self.folder.rpartition("/")[0] if self.own_scope and below else ""


def leaf_of(proc: str, root: str, pid: int, container: str, own: str = "") -> "Leaf | None":
    """Return the cgroup of a container, or None if its process is gone.

    ``own`` is the known own folder: the process may have moved into a nested cgroup of its own.

    Raises:
        CgroupError: the host has no cgroup v2 of its own, or the container no cgroup of its own.
    """
    try:
        found = cgroups_of(proc, pid)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG or not own:
            raise
        found = [Cgroup("", own[len(root) :])]  # it made cgroups below its own, deeper than the kernel can report
    if not found:
        return None
    if found[0].hierarchy:
        what = "this host uses cgroup v1, which is not supported"
        if found[0].hierarchy == "unified":
            what = "this host mixes cgroup v1 and v2, with the controllers in v1"
        raise CgroupError(what, hint="boot with systemd.unified_cgroup_hierarchy=1")
    path = found[0].path
    if path == "/" or "/../" in f"{path}/":
        raise CgroupError("the container's process is in the root cgroup, which has no settings", hint=_OWN_CGROUP)
    in_own = bool(own) and f"{root}{path}/".startswith(f"{own}/")
    if in_own:
        path = own[len(root) :]
    leaf = Leaf(root, path)
    # A scope of its own can have another name than the container's id. Any other path can be shared by two containers.
    known = own_cgroup(path, container, "") or (in_own and leaf.own_scope)
    if not known and [one for one in processes(leaf.folder) if one != pid]:
        raise CgroupError(f"the container shares cgroup {path} with other processes", hint=_OWN_CGROUP)
    return leaf


def folders_for(name: str, folder: str, scope: str) -> "list[str]":
    """Return the folders for a value: a container's cgroup, and its scope if crun made the cgroup below that.

    systemd enables a controller for the scope only, not for crun's part.
    """
    found = [one for one in (scope, folder) if is_there(f"{one}/{name}")] if scope else []
    return found or [folder]


def processes(folder: str) -> "list[int]":
    """Return the processes in a cgroup; none if it is missing or threaded.

    Raises:
        CgroupError: it is unreadable.
    """
    try:
        return [int(line) for line in read_kernel_file(f"{folder}/cgroup.procs").split()]
    except OSError as error:
        if error.errno in (*GONE, errno.EOPNOTSUPP):
            return []
        raise CgroupError.of_file(error, f"{folder}/cgroup.procs", "read") from error


def _file_of(folder: str, name: str) -> str:
    """Return the path of a cgroup's file. Both parts may come from a record and are checked.

    Raises:
        CgroupError: the path would lead outside.
    """
    if "/" in name or "/../" in f"{folder}/":
        raise CgroupError(f"invalid cgroup file: {name[:80]!r} in {folder[:200]!r}")
    return f"{folder}/{name}"


def read_value(folder: str, name: str) -> str:
    """Return the content of a cgroup's file, or an empty string if it does not exist.

    Raises:
        CgroupError: the name is not that of a cgroup file.
    """
    path = _file_of(folder, name)
    try:
        return read_kernel_file(path).decode().strip()
    except OSError as error:
        if error.errno in GONE:
            return ""
        raise


def write_value(folder: str, name: str, value: str) -> None:
    """Write a value and verify it.

    Raises:
        CgroupError: the kernel refuses or changes the value, or it cannot be read back.
    """
    try:
        write_kernel_file(_file_of(folder, name), value)
        have = read_value(folder, name)
    except OSError as error:
        raise _refusal(folder, name, value, error) from error
    if not same_value(name, have, value):
        raise CgroupError(
            f"the kernel set {name} to {have!r} instead of {value!r} in {folder}",
            hint="another program writes it, or a parent cgroup limits it",
        )


def same_value(name: str, have: str, want: str) -> bool:
    """Return whether a file's content equals a value, by that file's rounding.

    Amounts of memory are rounded down to pages, those of huge pages to whole huge pages (mm/hugetlb_cgroup.c), and a
    clamp of 100 percent reads ``max`` (kernel/sched/core.c, cpu_uclamp_print). All others stay as written.
    """
    if have == want:
        return True
    if name.startswith(_CLAMP):
        return have == "max" and want == _UNCLAMPED
    grain = _grain(name)
    return bool(grain) and have.isdigit() and want.isdigit() and int(have) // grain == int(want) // grain


def _grain(name: str) -> int:
    """Return the rounding of a file's amounts in bytes; 0 for files without memory amounts."""
    controller, _, rest = name.partition(".")
    if controller == "memory":
        if rest == "oom.group":
            return 0
        return posix.sysconf("SC_PAGE_SIZE")
    size = rest.partition(".")[0]  # hugetlb.2MB.max
    number, unit = size[:-2], size[-2:]
    return int(number) * _UNITS[unit] if controller == "hugetlb" and number.isdigit() and unit in _UNITS else 0


def why_missing(folder: str, name: str, number: int = 0) -> CgroupError:
    """Return the error for a file that a cgroup does not have; ``number`` is the errno of its use."""
    case = errno.ENOENT
    if not is_folder(folder):
        case = errno.ENODEV
    elif not is_there(f"{folder}/cgroup.controllers"):
        case = _VERSION_1
    elif name.partition(".")[0] not in read_value(folder, "cgroup.controllers").split():
        case = _NOT_ENABLED
    elif "swap" in name:
        case = _NO_SWAP
    return _error(case, folder, name, "", number)


def _refusal(folder: str, name: str, value: str, error: OSError) -> CgroupError:
    """Return the error for a failed write, by the errno and the existing files."""
    number = error.errno or 0
    if not is_folder(folder) or (number in (errno.ENOENT, errno.EACCES) and not is_there(f"{folder}/{name}")):
        return why_missing(folder, name, number)
    is_of_disk = number == errno.ENODEV and name.startswith("io.")
    return _error(
        _NO_DISK if is_of_disk else number, folder, name, value.partition(" ")[0] if is_of_disk else value, number
    )


def _error(case: int, folder: str, name: str, value: str, number: int) -> CgroupError:
    words, hint = _REFUSALS.get(case, ("cannot write {name} of cgroup {folder}", ""))
    controller = name.partition(".")[0]
    message = words.format(folder=folder, name=name, value=value, controller=controller)
    return CgroupError(message, hint=hint.format(controller=controller), errno=number)
