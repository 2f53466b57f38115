"""A simulated kernel whose counters grow by explicit steps, so that each group's true count is known exactly."""

import itertools
import os
import posix
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosts.simulated_kernel import Kernel

from resctrl_hooks.core.node.resctrl.counter_files import identity_of
from resctrl_hooks.lab.simulation.group import Group

DOMAINS = 2
EVENT = "mbm_total_bytes"


@dataclass(eq=False)
class Meter:
    """One mon_group from its mkdir to its end."""

    ours: bool  # whether this project created it
    counts: list[int] = field(default_factory=lambda: [0] * DOMAINS)  # the bytes in each domain
    before: list[int] = field(default_factory=lambda: [0] * DOMAINS)
    """The bytes before the domain was offline: the kernel's counter then begins again."""
    renamed: bool = False  # whether another program has renamed it since
    lost: bool = False  # whether it did before this project knew the group's identity
    released: bool = False  # whether this project has removed it

    @property
    def is_ours(self) -> bool:
        """Whether this project created it, and can know it."""
        return self.ours and not self.lost


def _renew(folder: Path) -> None:
    """Give a folder another time of its last change, as kernfs does with each mount."""
    before = folder.stat().st_ctime_ns
    while folder.stat().st_ctime_ns == before:
        folder.chmod(0o755)


class CountedKernel(Kernel):
    """The kernel; only `work` lets its counters grow.

    Folders get their inode numbers in the order of their creation, and the same ones in each mount, as in kernfs.
    Without a mount the mount point is empty, as in sysfs.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self.meters: dict[Group, Meter] = {}
        self.changed: Callable[[], None] = lambda: None
        self.is_known: Callable[[str], bool] = lambda identity: False
        self.ours, self.mounted, self.mounts = True, True, 1
        self.offline: set[int] = set()
        self._inodes: list[int] = []
        self._number = itertools.count()
        super().__init__(*given, l3_domains=DOMAINS, **named)

    def end_main_thread(self, pid: int) -> None:
        """A process's main thread ends while others run, as by pthread_exit in ``main``: it stays as a zombie."""
        if others := self.threads.threads(pid) - {pid}:
            file = self.host.proc / str(pid) / "stat"
            head, _, rest = file.read_text().rpartition(")")
            fields = rest.split()
            fields[0], fields[17] = "Z", str(len(others) + 1)
            file.write_text(f"{head}) {' '.join(fields)}\n")
        for tid in others:
            shutil.copy(self.host.proc / str(tid) / "stat", self.host.proc / f"{pid}/task/{tid}/stat")

    # Counters

    def work(self, tid: int, amounts: tuple[int, ...]) -> None:
        """A thread moves so many bytes in each domain; `show_work` shows them."""
        meter = self.meters.get(self.model.tasks.group_of(tid))
        if meter is not None:
            for domain in set(range(DOMAINS)) - self.offline:
                meter.counts[domain] += amounts[domain]

    def show_work(self) -> None:
        for group in self.meters:
            for domain in range(DOMAINS):
                self._show(group, domain)

    def _show(self, group: Group, domain: int) -> None:
        meter = self.meters[group]
        text = f"{meter.counts[domain] - meter.before[domain]}\n"
        if domain in self.offline or group.readings.get((f"mon_L3_{domain:02d}", EVENT)) == text:
            return
        group.readings[f"mon_L3_{domain:02d}", EVENT] = text
        (self._folder(group) / f"mon_data/mon_L3_{domain:02d}" / EVENT).write_text(text)

    def plug(self, domain: int) -> None:
        """The CPUs of a domain go offline, or come back unless resctrl is not mounted."""
        if domain in self.offline:
            self.offline.remove(domain)
            for group, meter in self.meters.items():
                meter.before[domain] = meter.counts[domain]
                group.readings.pop((f"mon_L3_{domain:02d}", EVENT), None)
        elif len(self.offline) < DOMAINS - 1:
            self.offline.add(domain)
        for path in (self.host.resctrl, *self._there()) if self.mounted else ():
            self._show_domains(path)
        if self.mounted:
            self.show_work()

    def _show_domains(self, path: Path) -> None:
        for domain in range(DOMAINS):
            folder = path / f"mon_data/mon_L3_{domain:02d}"
            if domain in self.offline:
                shutil.rmtree(folder, ignore_errors=True)
            elif not folder.is_dir():
                folder.mkdir(parents=True)
                for name in (EVENT, "llc_occupancy"):
                    (folder / name).write_text("0\n")

    def _folder(self, group: Group) -> Path:
        assert group.parent is not None
        return self.host.resctrl / group.parent.name / "mon_groups" / group.name

    def of(self, rdt_class: str, name: str) -> Group:
        return self.model.classes.get(rdt_class, self.model.root).monitored[name]

    def known_groups(self) -> list[tuple[str, str]]:
        """Return the class and the name of each group that this project created and can know."""
        return sorted((group.ctrl.name, group.name) for group, meter in self.meters.items() if meter.is_ours)

    # The plain tree

    def sync(self) -> None:
        if not self.mounted:
            return
        store = self.host.root / "inodes"
        store.mkdir(exist_ok=True)
        groups: dict[Path, Any] = {}
        for parent in self.model.all_classes():
            folder = self.host.resctrl / parent.name
            groups |= {folder: parent} if parent.name else {}
            groups |= {folder / "mon_groups" / name: group for name, group in parent.monitored.items()}
        for path in sorted(self._there() - groups.keys(), key=str, reverse=True):
            os.rename(path, store / f"old-{path.stat().st_ino}")
        for path, group in groups.items():
            if not path.is_dir():
                self._create(path, group, store)
        for group in self.meters.keys() - set(groups.values()):
            del self.meters[group]
        self._fill(self.host.resctrl, whole=True)

    def _there(self) -> set[Path]:
        found = (self.host.resctrl / path for path in self._mirrored())
        return {path for path in found if path.name not in ("info", "mon_groups")}

    def _create(self, path: Path, group: Group, store: Path) -> None:
        number = next(self._number)
        if number < len(self._inodes):
            os.rename(store / f"old-{self._inodes[number]}", path)
        else:
            path.mkdir()
            self._inodes.append(path.stat().st_ino)
        self._fill(path, whole=group.parent is None)
        if group.parent is not None:
            self.meters[group] = Meter(ours=self.ours)
            for domain in range(DOMAINS):
                self._show(group, domain)

    def _fill(self, path: Path, *, whole: bool) -> None:
        self._show_domains(path)
        if whole:
            (path / "mon_groups").mkdir(exist_ok=True)
        if path == self.host.resctrl:
            (path / "info").mkdir(exist_ok=True)

    # Other programs

    @contextmanager
    def foreign(self) -> Iterator[None]:
        """Groups that are created inside the context are another program's."""
        before, self.ours = self.ours, False
        try:
            yield
        finally:
            self.ours = before

    def rename(self, old: str, new: str) -> None:
        self._here(old)
        if self.is_folder(new):
            raise FileExistsError(17, "File exists", new)
        group = self.tree.find(self._below(old)).group
        if group in self.meters and not self.ours:
            self.meters[group].renamed = True
            self.meters[group].lost |= not self.is_known(identity_of(os.stat(old)))
        super().rename(old, new)

    def umount(self) -> None:
        self.end_groups()
        self.sync()
        self.mounted = False
        os.rename(self.host.resctrl, self.host.root / "unmounted")
        self.host.resctrl.mkdir()
        self._shown = {}
        self._changed()

    def mount(self) -> None:
        self.host.resctrl.rmdir()
        os.rename(self.host.root / "unmounted", self.host.resctrl)
        for name in ("", "info", "mon_data"):
            _renew(self.host.resctrl / name)
        self.mounted = True
        self.mounts += 1
        self._number = itertools.count()
        self._shown = {}
        self._changed()

    def _changed(self) -> None:
        super()._changed()
        self.changed()

    def where(self, tid: int) -> tuple[str, str]:
        return super().where(tid) if self.mounted else ("", "")

    def show_tasks(self) -> None:
        if self.mounted:
            super().show_tasks()
            return
        for tid, pid in self.threads.leaders.items():
            for folder in (str(tid), f"{pid}/task/{tid}"):
                (self.host.proc / folder / "cpu_resctrl_groups").write_text("res:\nmon:\n")

    def _here(self, path: str) -> None:
        if not self.mounted:
            raise FileNotFoundError(2, "No such file or directory", path)

    def mkdir(self, path: str) -> None:
        if not self.mounted:
            raise PermissionError(1, "Operation not permitted", path)  # as sysfs answers
        super().mkdir(path)

    def rmdir(self, path: str) -> None:
        self._here(path)
        group = self.tree.find(self._below(path)).group
        if group in self.meters:
            self.meters[group].released = self.ours
        super().rmdir(path)

    def read(self, path: str) -> bytes:
        self._here(path)
        return super().read(path)

    def write(self, path: str, value: bytes) -> None:
        self._here(path)
        super().write(path, value)

    def listdir(self, path: str) -> list[str]:
        if not self.mounted:
            return posix.listdir(path)
        return super().listdir(path)

    def is_folder(self, path: str) -> bool:
        if not self.mounted:
            return path == str(self.host.resctrl)
        return super().is_folder(path)
