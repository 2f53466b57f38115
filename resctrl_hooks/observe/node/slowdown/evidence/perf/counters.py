"""Performance counters of a pod's cgroups: its cycles, instructions and misses. Only this module knows the call.

`perf_event_open(2)`: with ``PERF_FLAG_PID_CGROUP`` an event counts the tasks of a cgroup and of those below it on one
CPU, so each CPU needs its own. The events of a CPU are one group, which the kernel counts together or not at all.
Counts only, without sampling: no interrupts.
"""

import errno
import os
import struct
from typing import NamedTuple

from ......core.node import errors
from ......core.node.host.cpulist import members, parse_list
from ......core.node.host.descriptors import of_process
from ......core.node.host.files import GONE, kernel_text
from ...units import CpuTime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ......core.node.host.descriptors import Descriptors

_CALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
_HARDWARE, _CYCLES, _INSTRUCTIONS, _MISSES, _REFERENCES = 0, 0, 1, 3, 9
_NEEDED, _OPTIONAL = (_CYCLES, _INSTRUCTIONS), (_REFERENCES, _MISSES)
_TIME_ENABLED, _TIME_RUNNING, _GROUP = 1, 2, 8  # read_format
_OF_CGROUP, _CLOSE_ON_EXEC = 4, 8
_ATTR_SIZE = 112  # PERF_ATTR_SIZE_VER5
_ATTR = struct.Struct("<IIQQQQ")  # type, size, config, sample period, sample type, read format; the rest is 0
_WORD = 8
_HEAD = 3  # words before the values: their number, ns enabled, ns running
_NO_GROUP = -1
_NO_COUNTERS = "the processor has no performance counters here, as in most virtual machines"
_REASONS = {
    errno.ENOENT: _NO_COUNTERS,
    errno.EOPNOTSUPP: _NO_COUNTERS,
    errno.ENODEV: "the CPU is offline",
    errno.EACCES: "not permitted: needs root or CAP_PERFMON (perf_event_paranoid)",
    errno.EPERM: "not permitted: needs root or CAP_PERFMON, and seccomp must allow perf_event_open",
    errno.EMFILE: "this process has too few file descriptors (LimitNOFILE)",
    errno.ENFILE: "this node has too few file descriptors (fs.file-max)",
}

PASSING = (errno.ENOMEM, errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.EIO, errno.EMFILE, errno.ENFILE)
"""Errors of one moment, which prove nothing about the processor."""
_NOT_HERE = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL)
"""An event that this processor lacks, or that does not fit beside the others."""
_TOO_MANY = (errno.EMFILE, errno.ENFILE)


class PerfError(errors.HookError):
    """Performance counters cannot be used for this pod."""

    reason = "perf"


class OneCpuError(PerfError):
    """One CPU refuses, and others do not: it went offline, or it has other counters."""


class PodGoneError(PerfError):
    """The pod's cgroup does not exist any more."""


class _UnevenError(PerfError):
    """A CPU lacks an event that is not needed and that the first CPU has."""


class TooManyError(PerfError):
    """The process has too few descriptors for this pod; fewer pods may fit."""


class PerfCount(NamedTuple):
    """Counts so far, and for how many seconds of CPU time the counters were enabled and running; None: not counted."""

    cycles: int
    instructions: int
    enabled: CpuTime
    running: CpuTime
    references: "int | None" = None
    """Reference cycles, which do not depend on the processor's frequency."""
    misses: "int | None" = None
    """Of the last-level cache."""


class PerfCounters:
    """Counts for some cgroups from now on. `close` it: each event of a CPU and cgroup takes a descriptor.

    Args:
        cgroups: folders of cgroup v2, none below another.
        sys_path: where sysfs is mounted; it lists the online CPUs.
        budget: where the descriptors come from; None: the process's.

    Raises:
        PerfError: the kernel refuses, or there are too few descriptors. Everything is closed again.
    """

    def __init__(self, cgroups: "Sequence[str]", sys_path: str = "/sys", budget: "Descriptors | None" = None) -> None:
        self._leaders: "list[int]" = []
        self._opened: "list[int]" = []
        self._events = list(_NEEDED)
        if not cgroups:
            raise PerfError("the pod's cgroup is unknown")
        self.cpus = parse_list(kernel_text(f"{sys_path}/devices/system/cpu/online"))
        cpus = list(members(self.cpus))
        groups, self._budget, self._taken = len(cpus) * len(cgroups), budget or of_process(), 0
        optional = _OPTIONAL if self._take((len(_NEEDED) + len(_OPTIONAL)) * groups) else ()
        needed = len(_NEEDED) * groups
        if not optional and not self._take(needed):
            room = self._budget.room
            raise TooManyError(f"{needed} events are needed, and this process can open {room} more (LimitNOFILE)")
        try:
            try:
                self._open_cgroups(cgroups, cpus, optional)
            except _UnevenError:
                self._close_events()
                self._events = list(_NEEDED)
                self._open_cgroups(cgroups, cpus, ())
        except BaseException as error:
            self.close()
            if isinstance(error, TooManyError):
                self._budget.refused()
            raise
        self._give(self._taken - len(self._opened))  # for events that this processor lacks

    def _take(self, number: int) -> bool:
        fits = self._budget.take(number, first=True)
        self._taken += number * fits
        return fits

    def _give(self, number: int) -> None:
        self._budget.give(number)
        self._taken -= number

    @property
    def descriptors(self) -> int:
        """The number of open descriptors."""
        return len(self._opened)

    def _open_cgroups(self, folders: "Sequence[str]", cpus: "Sequence[int]", optional: "tuple[int, ...]") -> None:
        for folder in folders:
            self._open_cgroup(folder, cpus, optional)

    def _open_cgroup(self, folder: str, cpus: "Sequence[int]", optional: "tuple[int, ...]") -> None:
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            gone, many = error.errno in GONE, error.errno in _TOO_MANY
            kind = PodGoneError if gone else TooManyError if many else PerfError
            raise kind(f"cannot open cgroup {folder}", errno=error.errno or 0) from error
        try:
            for cpu in cpus:
                leader = self._leader(fd, cpu, cpus)
                is_first = not self._leaders
                self._leaders.append(leader)
                for config in self._events[1:]:
                    self._follow(config, fd, cpu, leader)
                for config in optional if is_first else ():
                    self._try(config, fd, cpu, leader)
        except PerfError as error:
            if _is_removed(folder, fd):  # the kernel answers ENOENT, as for a processor without counters
                raise PodGoneError(f"cgroup {folder} was removed", errno=error.errno) from error
            raise
        finally:
            os.close(fd)

    def _leader(self, cgroup: int, cpu: int, cpus: "Sequence[int]") -> int:
        """Return the first event of a CPU.

        Raises:
            OneCpuError: the kernel refuses it for this CPU, and not for another.
            PerfError: the kernel refuses it, as far as known for all CPUs.
        """
        try:
            return self._event(_CYCLES, cgroup, cpu, _NO_GROUP)
        except PerfError as error:
            if error.errno in _NOT_HERE and (self._leaders or self._is_granted(cgroup, cpus[-1], cpu)):
                raise OneCpuError(f"CPU {cpu}: {error.message}", errno=error.errno) from error
            raise

    def _is_granted(self, cgroup: int, cpu: int, refusing: int) -> bool:
        """Return whether the kernel grants an event for another CPU than the one that refuses."""
        try:
            return cpu != refusing and bool(self._event(_CYCLES, cgroup, cpu, _NO_GROUP))
        except PerfError:
            return False

    def _follow(self, config: int, cgroup: int, cpu: int, leader: int) -> None:
        """Add an event of the other CPUs to a CPU."""
        try:
            self._event(config, cgroup, cpu, leader)
        except PerfError as error:
            if error.errno not in _NOT_HERE or len(self._leaders) == 1:
                raise
            kind = _UnevenError if config in _OPTIONAL else OneCpuError
            raise kind(f"CPU {cpu}: {error.message}", errno=error.errno) from error

    def _try(self, config: int, cgroup: int, cpu: int, leader: int) -> None:
        """Add an event that not every processor has, as the first CPU shows."""
        try:
            self._event(config, cgroup, cpu, leader)
        except PerfError as error:
            if error.errno not in _NOT_HERE:
                raise
        else:
            self._events.append(config)

    def _event(self, config: int, cgroup: int, cpu: int, leader: int) -> int:
        fd = _perf_event_open(config, cgroup, cpu, leader)
        self._opened.append(fd)
        return fd

    def read(self) -> PerfCount:
        """Return the sums over all CPUs and cgroups.

        Raises:
            PerfError: a CPU went offline, which ends its events.
        """
        size = _HEAD + len(self._events)
        sums = [0] * size
        layout = struct.Struct(f"<{size}Q")
        for fd in self._leaders:
            data = os.read(fd, size * _WORD)
            if len(data) < size * _WORD:
                raise PerfError("a CPU went offline, or events were lost; they are opened again")
            sums = [old + new for old, new in zip(sums, layout.unpack(data))]
        _, enabled, running, cycles, instructions, *_ = sums
        more = dict(zip(self._events, sums[_HEAD:]))
        return PerfCount(
            cycles,
            instructions,
            CpuTime(enabled / 1e9),
            CpuTime(running / 1e9),
            more.get(_REFERENCES),
            more.get(_MISSES),
        )

    def close(self) -> None:
        """Give the descriptors back."""
        self._close_events()
        self._give(self._taken)

    def _close_events(self) -> None:
        for fd in self._opened:
            os.close(fd)
        self._opened, self._leaders = [], []


def _is_removed(folder: str, fd: int) -> bool:
    """Return whether an open folder has gone from its path. In cgroupfs its link count does not show that."""
    try:
        return not os.path.samestat(os.stat(folder), os.fstat(fd))
    except OSError as error:
        return error.errno in GONE


def _perf_event_open(config: int, cgroup: int, cpu: int, leader: int) -> int:
    import ctypes  # half a MiB, for nodes with counters only

    number = _CALLS.get(os.uname().machine)
    if number is None:
        raise PerfError(f"the number of perf_event_open is unknown on {os.uname().machine}")
    read_format = _TIME_ENABLED | _TIME_RUNNING | _GROUP
    attr = _ATTR.pack(_HARDWARE, _ATTR_SIZE, config, 0, 0, read_format).ljust(_ATTR_SIZE, b"\0")
    call = ctypes.CDLL(None, use_errno=True).syscall
    fd = int(call(number, attr, cgroup, cpu, leader, _OF_CGROUP | _CLOSE_ON_EXEC))
    if fd < 0:
        number = ctypes.get_errno()
        kind = TooManyError if number in _TOO_MANY else PerfError
        raise kind(f"perf_event_open: {_REASONS.get(number, os.strerror(number))}", errno=number)
    return fd
