"""A node with made-up MB values and counters: resctrl as a tree of folders whose ``schemata`` can be written."""

import errno
import json
import os
from pathlib import Path
from typing import Any

from conftest import Host

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.status import NAME as STATUS

GB = 1_000_000_000
FULL = {"gold": 20.0, "silver": 20.0, "bronze": 55.0}
"""Rates of classes, in GB/s, that fill a domain beyond the guard's high load."""
CALM = {"gold": 5.0, "silver": 1.0, "bronze": 1.0}


def nothing(_: Any) -> None:
    """Do nothing before or after a write."""


class Schemata(Filesystem):
    """Applies what is written to ``schemata`` as the kernel does: only the named domains change.

    A per cent is rounded up to ``step`` (Linux, bw_validate). ``unreadable`` are classes whose file gives EIO.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self.unreadable: set[str] = set()
        self.writes: list[tuple[str, str]] = []
        self.before: Any = nothing
        self.after: Any = nothing

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        if path.endswith("/schemata") and Path(path).parent.name in self.unreadable:
            raise OSError(errno.EIO, "Input/output error", path)
        return super().read(path)

    def write(self, path: str, value: bytes) -> None:
        """Merge an MB line; anything else goes into the file as it is."""
        if not path.endswith("/schemata"):
            super().write(path, value)
            return
        self.before(path)
        file = Path(path)
        if not file.exists():
            raise OSError(errno.ENOENT, "no such class", path)
        line = value.decode().strip()
        assert line.startswith("MB:"), "the guard writes MB only"
        now = dict(part.split("=") for part in file.read_text().strip().removeprefix("MB:").split(";"))
        new = dict(part.split("=") for part in line.removeprefix("MB:").split(";"))
        now.update({number: str(-(-int(value) // self.step) * self.step) for number, value in new.items()})
        whole = file.with_name(
            f"written-{os.getpid()}"
        )  # a killed writer leaves the old values or the new ones, as the kernel does
        whole.write_text(f"MB:{';'.join(f'{number}={value}' for number, value in sorted(now.items()))}\n")
        whole.replace(file)
        self.writes.append((file.parent.name, line))
        self.after(path)


class Node:
    """Classes with counters on one or more L3 domains; `pass_time` lets them count and the guard sample."""

    def __init__(
        self, host: Host, classes: tuple[str, ...] = ("gold", "silver", "bronze"), *, l3: tuple[int, ...] = (0,),
        amd: bool = False, mode: str = "act", capacity: str = "100", floor: int = 20, counted_in: str = "L3",
    ) -> None:  # fmt: skip
        self.counted_in = counted_in
        self.host = host
        self.root = host.resctrl
        self.l3 = l3
        self.most = 2048 if amd else 100
        for name in ("", *classes):
            self.add_class(name)
        info = self.root / "info/MB"
        info.mkdir(parents=True, exist_ok=True)
        (info / "min_bandwidth").write_text("0\n" if amd else "10\n")
        (info / "bandwidth_gran").write_text("1\n" if amd else "10\n")
        (info / "thread_throttle_mode").write_text("per-thread\n")
        self.fs = Schemata(1 if amd else 10)
        throttle = {"bronze": {"floor": floor}, "silver": {"floor": 50}}
        section = {"mode": mode, "protect": ["gold"], "throttle": throttle}
        host.configure(rdt={"guard": section}, monitoring={"capacity": {"*": float(capacity) * GB}})
        self.now = 0.0
        self.lines: list[str] = []

    def context(self) -> Context:
        """Return the node as the guard's process opens it."""
        settings, _ = load(str(self.host.config))
        context = Context(settings, Log({"target": "none"}, stderr=False))
        context.monitor.resctrl.fs = self.fs
        context.log = lambda _, message, **__: self.lines.append(message)  # type: ignore[assignment]
        return context

    def guard(self, pid: int = 100, topology: Topology | None = None) -> Guard:
        """Return a guard that begins now."""
        context = self.context()
        context.ledger.prepare()
        return Guard(context, topology, pid, self.now)

    def add_class(self, name: str) -> None:
        """Make a class with counters at 0 and every limit open."""
        folder = self.root / name
        (folder / "mon_groups").mkdir(parents=True, exist_ok=True)
        (folder / "tasks").touch()
        (folder / "schemata").write_text(f"MB:{';'.join(f'{number}={self.most}' for number in self.l3)}\n")
        for number in self.l3:
            self.count(name, number, 0, 0)

    def count(self, name: str, number: int, total: int | str, local: int | str | None = None) -> None:
        """Set the counters of a class on an L3 domain."""
        folder = self.root / name / f"mon_data/mon_{self.counted_in}_{number:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mbm_total_bytes").write_text(f"{total}\n")
        (folder / "mbm_local_bytes").write_text(f"{total if local is None else local}\n")

    def pass_time(self, guard: Guard, rates: dict[str, float], seconds: int = 1) -> None:
        """Let classes move so many GB/s on the first domain for some seconds, with a sample after each."""
        for _ in range(seconds):
            self.now += 1
            for name, rate in rates.items():
                path = self.root / name / f"mon_data/mon_{self.counted_in}_{self.l3[0]:02d}/mbm_total_bytes"
                self.count(name, self.l3[0], int(path.read_text()) + int(rate * GB))
            guard.sample(self.now)

    def status(self) -> dict[str, Any]:
        """Return the guard's status file."""
        found: dict[str, Any] = json.loads((self.host.state / STATUS).read_text())
        return found

    def calm(self) -> None:
        """Let writes pass again."""
        self.fs.before = self.fs.after = nothing

    def mb(self, name: str) -> int | None:
        """Return the MB value of a class on the first domain; None if the class is gone."""
        if not (self.root / name).exists():
            return None
        return int(self.limit(name).removeprefix(f"MB:{self.l3[0]}=").partition(";")[0])

    def limit(self, name: str) -> str:
        """Return the MB line of a class."""
        return (self.root / name / "schemata").read_text().strip()


def lowered_once(host: Host) -> Node:
    """Return a node whose guard, a process that runs, has lowered a class once."""
    made = Node(host)
    host.process(100)
    made.pass_time(made.guard(pid=100), FULL, 6)
    return made
