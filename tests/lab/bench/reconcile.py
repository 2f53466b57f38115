"""How reconcile grows with the number of containers, and what it costs against reading the same files in a bare loop.

    python tests/lab/bench/reconcile.py [--count 5] [--containers 100 1000 10000]

The host is made of plain files on tmpfs: crun's state folder, bundles, /proc, cgroups, resctrl, the ledger. All
containers run and are in their groups, which is what nearly every reconcile finds. Processor time is measured, which
other work on the machine disturbs less.
"""

import argparse
import posix
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from host import TMPFS
from pods import add_bundle, add_process, add_to_crun, annotations_of

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.settings import Settings

BAR = 3.0
JUDGED = 1000
LINEAR = 1.5
"""How much more of a processor's time each container may take on the largest host than on the smallest."""
PER_POD = 2


class Host:
    """A made-up host with so many containers, two of them in each pod."""

    def __init__(self, root: Path, containers: int) -> None:
        self.root = root
        for folder in ("resctrl/mon_groups", "proc/sys/kernel/random", "crun", "cgroup"):
            (root / folder).mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("0d5d0a52-6e2c-4a3c-8f2e-000000000001\n")
        paths = {"resctrlPath": "resctrl", "procPath": "proc", "cgroupPath": "cgroup", "stateDir": "state"}
        values = {name: str(root / folder) for name, folder in paths.items()}
        settings = Settings({**values, "runtimeRoots": {"crun": str(root / "crun")}})
        self.context = Context(settings, Log({"target": "none"}, stderr=False))
        for number in range(containers):
            self._add(number)
        report = reconcile(self.context, Options(wait=False))
        assert len(report.events["adopted"]) == containers, report.as_text()
        for number in range(containers):
            self._join(number)
        report = reconcile(self.context, Options(wait=False))
        assert report.ok, report.as_text()
        assert not report.changed, report.as_text()

    def _names(self, number: int) -> tuple[str, str, str]:
        id_, uid = f"{number:064x}", f"3f0ac7f2-8a3b-4f0e-9a55-{number // PER_POD:012d}"
        return id_, uid, f"/kubepods/pod{uid}/crio-{id_}"

    def _add(self, number: int) -> None:
        id_, uid, cgroup = self._names(number)
        pid = 100 + number
        add_process(self.root, pid, cgroup)
        (self.root / f"proc/{pid}/cpu_resctrl_groups").write_text("res:/\nmon:\n")
        annotations = annotations_of(uid, f"web-{number // PER_POD}", f"c{number % PER_POD}")
        add_to_crun(self.root, id_, pid, add_bundle(self.root, id_, annotations=annotations))

    def _join(self, number: int) -> None:
        """Write the kernel's state after a write to ``tasks``."""
        _, uid, _ = self._names(number)
        (self.root / "proc" / str(100 + number) / "cpu_resctrl_groups").write_text(f"res:/\nmon:{uid}\n")
        first = number - number % PER_POD
        tasks = "".join(f"{100 + one}\n" for one in range(first, number + 1))
        (self.root / f"resctrl/mon_groups/{uid}/tasks").write_text(tasks)

    def reconcile(self) -> float:
        """Return seconds of processor time, user and system, of one that finds all well."""
        started = time.process_time()
        assert not reconcile(self.context, Options(wait=False)).changed
        return time.process_time() - started

    def files(self) -> list[str]:
        """Return the files that it reads, each as often as it reads it."""
        global _opened  # noqa: PLW0603  # an audit hook can't be removed, so it is told when to listen
        _opened = []
        self.reconcile()
        found, _opened = _opened, None
        return [path for path in found if path.startswith(str(self.root)) and "/locks/" not in path]


_opened: list[str] | None = None


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


def with_open(paths: list[str]) -> None:
    """Read the files as a simple program would."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                file.read()
        except FileNotFoundError:
            continue


def with_posix(paths: list[str]) -> None:
    """The least that Python can do."""
    for path in paths:
        try:
            fd = posix.open(path, posix.O_RDONLY)
        except FileNotFoundError:
            continue
        posix.read(fd, 4096)
        posix.close(fd)


def took(subject: Callable[[list[str]], None], paths: list[str]) -> float:
    """Return seconds of processor time."""
    started = time.process_time()
    subject(paths)
    return time.process_time() - started


def main() -> int:
    """Print the table; exit code 1 if the bar isn't met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--containers", type=int, nargs="+", default=[100, 1000, 10000])
    options = parser.parse_args()
    sys.addaudithook(_listen)
    judged = 0.0
    each = []
    print("containers   files   reconcile   per container   of open(), read()   of system calls")
    for containers in options.containers:
        root = Path(tempfile.mkdtemp(dir=TMPFS))
        try:
            host = Host(root, containers)
            paths = host.files()
            rows = [(host.reconcile(), took(with_open, paths), took(with_posix, paths)) for _ in range(options.count)]
        finally:
            shutil.rmtree(root)
        ours, bare, least = (statistics.median(times) for times in zip(*rows, strict=True))
        if containers == JUDGED:
            judged = ours / bare
        per_one = ours / containers * 1e6
        each.append(per_one)
        row = f"{containers:10d} {len(paths):7d} {ours * 1e3:8.1f} ms {per_one:12.0f} us"
        print(f"{row} {ours / bare:19.2f} {ours / least:17.2f}")
    growth = max(each[1:], default=0) / each[0]
    met = {
        f"at {JUDGED} at most {BAR:g} times a bare loop: {judged:.2f}": judged <= BAR,
        f"linear, each container at most {LINEAR:g} times what it takes on the smallest host: {growth:.2f}": growth
        <= LINEAR,
    }
    print("; ".join(f"{text} ({'met' if is_met else 'NOT MET'})" for text, is_met in met.items()))
    return int(not all(met.values()))


if __name__ == "__main__":
    sys.exit(main())
