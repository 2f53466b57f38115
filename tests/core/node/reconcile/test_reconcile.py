"""The end-to-end behaviour of reconcile, counted in calls of functions too."""

from __future__ import annotations

import errno
import importlib.util
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, Host, crio_annotations
from hosts import crun
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.processes import headless_process, is_headless, wait_until

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.errors import HookError

HOUSES = ("lab",)


if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from hosts.faults import Fail


def test_dry_run_releases_only_dead_or_unwanted_pods(cluster: Cluster) -> None:
    cluster.start(1)
    dead, pid = cluster.start(2)
    cluster.kernel.end(pid)
    shutil.rmtree(cluster.root / "crun" / dead)
    said = cluster.reconcile(Options(wait=False, dry_run=True))
    assert (said.number("cleaned"), [*said.events["released"]]) == (1, [])
    said = cluster.reconcile(Options(wait=False, dry_run=True, live=set()))
    assert (said.number("cleaned"), [*said.events["released"]], said.number("freed")) == (2, [POD], 1)
    assert cluster.kernel.groups() == {("", POD)}


def test_dry_run_reports_what_a_real_run_does(cluster: Cluster) -> None:
    cluster.unseen(1, threads=2)
    cluster.start(2, pod_number(2))
    cluster.kernel.end(cluster.kernel.spawn("/x"))
    dead, other = cluster.start(3, pod_number(3))
    cluster.kernel.end(other)
    cluster.end_pod(pod_number(3))
    before = (cluster.kernel.groups(), cluster.host.records())
    said = cluster.reconcile(Options(dry_run=True))
    assert (cluster.kernel.groups(), cluster.host.records()) == before
    done = cluster.reconcile()
    for name in ("adopted", "moved", "released", "freed", "cleaned"):
        assert (said.events[name], said.number(name)) == (done.events[name], done.number(name)), name
    assert (said.dry_run, dead in said.as_text()) == (True, False)


@pytest.mark.parametrize(
    "key, hooked", [(ID, False), pytest.param(POD, True, marks=pytest.mark.ci)], ids=["without a pod", "pod"]
)
def test_container_without_main_thread_keeps_its_group_until_its_last_thread_ends(
    tmp_path: Path, key: str, *, hooked: bool
) -> None:
    host = Host(tmp_path, real_proc=True, runtimeRoots={"crun": str(tmp_path / "crun")})
    config = {"annotations": crio_annotations(POD) if key == POD else {}, "linux": {}}
    group = f"mon_groups/{key}"
    with headless_process(1) as process:
        bundle = host.bundle(config)
        crun.record(tmp_path / "crun", ID, process.pid, bundle)
        if hooked:
            assert host.call({"id": ID, "status": "created", "pid": process.pid, "bundle": bundle, **config}).code == 0
        wait_until(lambda: is_headless(process.pid), "its main thread has ended")
        for _ in range(3):
            report = reconcile(host.context(), NOW)
            assert (report.ok, report.number("containers"), [*report.events["released"]], report.number("cleaned")) == (
                True,
                1,
                [],
                0,
            )
            assert host.groups() == [group]
            assert host.tasks(group)
            with host.context().monitor.hold(key) as locked:
                assert not locked.member_is_dead(ID)
        assert not report.changed
    report = reconcile(host.context(), NOW)
    assert (report.ok, [*report.events["released"]], host.groups(), host.records()) == (True, [key], [], [])


def test_unreadable_runtime_folder_is_reported(host: Host, fail: Fail) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/run/runc")
    fail("resctrl_hooks.core.node.container.runtimes", "list_folder", denied)
    with pytest.raises(HookError, match=r"cannot read .*/run/runc, the runtime's state directory: .*\(EACCES\)"):
        reconcile(host.context())


def test_pass_with_changes_logs_one_line_and_others_none(cluster: Cluster) -> None:
    cluster.unseen(1)
    report = cluster.reconcile()
    assert report.number("containers") == 1
    assert cluster.host.log.read_text().count(report.as_line()) == 1
    before = cluster.host.log.read_text()
    assert not cluster.reconcile().changed
    assert cluster.host.log.read_text() == before


@pytest.mark.parametrize("jump", [86400.0, -86400.0])
def test_clock_jump_of_a_day_loses_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    """CLOCK_REALTIME is only shown as the time of a record; no decision depends on it."""
    _, first = cluster.start(1)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + jump)
    assert [*cluster.reconcile().events["released"]] == []
    _, second = cluster.start(2, pod_number(2))
    for pid, pod in ((first, POD), (second, pod_number(2))):
        assert cluster.groups_of(pid) == {("", pod)}
    monkeypatch.setattr(time, "time", clock)
    report = cluster.reconcile()
    assert (report.ok, [*report.events["released"]], report.number("moved")) == (True, [], 0)
    cluster.kernel.end(first)
    cluster.end_pod()
    assert [*cluster.reconcile().events["released"]] == [POD]


BENCH = Path(__file__).parents[3] / "lab/bench/reconcile.py"
SIZES = (20, 40, 80)
ABOUT = 0.02
"""Tolerance of linearity: constant work counts more for few containers."""
SYSTEM_CALLS = 14
"""For each container, alone in its pod, with one thread."""


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_reconcile", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH.parent)  # for the bench's own imports
        spec.loader.exec_module(module)
    return module


def calls_of(host: Any, module: str = "") -> int:
    """Return how many functions one reconcile calls, those in C included; only those of a C module, if one is named."""
    context = host.context
    count = 0

    def see(_frame: FrameType, event: str, called: object) -> None:
        nonlocal count
        if module:
            count += event == "c_call" and getattr(called, "__module__", "") == module
        else:
            count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        report = reconcile(context, Options(wait=False))
    finally:
        sys.setprofile(before)
    assert report.ok
    assert not report.changed
    return count


@pytest.mark.ci
def test_doubled_containers_double_system_calls(tmp_path: Path) -> None:
    hosts = bench().Host
    few, some, many = (calls_of(hosts(tmp_path / str(size), size)) for size in SIZES)
    assert few > 0
    first, second = some - few, many - some
    assert abs(second / first - 2) < 2 * ABOUT, (few, some, many)


def test_reconcile_that_changes_nothing_makes_few_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = bench()
    monkeypatch.setattr(module, "PER_POD", 1)
    few, many = (calls_of(module.Host(tmp_path / str(size), size), "posix") for size in SIZES[:2])
    assert many - few <= SYSTEM_CALLS * (SIZES[1] - SIZES[0])
