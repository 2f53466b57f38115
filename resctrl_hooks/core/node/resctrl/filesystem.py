"""resctrl's interface: a seam of system calls, and the operations on groups with explanatory errors.

Source of the rules: kernel, Documentation/filesystems/resctrl.rst; undocumented behaviour was measured on Linux 7.2.
"""

import errno
import posix

from .. import errors
from ..host.files import GONE, is_folder, read_kernel_file, remove_file
from ..host.procfs import resctrl_groups_of, threads_of
from ..names import valid_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MON_GROUPS = "mon_groups"
# Of `layouts`, which most hooks need not import:
ENERGY_INFO, ASSIGNMENTS, ASSIGNED_AT_MEMORY = "info/PERF_PKG_MON", "_assignments", "mbm_MB_assignments"
_MOST_ROUNDS = 20


class Filesystem:
    """The seam between resctrl's rules and the kernel: tests inject refusals here.

        >>> class Full(Filesystem):
        ...     def mkdir(self, path):
        ...         raise OSError(errno.ENOSPC, "no RMID is free", path)
        >>> monitor = Monitor("/sys/fs/resctrl", state_dir="/run/my-program", fs=Full())

    All methods raise OSError as the kernel does.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def mkdir(self, path: str) -> None:
        """Make the folder ``path``."""
        posix.mkdir(path, 0o755)

    def rmdir(self, path: str) -> None:
        """Remove the folder ``path``.

        In resctrl a group's files are removed with it; in a plain tree our file is removed first.
        """
        try:
            posix.rmdir(path)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not remove_file(f"{path}/tasks"):
                raise
            posix.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        """Give the folder ``old`` the path ``new``."""
        posix.rename(old, new)

    def read(self, path: str) -> bytes:
        """Read the whole file ``path``."""
        return read_kernel_file(path)

    def write(self, path: str, value: bytes) -> None:
        """Put ``value`` into the file ``path``, all of it in one system call.

        O_APPEND and O_CREAT mean nothing to the kernel's own files, and make a plain tree of folders do for tests.
        """
        fd = posix.open(path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT, 0o644)
        try:
            posix.write(fd, value)
        finally:
            posix.close(fd)

    def listdir(self, path: str) -> "list[str]":
        """Return the names in the folder ``path``."""
        return posix.listdir(path)

    def is_folder(self, path: str) -> bool:
        """Return whether ``path`` is a folder."""
        return is_folder(path)


class Resctrl:
    """The groups below one resctrl mount. A class is a ctrl_group's name, the empty string for the root group."""

    def __init__(self, root: str, fs: "Filesystem | None" = None, proc: str = "/proc") -> None:
        self.root = root
        self.fs = fs or Filesystem()
        self.proc = proc

    def class_folder(self, rdt_class: str) -> str:
        """Return the folder of a class.

        Raises:
            BadClassError: the name is invalid for a ctrl_group.
        """
        if rdt_class and not valid_class(rdt_class):
            raise errors.BadClassError(f"invalid RDT class name: {rdt_class[:80]!r}")
        return f"{self.root}/{rdt_class}" if rdt_class else self.root

    def group_folder(self, rdt_class: str, name: str) -> str:
        """Return the folder of a mon_group."""
        return f"{self.class_folder(rdt_class)}/{MON_GROUPS}/{name}"

    def create(self, rdt_class: str, name: str) -> None:
        """Make a mon_group, which takes an RMID. The class's own folder is never made.

        Raises:
            NoRMIDsError, RMIDsBusyError, GroupExistsError, BadClassError, NotMountedError, NotPermittedError,
            ReadOnlyError: from the kernel.
        """
        path = self.group_folder(rdt_class, name)
        try:
            self.fs.mkdir(path)
        except OSError as error:
            raise self.refused(error, f"cannot create mon_group {path}", rdt_class) from error

    def remove(self, rdt_class: str, name: str) -> bool:
        """Remove a mon_group, and return whether it existed. Its tasks move to the class's own group."""
        path = self.group_folder(rdt_class, name)
        try:
            files = self.fs.listdir(path)
        except OSError:
            files = []
        if ASSIGNED_AT_MEMORY in files:
            from .memory_counters import release_all  # few machines count at the memory

            release_all(self.fs, f"{path}/{ASSIGNED_AT_MEMORY}")
        try:
            self.fs.rmdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self.refused(error, f"cannot remove mon_group {path}", rdt_class) from error
        return True

    def exists(self, rdt_class: str, name: str) -> bool:
        """Return whether the mon_group is there."""
        path = self.group_folder(rdt_class, name)
        try:
            return self.fs.is_folder(path)
        except OSError as error:
            raise self.refused(error, f"cannot read mon_group {path}", rdt_class) from error

    def move(self, rdt_class: str, name: str, new_class: str, new_name: str = "") -> bool:
        """Move a group into another class, or give it another name; False where the kernel can't (before 6.5).

        RMID and counters go with it. All tasks in it change class with it.
        """
        try:
            self.fs.rename(self.group_folder(rdt_class, name), self.group_folder(new_class, new_name or name))
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV):
                return False
            raise self.refused(error, f"cannot move mon_group {name} to class {new_class!r}", new_class) from error
        return True

    def classes(self) -> "list[str]":
        """Return the names of all ctrl_groups except the root's and those that `names.valid_class` refuses.

        Raises:
            NotMountedError: there is nothing at the mount point, or only the empty folder of sysfs.
        """
        try:
            names = self.fs.listdir(self.root)
            inside = f"/{MON_GROUPS}" if MON_GROUPS in names else ""
            found = [one for one in names if valid_class(one) and self.fs.is_folder(f"{self.root}/{one}{inside}")]
        except OSError as error:
            raise self.refused(error, f"cannot read {self.root}", "") from error
        if not inside and "info" not in names:
            from .absence import missing  # only if something is wrong

            raise missing(self.root, self.proc)
        return found

    def has_monitoring(self) -> bool:
        """Return whether there can be mon_groups."""
        return self.fs.is_folder(f"{self.root}/{MON_GROUPS}")

    def groups(self, rdt_class: str) -> "list[str]":
        """Return the names of the mon_groups of a class; none if the class is gone."""
        folder = f"{self.class_folder(rdt_class)}/{MON_GROUPS}"
        try:
            return self.fs.listdir(folder)
        except OSError as error:
            if error.errno in GONE:
                return []
            raise self.refused(error, f"cannot read {folder}", rdt_class) from error

    def tasks(self, rdt_class: str, name: str) -> "set[int]":
        """Return the thread ids in a mon_group, or with an empty name of the class itself. Empty if it is gone."""
        folder = self.group_folder(rdt_class, name) if name else self.class_folder(rdt_class)
        try:
            return set(map(int, self.fs.read(f"{folder}/tasks").split()))
        except OSError as error:
            if error.errno in GONE:
                return set()
            raise self.refused(error, f"cannot read {folder}/tasks", rdt_class) from error

    def assign(self, rdt_class: str, name: str, pid: int) -> int:
        """Move all threads of a process into a mon_group, check that they arrived, and return how many.

        Raises:
            TaskGoneError: the process has ended.
            ClassMismatchError: it is in another class than the group.
            NotArrivedError: the kernel accepted the threads, but they are elsewhere.
        """
        seen = self.move_all(rdt_class, name, lambda: threads_of(self.proc, pid), pid)
        if not seen:
            raise errors.TaskGoneError.of(pid)
        self.check_arrival(rdt_class, name, pid, seen)
        return len(seen)

    def move_all(self, rdt_class: str, name: str, threads: "Callable[[], list[int]]", pid: int = 0) -> "set[int]":
        """Repeat `add_tasks` with ``threads`` until there are no new ones, and return all of them.

        Threads that start meanwhile inherit their creator's group, so a few rounds find them all.
        """
        seen: "set[int]" = set()
        for _ in range(_MOST_ROUNDS):
            fresh = [tid for tid in threads() if tid not in seen]
            if not fresh:
                break
            self.add_tasks(rdt_class, name, fresh, pid)
            seen.update(fresh)
        return seen

    def add_tasks(self, rdt_class: str, name: str, tids: "list[int]", pid: int = 0) -> None:
        """Write thread ids into a group's ``tasks``, one write each: lists are EINVAL on Linux 6.1.

        An empty name is the class itself, where a thread is in no mon_group, whichever class it comes from. A thread
        that has ended in the meantime is passed over, unless it is the process itself, ``pid``.
        """
        path = f"{self.group_folder(rdt_class, name) if name else self.class_folder(rdt_class)}/tasks"
        for tid in tids:
            try:
                self.fs.write(path, b"%d\n" % tid)
            except OSError as error:
                if error.errno != errno.ESRCH:
                    message = f"cannot move task {tid} to {path.rpartition('/')[0]}"
                    raise self.refused(error, message, rdt_class) from error
                if tid == pid:
                    raise errors.TaskGoneError.of(pid) from error

    def check_arrival(self, rdt_class: str, name: str, pid: int, tids: "set[int]") -> None:
        """Check where each thread is: in /proc, or in ``tasks`` without such files."""
        listed: "set[int] | None" = None
        for tid in tids:
            try:
                where = resctrl_groups_of(self.proc, pid, tid)
            except ProcessLookupError:
                continue
            if where == (rdt_class, name):
                continue
            # /proc does not show a simulation's groups; on a host with RDT it shows those of the real resctrl.
            if listed is None:
                listed = self.tasks(rdt_class, name)
            if tid not in listed and tid in threads_of(self.proc, pid):
                there = (
                    f"in {where[0] or 'the root class'}, group {where[1] or 'none'}" if where else "in another group"
                )
                message = f"thread {tid} of process {pid} was moved to {rdt_class}/{name} but is {there}"
                raise errors.NotArrivedError(message)

    def has_energy(self) -> bool:
        """Return whether this kernel counts per package too (Application Energy Telemetry, Linux 7.0 and later)."""
        return self.fs.is_folder(f"{self.root}/{ENERGY_INFO}")

    def refused(
        self,
        error: OSError,
        message: str,
        rdt_class: str = "",
        kinds: "dict[int, type[errors.ResctrlError]] | None" = None,
    ) -> "errors.ResctrlError":
        """Return the typed error for an operation that the kernel refused, as `kernel_refusals.refused`."""
        from .kernel_refusals import refused  # only when something went wrong

        return refused(self, error, message, rdt_class, kinds)
