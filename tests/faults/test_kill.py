"""The hook killed, or refused by the kernel, at each of its system calls in turn: one reconcile repairs everything.

strace does the killing. Calls before the launcher opens the compiled node half are left out, because nothing has
happened by then.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host, crio_annotations
from hosts import crun
from hosts.traced_hook import TracedHook

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resctrl_hooks.core.node.reconcile.report import Report

pytestmark = pytest.mark.no_cover
ID = "d" * 64
UID = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c05"
GROUP = f"mon_groups/{UID}"
# Calls that the kernel never refuses; their results are ignored.
INFALLIBLE = ("getpid", "geteuid")
KILL = "signal=KILL"
ERRNOS = ("ENOSPC", "EIO", "EACCES", "EBUSY", "EROFS")
INTERRUPTIONS = pytest.mark.parametrize("injected", [KILL, *(f"error={errno}" for errno in ERRNOS)])
"""What strace does to a call."""


class Stage:
    """A host with one container of a pod, as it is when a stage's hook is called."""

    def __init__(self, host: Host, process: subprocess.Popen[bytes]) -> None:
        self.host = host
        self.process = process
        self.traced = TracedHook(host, follow=True)
        self.cgroup = host.cgroup / f"kubepods/pod{UID}" / f"crio-{ID}"
        self.bundle = host.bundle({"annotations": crio_annotations(UID), "linux": {"cgroupsPath": f"/x/crio-{ID}"}})

    def state(self, status: str) -> dict[str, Any]:
        pid = self.process.pid if status == "created" else 0
        return {"id": ID, "status": status, "pid": pid, "bundle": self.bundle, "annotations": crio_annotations(UID)}

    def runs(self) -> None:
        """The runtime goes on: the container is in its state folder."""
        crun.record(self.host.root / "crun", ID, self.process.pid, self.bundle)

    def has_ended(self) -> None:
        """The runtime has deleted it."""
        (self.host.root / "crun" / ID / "status").unlink(missing_ok=True)

    def hook(self, status: str, *injection: str) -> subprocess.CompletedProcess[bytes]:
        return self.traced.run(self.state(status), *injection)

    def reconcile(self, live: set[str] | None = None) -> Report:
        return reconcile(self.host.context(), Options(live=live))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    # The cgroup tree is made up and /proc is real, so no /proc/pid/cgroup names the container's cgroup: the last
    # member's end ends the pod.
    host = Host(tmp_path, real_proc=True, runtimeRoots={"crun": str(tmp_path / "crun")})
    stage = Stage(host, subprocess.Popen(["sleep", "1000"]))
    try:
        yield stage
    finally:
        stage.process.kill()
        stage.process.wait()


def calls(stage: Stage, status: str, injected: str) -> list[tuple[str, int]]:
    """Return every system call of a stage after the launcher began: its name, and its number of that name."""
    assert stage.hook(status).returncode == 0
    found = [(call.name, call.number) for call in stage.traced.calls()]
    assert len(found) > 50
    return [call for call in found if injected == KILL or call[0] not in INFALLIBLE]


def interrupt(stage: Stage, status: str, name: str, number: int, injected: str) -> None:
    """Run a stage's hook that is killed at a call or gets an error from it; the container starts or ends anyhow."""
    done = stage.hook(status, f"--inject={name}:{injected}:when={number}")
    assert done.returncode == 0, (name, number, done.stderr)
    assert stage.traced.was_killed if injected == KILL else stage.traced.was_refused, (name, number)
    assert b"Traceback" not in done.stderr, (name, number, done.stderr)


def clean(stage: Stage) -> None:
    """Take everything back, as if there had never been a hook on this host."""
    stage.has_ended()
    assert stage.reconcile(live=set()).ok
    assert stage.host.groups() == []
    assert stage.host.records() == []
    shutil.rmtree(stage.host.state.parent, ignore_errors=True)


def assert_in_its_group(stage: Stage) -> None:
    assert stage.host.groups() == [GROUP]
    assert stage.process.pid in stage.host.tasks(GROUP)
    assert stage.host.records().count(f"pods/{UID}/c-{ID}") == 1


@INTERRUPTIONS
def test_create_runtime_interrupted_anywhere_is_repaired_by_one_reconcile(stage: Stage, injected: str) -> None:
    points = calls(stage, "created", injected)
    clean(stage)
    for name, number in points:
        interrupt(stage, "created", name, number, injected)
        stage.runs()
        report = stage.reconcile()
        assert report.ok, (name, number, report.as_text())
        assert_in_its_group(stage)
        assert not stage.reconcile().changed
        clean(stage)
    print(f"createRuntime: {len(points)} calls with {injected}")


class Ended:
    """A container whose poststop is still to come, as often as one likes."""

    def __init__(self, stage: Stage) -> None:
        assert stage.hook("created").returncode == 0
        stage.process.kill()
        stage.process.wait()
        saved = stage.host.root / "saved"
        self._saved = {path: saved / path.name for path in (stage.host.state, stage.host.resctrl)}
        for path, copy in self._saved.items():
            shutil.copytree(path, copy, symlinks=True)

    def again(self) -> None:
        """Everything as it was when it had ended."""
        for path, copy in self._saved.items():
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(copy, path, symlinks=True)


@INTERRUPTIONS
def test_poststop_interrupted_anywhere_is_repaired_by_one_reconcile(stage: Stage, injected: str) -> None:
    ended = Ended(stage)
    points = calls(stage, "stopped", injected)
    assert (stage.host.groups(), stage.host.records()) == ([], [])
    for name, number in points:
        ended.again()
        interrupt(stage, "stopped", name, number, injected)
        report = stage.reconcile()
        assert report.ok, (name, number, report.as_text())
        assert (stage.host.groups(), stage.host.records()) == ([], []), (name, number)
    print(f"poststop: {len(points)} calls with {injected}")
