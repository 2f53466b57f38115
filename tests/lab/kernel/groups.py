"""The real resctrl as a test uses it: classes and monitoring groups by path, tasks by thread id."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

from conformance import filesystem

from kernel.runtimes import wait_until

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
    return parse_place(Path(f"/proc/{task}/cpu_resctrl_groups").read_text())


def said(pid: int) -> Place:
    """Return the place that a container's command has written to /dev/said, once it is there."""
    path = Path(f"/proc/{pid}/root/dev/said")
    wait_until(lambda: path.exists() and path.read_text(), "the container has said where it is")
    return parse_place(path.read_text())


class Resctrl(filesystem.Resctrl):
    """The filesystem with classes and groups by name."""

    def folder(self, rdt_class: str = "", group: str = "") -> str:
        return self.path(rdt_class, *(["mon_groups", group] if group else []))

    def use_up(self) -> list[str]:
        """Make groups of others until no RMID is left, not in limbo either: their folders."""
        return [self.path(made) for made in self.fill()]

    def settle(self) -> None:
        """Wait until at most one RMID is in limbo. Otherwise the next container, whose hook does not wait, gets none.

        mkdir is the only test, and its RMID passes through limbo again. So all RMIDs are taken, which proves that none
        is there, and enter limbo together; they return together, when the kernel's worker has checked them.
        """
        for folder in self.use_up():
            os.rmdir(folder)
        self.rmdir(self.make("mon_groups/other"))

    def join(self, task: int, rdt_class: str = "", group: str = "") -> None:
        self.write(f"{self.folder(rdt_class, group)}/tasks", str(task))

    def groups(self) -> Iterator[str]:
        """Folders of all monitoring groups and of all classes but the root's, groups first."""
        classes = self.classes()
        for rdt_class in ("", *classes):
            yield from (self.folder(rdt_class, name) for name in self.names(os.path.join(rdt_class, "mon_groups")))
        yield from map(self.folder, classes)

    def present(self) -> list[str]:
        """Return the names of all groups and classes."""
        return sorted(os.path.basename(path) for path in self.groups())
