"""A victim and its neighbours on one memory that runs out: the boot's processor limits it (tests/lab/vm/rdt.c)."""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kernel.groups import Resctrl
from kernel.installed import Installed

VICTIM, NOISY = "gold", "bronze"
MEGABYTE = 1_000_000


class Worker:
    """A process on some processors, in a class, that does the same piece of work again and again."""

    def __init__(self, resctrl: Resctrl, rdt_class: str, cpus: Iterable[int]) -> None:
        self._rounds = ctypes.c_uint64.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
        self.pid = os.fork()
        if self.pid:
            return
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.sched_setaffinity(0, cpus)
            resctrl.join(os.getpid(), rdt_class)
            while True:
                for _ in range(2000):
                    pass
                self._rounds.value += 1
        finally:
            os._exit(1)

    @property
    def rounds(self) -> int:
        """The pieces of work that are done."""
        return int(self._rounds.value)

    def rate(self, seconds: float) -> float:
        """Return the pieces of work per second within the next seconds."""
        begun, before = time.monotonic(), self.rounds
        time.sleep(seconds)
        return (self.rounds - before) / (time.monotonic() - begun)

    def stop(self) -> None:
        """Stop the process, until it goes on."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Let the stopped process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """End the process."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@contextlib.contextmanager
def workers(resctrl: Resctrl, rdt_class: str, cpus: range, may_run: Iterable[int] = ()) -> Iterator[list[Worker]]:
    """Workers on some processors, one on each; or each of them may run on all of others."""
    made = [Worker(resctrl, rdt_class, [*may_run] or [cpu]) for cpu in cpus]
    try:
        yield made
    finally:
        for worker in made:
            worker.end()


def share(some: list[Worker], others: list[Worker], seconds: float = 3.0) -> float:
    """Return the part of all work that some workers do. It does not depend on the speed of the emulator."""
    before = [worker.rounds for worker in (*some, *others)]
    time.sleep(seconds)
    done = [worker.rounds - count for worker, count in zip((*some, *others), before, strict=True)]
    return sum(done[: len(some)]) / max(1, sum(done))


def configure(installed: Installed, mode: str, capacity: int, floor: int = 20) -> None:
    """Have the guard protect the victim's class; ``capacity`` is of each memory domain, in MB/s."""
    guard = {"mode": mode, "protect": [VICTIM], "throttle": {NOISY: {"floor": floor}}}
    installed.configure(rdt={"guard": guard}, monitoring={"capacity": {"*": capacity * MEGABYTE}})


@contextlib.contextmanager
def guard(installed: Installed, cpu: int) -> Iterator["subprocess.Popen[str]"]:
    """A running guard on a processor of its own; it ends by SIGTERM."""
    words = ["taskset", "-c", str(cpu), *installed.command("guard", "run")]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def limits(resctrl: Resctrl, rdt_class: str = NOISY) -> list[int]:
    """The MB values of a class, by L3 domain."""
    text = Path(resctrl.path(rdt_class), "schemata").read_text(encoding="ascii")
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith("MB:")]
    return [int(part.split("=")[1]) for part in line.removeprefix("MB:").split(";")]


def status(installed: Installed) -> dict[str, Any]:
    """The guard's own record, empty before its first look."""
    try:
        found: dict[str, Any] = json.loads(Path(installed.state, "guard.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found
