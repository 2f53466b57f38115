"""Cgroups that compute, read a disk or fill the page cache in rounds, for waits_scenes.py."""

import ctypes
import mmap
import os
import random
import signal
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from resctrl_hooks.core.node.context import Context

CGROUPS = Path("/sys/fs/cgroup")
DEVICE = "/dev/nullb0"
SIZE = 16 << 30
"""Bytes of the disk, far more than the guest's memory."""
BLOCK, CHUNK = 1 << 16, 1 << 20
PERIOD = 0.4
"""Seconds, of which a worker may rest the half."""
LOOP, READ, GROW, KEEP = "loop", "read", "grow", "keep"
"""What is done in a round beside a loop: nothing, a direct read of a block, memory that is filled and freed, a read of
a block through the page cache."""
LOOPS = {LOOP: 3000, READ: 200, GROW: 0, KEEP: 1000}
CONTROLLERS = ("cpu", "cpuset", "io", "memory")


class Load(NamedTuple):
    """One cgroup of a scene with its processes."""

    path: str
    """Below the root of the cgroups; a pod's has ``pod`` in its name."""
    cpus: tuple[int, ...]
    """One process for each."""
    kind: str = LOOP
    rest: bool = False
    """Whether it rests half of the time."""
    files: tuple[tuple[str, str], ...] = ()
    """What is written to its cgroup."""
    pinned: bool = True
    """Whether each process may use its CPU only, not all CPUs of the cgroup."""
    size: int = 0
    """Bytes of the disk that `KEEP` reads again and again; 0: all of it. Bytes of memory for `GROW`."""
    container: str = ""
    """The cgroup of its processes below its own."""


class Worker:
    """The processes of a load; they stand still until `go`."""

    def __init__(self, context: Context, load: Load) -> None:
        self.load = load
        self.folder = CGROUPS / load.path
        _make(self.folder)
        for name, value in load.files:
            (self.folder / name).write_text(value)
        self.inner = self.folder / load.container if load.container else self.folder
        if load.container:
            _make(self.inner)
        self._context = context
        self.key = ""
        if "pod" in load.path.rpartition("/")[2]:
            self.key = f"{random.getrandbits(32):08x}-8a3b-4f0e-9a55-1d9d3b7e6c01"
            name = load.path.rpartition("/")[2]
            with context.monitor.hold(self.key) as locked:
                locked.record.update({"namespace": "scene", "pod": name, "cgroup": str(self.folder)})
                locked.ensure_group("")
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)
        self._counts = [(ctypes.c_uint64 * 2).from_buffer(self._shared, 16 * place) for place in range(len(load.cpus))]
        self.pids = [self._start(place, cpu) for place, cpu in enumerate(load.cpus)]

    def _start(self, place: int, cpu: int) -> int:
        pid = os.fork()
        if pid:
            os.waitpid(pid, os.WUNTRACED)
            return pid
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            (self.inner / "cgroup.procs").write_text("0")
            os.sched_setaffinity(0, {cpu} if self.load.pinned else set(self.load.cpus))
            os.kill(os.getpid(), signal.SIGSTOP)
            self._work(self._counts[place])
        except BaseException:  # noqa: BLE001  # nothing may get out of the child
            traceback.print_exc()
        os._exit(1)

    def _work(self, counts: "ctypes.Array[ctypes.c_uint64]") -> None:
        buffer = mmap.mmap(-1, CHUNK)
        kind, place = self.load.kind, 0
        disk = -1
        if kind in (READ, KEEP):
            disk = os.open(DEVICE, os.O_RDONLY | (os.O_DIRECT if kind == READ else 0))
        begun = time.thread_time_ns()
        while True:
            _loop(LOOPS[kind])
            counts[1] += time.thread_time_ns() - begun
            if kind == READ:
                os.preadv(disk, [memoryview(buffer)[:BLOCK]], random.randrange(SIZE // BLOCK) * BLOCK)
            elif kind == GROW:
                _grow(self.load.size)
            elif kind == KEEP:
                os.preadv(disk, [memoryview(buffer)[:BLOCK]], place)
                place = (place + BLOCK) % (self.load.size or SIZE)
            begun = time.thread_time_ns()
            counts[0] += 1
            if self.load.rest and time.monotonic() % PERIOD < PERIOD / 2:
                time.sleep(PERIOD / 8)

    @property
    def rounds(self) -> int:
        """The rounds so far of all processes."""
        return sum(one[0] for one in self._counts)

    @property
    def own_seconds(self) -> float:
        """The CPU time of these rounds outside the kernel's reads, which is always for the same work."""
        return sum(one[1] for one in self._counts) / 1e9

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that it used so far."""
        words = (self.folder / "cpu.stat").read_text(encoding="ascii").split()
        return int(words[words.index("usage_usec") + 1]) / 1e6

    def go(self) -> None:
        """Let it work."""
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """End it, with its record and its cgroup."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if self.key:
            with self._context.monitor.hold(self.key) as locked:
                locked.release()
        for _ in range(100):
            try:
                self.inner.rmdir()
                if self.inner != self.folder:
                    self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.05)


def _loop(number: int) -> None:
    for _ in range(number):
        pass


def _grow(size: int) -> None:
    """Fill memory piece by piece, keep it for a moment, and free it."""
    pieces = []
    for _ in range(size // CHUNK):
        pieces.append(bytearray(os.urandom(1)) * CHUNK)
        time.sleep(0.01)
    time.sleep(0.5)


def _make(folder: Path) -> None:
    """Create a cgroup, with all controllers in those above."""
    for above in reversed(folder.relative_to(CGROUPS).parents):
        (CGROUPS / above).mkdir(exist_ok=True)
        for name in CONTROLLERS:
            (CGROUPS / above / "cgroup.subtree_control").write_text(f"+{name}")
    folder.mkdir()


def fill(folder: Path, left: int) -> None:
    """Fill the memory with a file in a file system of its own until so many MB are left."""
    folder.mkdir(exist_ok=True)
    os.system(f"mount -t tmpfs -o size=100% ballast {folder}")
    with Path(folder, "ballast").open("wb") as file:
        while True:
            words = Path("/proc/meminfo").read_text(encoding="ascii").split()
            if int(words[words.index("MemAvailable:") + 1]) >> 10 <= left:
                return
            file.write(bytes(CHUNK))


def make_disk(rate: int) -> None:
    """Make a disk without content that moves so many MB in a second."""
    os.system("modprobe null_blk nr_devices=0 && mount -t configfs none /sys/kernel/config 2>/dev/null")
    folder = Path("/sys/kernel/config/nullb/nullb0")
    folder.mkdir()
    for name, value in (("size", SIZE >> 20), ("blocksize", 4096), ("mbps", rate), ("memory_backed", 0), ("power", 1)):
        (folder / name).write_text(f"{value}\n")
