"""How a memtierd outside systemd is found again, and ended: asked first, then killed, and never waited for in vain."""

from __future__ import annotations

import json
import os
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING, Any

import pytest

from resctrl_hooks.core.node.features.memtierd import processes
from resctrl_hooks.core.node.features.memtierd.processes import SupervisorError, attended, living, memtierd_of
from resctrl_hooks.core.node.host.procfs import boot_id, start_time

if TYPE_CHECKING:
    from pathlib import Path


class Folder:
    """A run folder with this record of a supervisor."""

    def __init__(self, *named: list[int], boot: str = "") -> None:
        self.text = json.dumps({"boot": boot or boot_id("/proc"), "processes": named}).encode()

    def read(self, name: str) -> bytes:
        assert name == "memtierd.keeper"
        return self.text


class Machine:
    """Processes of a cgroup, or of a process group, that end at one signal; time passes only during waits."""

    def __init__(self, cgroup: list[int], group: list[int], ends_of: int) -> None:
        self.cgroup = cgroup
        self.group = group
        self.ends_of = ends_of
        self.killed: list[tuple[int, int]] = []
        self.waited = 0.0

    def kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))
        if number == self.ends_of:
            self.cgroup = [one for one in self.cgroup if one != pid]
            self.group = [one for one in self.group if one != pid]

    def monotonic(self) -> float:
        return self.waited

    def sleep(self, seconds: float) -> None:
        self.waited += seconds


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    folder = tmp_path / "resctrl-hooks/memtierd-x"
    folder.mkdir(parents=True)
    return folder


def end(monkeypatch: pytest.MonkeyPatch, machine: Machine, cgroup: Path) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(processes, "processes", lambda _: machine.cgroup)
    monkeypatch.setattr(processes, "_group", lambda _: machine.group)
    monkeypatch.setattr(processes, "_kill", machine.kill)
    monkeypatch.setattr(processes, "time", machine)
    monkeypatch.setattr(processes, "try_write", lambda path, data: told.append((path, data)))
    folder: Any = Folder()
    processes.end(folder, str(cgroup))
    return told


def test_process_that_ends_at_sigterm_is_not_killed(monkeypatch: pytest.MonkeyPatch, cgroup: Path) -> None:
    machine = Machine([5, 6], [], SIGTERM)
    assert end(monkeypatch, machine, cgroup) == []
    assert machine.killed == [(5, SIGTERM), (6, SIGTERM)]
    assert machine.waited == 0
    assert not cgroup.parent.exists()


@pytest.mark.parametrize("cgroup_has, group_has", [([5], []), ([], [-5]), ([5], [-5])])
def test_process_that_ignores_sigterm_is_killed_with_its_cgroup(
    monkeypatch: pytest.MonkeyPatch, cgroup: Path, cgroup_has: list[int], group_has: list[int]
) -> None:
    machine = Machine(cgroup_has, group_has if not cgroup_has else [], SIGKILL)
    (target,) = cgroup_has or group_has
    assert end(monkeypatch, machine, cgroup) == [(f"{cgroup}/cgroup.kill", "1")]
    assert machine.killed == [(target, SIGTERM), (target, SIGKILL)]
    assert machine.waited == pytest.approx(0.5, abs=0.02)
    assert not cgroup.exists()


@pytest.mark.parametrize("cgroup_has, group_has", [([5], []), ([], [-5])])
def test_process_that_survives_is_named_and_keeps_its_cgroup(
    monkeypatch: pytest.MonkeyPatch, cgroup: Path, cgroup_has: list[int], group_has: list[int]
) -> None:
    machine = Machine(cgroup_has, group_has, 0)
    with pytest.raises(SupervisorError, match=r"processes \[-?5\] of a memtierd do not end"):
        end(monkeypatch, machine, cgroup)
    assert machine.waited == pytest.approx(1.0, abs=0.03)
    assert cgroup.exists()


def test_empty_cgroup_is_removed(monkeypatch: pytest.MonkeyPatch, cgroup: Path) -> None:
    (cgroup.parent / "memtierd-y").mkdir()
    machine = Machine([], [], 0)
    assert end(monkeypatch, machine, cgroup) == []
    assert (machine.killed, machine.waited) == ([], 0)
    assert os.listdir(cgroup.parent) == ["memtierd-y"]


def test_kernel_write_returns_whether_it_succeeded(tmp_path: Path) -> None:
    file = tmp_path / "cgroup.kill"
    assert not processes.try_write(str(file), "1")
    file.touch()
    assert processes.try_write(str(file), "1")
    assert file.read_bytes() == b"1"


def test_memtierd_is_supervised_while_supervisor_and_memtierd_live() -> None:
    begun = [start_time("/proc", pid) for pid in (os.getpid(), os.getppid())]
    supervisor, child = [os.getpid(), begun[0]], [os.getppid(), begun[1]]
    other = [os.getppid(), (begun[1] or 0) + 1]
    for named, alive, memtierd, is_attended in (
        ([supervisor, child], [supervisor[0], child[0]], [child[0]], True),
        ([supervisor], [supervisor[0]], [], False),
        ([supervisor, other], [supervisor[0]], [], False),
        ([other, supervisor], [supervisor[0]], [supervisor[0]], False),
        ([], [], [], False),
    ):
        folder: Any = Folder(*named)
        assert (living(folder), memtierd_of(folder), attended(folder)) == (alive, memtierd, is_attended)
    earlier: Any = Folder(supervisor, child, boot="another")
    assert living(earlier) == []
