"""Pods that work in rounds on a kernel with resctrl, for slowdown_scenes.py: a victim and its neighbours.

CPUs are numbers within an L3 domain, of six: 0 is the sampler's and the kernel's, 1 the victim's. From `ELSEWHERE` on,
they are those of the other domain.
"""

import ctypes
import fcntl
import hashlib
import mmap
import os
import random
import signal
import time
import traceback
from pathlib import Path

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.node.slowdown.evidence.perf.counters import PerfCounters, PerfError

CGROUPS = Path("/sys/fs/cgroup")
BATCH = bytes(1 << 16)
LOOP, HASH, WALK = range(3)
"""Kinds of work: a loop of the interpreter, which moves much for its instructions; one that moves little; reads of a
buffer, whose cost depends on the cache."""
SAMPLER, VICTIM, ELSEWHERE = 0, 1, 6
SERVICE, SERVICES = "backup.service", "services"
"""A neighbour that is no pod, and the class of its tasks: in some boots those of the root class do not count."""
RESCTRL = Path("/sys/fs/resctrl")
PERIOD = 0.4
"""Seconds, of which a pod may sleep the half."""
_ENABLE, _DISABLE, _WHOLE_GROUP = 0x2400, 0x2401, 1  # linux/perf_event.h


class Pod:
    """A recorded pod with its cgroup and group, and one process for each of its CPUs that works in rounds.

    Args:
        context: the node.
        name: its name; without the number behind the last hyphen, it is the workload's. `SERVICE` is no pod.
        rdt_class: its class; empty for the root class.
        cpus: the CPUs of its processes, as the kernel numbers them.
        kind: what it does.
        size: bytes that `WALK` reads in a round.
    """

    def __init__(
        self, context: Context, name: str, rdt_class: str, cpus: list[int], kind: int = LOOP, size: int = 0
    ) -> None:
        self.key = f"{random.getrandbits(32):08x}-8a3b-4f0e-9a55-1d9d3b7e6c01"
        self.name = name
        self._is_pod = name != SERVICE
        self.folder = CGROUPS / (f"pod{self.key}" if self._is_pod else f"system.slice/{name}")
        self.folder.mkdir(parents=True)
        self._groups = [RESCTRL / SERVICES]
        if self._is_pod:
            with context.monitor.hold(self.key) as locked:
                locked.record.update({"namespace": "scene", "pod": name, "cgroup": str(self.folder)})
                group = Path(locked.ensure_group(rdt_class).path)
            self._groups = [group.parents[1], group]  # a class before its group
        self._context = context
        self._size = size
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)
        self._rounds = ctypes.c_uint64.from_buffer(self._shared)
        self._kind = ctypes.c_uint64.from_buffer(self._shared, 8)
        self._idle = ctypes.c_double.from_buffer(self._shared, 16)
        self._kind.value = kind
        self.pids = [self._start(cpu) for cpu in cpus]
        if self._is_pod:
            with context.monitor.hold(self.key) as locked:
                locked.add_member(self.key, {"cgroup": str(self.folder)}, self.pids[0])

    def _start(self, cpu: int) -> int:
        pid = os.fork()
        if pid:
            os.waitpid(pid, os.WUNTRACED)
            return pid
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.sched_setaffinity(0, {cpu})
            buffer = bytearray(b"\2") * self._size  # written: untouched memory is one page for all
            (self.folder / "cgroup.procs").write_text("0")
            for group in self._groups:
                (group / "tasks").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            while True:
                self._work(buffer)
                self._rounds.value += 1
                if time.monotonic() % PERIOD < self._idle.value:  # the same work for all
                    time.sleep(PERIOD / 8)
        except BaseException:  # noqa: BLE001  # nothing may get out of the child
            traceback.print_exc()
        os._exit(1)

    def _work(self, buffer: bytearray) -> None:
        if self._kind.value == HASH:
            hashlib.md5(BATCH, usedforsecurity=False)  # most of its work is in registers
        elif self._kind.value == WALK:
            buffer.find(b"\1")
        else:
            for _ in range(100):
                pass

    @property
    def rounds(self) -> int:
        """The rounds so far of its last process."""
        return int(self._rounds.value)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that its cgroup used so far."""
        words = (self.folder / "cpu.stat").read_text(encoding="ascii").split()
        return int(words[words.index("usage_usec") + 1]) / 1e6

    def signal(self, number: int) -> None:
        """Stop or continue it."""
        for pid in self.pids:
            os.kill(pid, number)

    def go(self) -> None:
        """Let it work."""
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Let it stand still."""
        self.signal(signal.SIGSTOP)

    def loop(self) -> None:
        """Work in loops from now on."""
        self._kind.value = LOOP

    def idle_half(self) -> None:
        """Sleep for half of the time from now on."""
        self._idle.value = PERIOD / 2

    def end(self) -> None:
        """End it, with its group and its record."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if self._is_pod:
            with self._context.monitor.hold(self.key) as locked:
                locked.release()
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.05)


class Rival:
    """Another program's counters of the same cgroup, for which the processor has too few: the kernel takes turns.

    It counts in every second half of a window, so that the pod's own counters run for about three quarters.
    """

    def __init__(self, pod: Pod) -> None:
        try:
            self._counters: PerfCounters | None = PerfCounters([str(pod.folder)])
        except PerfError:  # this processor has none
            self._counters = None

    def turn(self, half: int) -> None:
        """Count, or not, in a half of a window."""
        for leader in self._counters._leaders if self._counters else ():
            fcntl.ioctl(leader, _ENABLE if half % 2 else _DISABLE, _WHOLE_GROUP)

    def close(self) -> None:
        """End the counting."""
        if self._counters:
            self._counters.close()


class Stage:
    """One run's pods: a victim, and neighbours by name that stand still."""

    def __init__(
        self,
        context: Context,
        victim: tuple[str, int],
        neighbours: dict[str, list[int]],
        rdt_class: str = "",
        first_cpu: int = 0,
    ) -> None:
        name, kind = victim
        # Less than half the cache. Its pages can fill sets by chance: each pod has a baseline of its own (`fresh`).
        own, others = (800_000, 8_000_000) if kind == WALK else (0, 0)
        self.context = context
        self._cpus = [first_cpu + VICTIM]
        self.victim = Pod(context, f"{name}-0", "", self._cpus, kind, own)
        self.others = {
            name: Pod(
                context, name, rdt_class, [first_cpu + cpu for cpu in cpus], WALK if kind == WALK else LOOP, others
            )
            for name, cpus in neighbours.items()
        }
        self.rival: Rival | None = None

    def all_go(self) -> None:
        """Let all neighbours work."""
        for pod in self.others.values():
            pod.go()

    def toggle(self, half: int) -> None:
        """Let all neighbours work in every second window."""
        for pod in self.others.values() if half % 2 == 0 else ():
            (pod.go if half // 2 % 2 else pod.stop)()

    def limit(self) -> None:
        """Give the victim half a CPU."""
        (self.victim.folder / "cpu.max").write_text("50000 100000")

    def change(self) -> None:
        """Let the victim do work that needs memory more."""
        self.victim.loop()

    def idle_half(self) -> None:
        """Let the victim sleep for half of the time."""
        self.victim.idle_half()

    def multiplex(self) -> None:
        """Count the victim by another program, too."""
        self.rival = Rival(self.victim)

    def restart(self) -> None:
        """Replace the victim by another pod of the same workload."""
        self.victim.end()
        self.victim = Pod(self.context, "cart-1", "", self._cpus)
        self.victim.go()

    def renew(self) -> None:
        """Replace the victim by a pod of a workload that was never seen."""
        self.victim.end()
        self.victim = Pod(self.context, f"new{random.getrandbits(48):x}z-0", "", self._cpus)
        self.victim.go()

    def end(self) -> None:
        """End all pods."""
        if self.rival:
            self.rival.close()
        for pod in (self.victim, *self.others.values()):
            pod.end()
