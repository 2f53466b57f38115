"""The real resctrl as a test uses it: classes and monitoring groups by path, tasks by thread id."""

import contextlib
import dataclasses
import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from kernel.runtimes import wait_until

LIMBO_SECONDS = 30
"""A freed RMID comes back when the kernel's worker has looked, about once a second; the guest is slow."""

RENAMES = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 5)
"""Whether this kernel can rename a monitoring group; older ones answer EPERM."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a task is, as /proc/<pid>/cpu_resctrl_groups says: the class ("" is the root's), the monitoring group."""

    rdt_class: str
    group: str


def parse_place(text: str) -> Place:
    """Read cpu_resctrl_groups: `res:/` or `res:gold`, then `mon:` or `mon:podA`."""
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return Place(fields["res"].strip("/"), fields["mon"].strip("/"))


def parse_places(printed: str) -> dict[str, Place]:
    """Parse the output of bundles.EVERYBODY: the place of each process."""
    return {who: parse_place(text) for line in printed.splitlines() for who, text in json.loads(line).items()}


def place_of(task: int) -> Place:
    with open(f"/proc/{task}/cpu_resctrl_groups", encoding="utf-8") as source:
        return parse_place(source.read())


def said(pid: int) -> Place:
    """Return the place that a container's command has written to /dev/said, once it is there."""
    path = Path(f"/proc/{pid}/root/dev/said")
    wait_until(lambda: path.exists() and path.read_text(), "the container has said where it is")
    return parse_place(path.read_text())


class Resctrl:
    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, rdt_class: str = "", group: str = "") -> str:
        parts = [self.root, rdt_class] if rdt_class else [self.root]
        return os.path.join(*parts, *(["mon_groups", group] if group else []))

    def make(self, rdt_class: str = "", group: str = "") -> str:
        """Make a class or a group; its folder. Waits while RMIDs that other tests freed are still in limbo."""
        path = self.path(rdt_class, group)
        deadline = time.monotonic() + LIMBO_SECONDS
        while True:
            try:
                os.mkdir(path)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return path

    def use_up(self) -> list[str]:
        """Make groups of others until no RMID is left, not in limbo either: their folders."""
        made: list[str] = []
        while True:
            try:
                made.append(self.make(group=f"other{len(made)}"))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return made

    def settle(self) -> None:
        """Wait until at most one RMID is in limbo. Otherwise the next container, whose hook does not wait, gets none.

        mkdir is the only test, and its RMID passes through limbo again. So all RMIDs are taken, which proves that none
        is there, and enter limbo together; they return together, when the kernel's worker has checked them.
        """
        for folder in self.use_up():
            os.rmdir(folder)
        os.rmdir(self.make(group="other"))

    def join(self, task: int, rdt_class: str = "", group: str = "") -> None:
        with open(os.path.join(self.path(rdt_class, group), "tasks"), "w", encoding="ascii") as tasks:
            tasks.write(str(task))

    def tasks(self, rdt_class: str = "", group: str = "") -> set[int]:
        with open(os.path.join(self.path(rdt_class, group), "tasks"), encoding="ascii") as tasks:
            return {int(line) for line in tasks}

    def groups(self) -> Iterator[str]:
        """Folders of all monitoring groups and of all classes but the root's, groups first."""
        entries = [entry.path for entry in os.scandir(self.root) if entry.is_dir()]
        own = {"info", "mon_data", "mon_groups"}
        classes = [path for path in entries if os.path.basename(path) not in own]
        for path in [self.root, *classes]:
            groups = os.path.join(path, "mon_groups")
            yield from (os.path.join(groups, name) for name in os.listdir(groups))
        yield from classes

    def names(self) -> list[str]:
        return sorted(os.path.basename(path) for path in self.groups())

    def clear(self) -> None:
        for path in list(self.groups()):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(path)
