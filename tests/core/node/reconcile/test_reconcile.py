"""Reconcile on a made-up host whose resctrl is the simulation's model: adoption, release, claims, what it leaves."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from conftest import ID, Host, crio_annotations
from hosts import crun
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.processes import headless_process, is_headless, wait_until

from resctrl_hooks.core.node.reconcile.command import read_live
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.errors import HookError

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.faults import Fail

HOUSES = ("lab",)


def test_unseen_container_is_adopted_with_all_threads_of_all_its_cgroups(cluster: Cluster) -> None:
    id_ = f"{1:064x}"
    own = f"/kubepods/pod{POD}/crio-{id_}"
    pid = cluster.kernel.spawn(f"{own}/init.scope", 3)
    service = cluster.kernel.spawn(f"{own}/system.slice/svc.service", 2)
    cluster.appear(id_, pid)
    report = cluster.reconcile()
    assert report.ok
    assert ([*report.events["adopted"]], report.number("moved")) == ([id_], 5)
    assert cluster.groups_of(pid) == cluster.groups_of(service) == {("", POD)}
    assert not cluster.reconcile().changed


def test_pod_without_containers_keeps_group_until_its_cgroup_ends(cluster: Cluster) -> None:
    cluster.end(*cluster.start(1))
    assert not cluster.reconcile().events["released"]
    assert cluster.kernel.groups() == {("", POD)}
    cluster.end_pod()
    assert [*cluster.reconcile().events["released"]] == [POD]
    assert (cluster.kernel.groups(), cluster.host.records()) == (set(), [])


def test_late_poststop_of_old_attempt_keeps_new_one(cluster: Cluster) -> None:
    attempts = []
    for number in range(5):
        id_, pid = cluster.start(number)
        attempts.append(id_)
        if number < 4:
            cluster.kernel.end(pid)
    before = cluster.kernel.groups()
    for id_ in attempts[:-1]:
        cluster.poststop(id_)
    assert cluster.kernel.groups() == before == {("", POD)}
    assert cluster.groups_of(pid) == {("", POD)}
    assert not cluster.reconcile().changed


def test_starting_member_is_seen_and_member_without_process_is_not(cluster: Cluster) -> None:
    id_, pid = cluster.spawn(1)
    cluster.hook(id_, pid)  # no runtime has it in its folder yet
    with cluster.context().monitor.hold(POD) as locked:
        locked.add_member("f" * 64, {"annotations": {}}, 0)
    assert cluster.reconcile().number("containers") == 1
    cluster.kernel.end(pid)
    assert cluster.reconcile().number("containers") == 0


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


def test_reboot_voids_every_record(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.start(2, pod_number(2))
    cluster.kernel.boot(2)
    shutil.rmtree(cluster.host.cgroup / "kubepods")
    report = cluster.reconcile()
    assert report.ok
    assert cluster.host.records() == []


@pytest.mark.parametrize("spelled", [POD, POD.upper(), POD.replace("-", "")])
def test_live_keys_of_caller_decide_liveness_in_any_spelling(cluster: Cluster, tmp_path: Path, spelled: str) -> None:
    cluster.start(1)
    cluster.start(2, pod_number(2))
    (tmp_path / "live").write_text(f"{spelled}\r\n")
    report = cluster.reconcile(Options(live=read_live(str(tmp_path / "live")), wait=False))
    assert [*report.events["released"]] == [pod_number(2)]
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


def test_unreadable_bundle_hides_no_other(cluster: Cluster) -> None:
    broken, _ = cluster.unseen(1, pod_number(1))
    (cluster.root / f"bundle-{broken[-8:]}" / "config.json").write_text("{")
    whole, _ = cluster.unseen(2)
    report = cluster.reconcile()
    assert ([*report.events["adopted"]], report.ok) == ([whole], False)
    assert broken in next(iter(report.events["problem"]))


def test_continuous_reconcile_removes_nothing_that_starts(tmp_path: Path) -> None:
    host = Host(tmp_path, real_proc=True, runtimeRoots={"crun": str(tmp_path / "crun")})
    processes = [subprocess.Popen(["sleep", "1000"]) for _ in range(100)]
    ended = threading.Event()
    reports = []

    def keep_reconciling() -> None:
        while not ended.is_set():
            reports.append(reconcile(host.context(), NOW))

    def start(number: int) -> int:
        id_, pid = f"{number:064x}", processes[number].pid
        config = {"annotations": crio_annotations(pod_number(number % 20)), "linux": {}}
        bundle = host.bundle(config, f"bundle-{number}")
        code = host.call({"id": id_, "status": "created", "pid": pid, "bundle": bundle, **config}, alone=True).code
        crun.record(tmp_path / "crun", id_, pid, bundle)
        return code

    loop = threading.Thread(target=keep_reconciling)
    loop.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(start, range(len(processes)))) == {0}
        ended.set()
        loop.join()
        assert len(reports) > 1
        assert not any([*report.events["released"]] or report.events["failed"] for report in reports)
        last = reconcile(host.context(), NOW)
        assert (last.ok, last.number("containers")) == (True, len(processes))
        for number, process in enumerate(processes):
            assert process.pid in host.tasks(f"mon_groups/{pod_number(number % 20)}")
        assert not list(host.state.glob("waiting/*"))
    finally:
        ended.set()
        loop.join()
        for process in processes:
            process.kill()
            process.wait()
    assert reconcile(host.context(), NOW).ok
    assert (host.groups(), host.records(), os.listdir(host.state / "pods")) == ([], [], [])


@pytest.mark.parametrize("key", [ID, POD], ids=["container without a pod cgroup", "pod"])
@pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "adopted"])
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


PARTS = (
    "_end_what_is_dead", "_claim", "refresh", "by_rank", "enforce", "take_turns", "correct_keys", "_count", "_place",
    "_end_orphans", "tidy",
)  # fmt: skip
CHANGING = {"refresh", "by_rank", "take_turns", "correct_keys", "tidy"}
"""Those that a dry run leaves out."""
ELSEWHERE = {"refresh": "turns", "by_rank": "turns", "take_turns": "turns"}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("claim", [False, True])
def test_releases_precede_admissions_and_each_part_has_its_turn(
    host: Host, monkeypatch: pytest.MonkeyPatch, shared: bool, dry_run: bool, claim: bool
) -> None:
    if shared:
        host.configure(monitoring={"share": {"interval": 60}})
    done: list[str] = []
    for name in PARTS:
        module = f"resctrl_hooks.core.node.reconcile.{ELSEWHERE.get(name, 'reconcile')}"

        def part(*_given: object, name: str = name) -> list[object]:
            done.append(name)
            return []

        monkeypatch.setattr(f"{module}.{name}", part)
    report = reconcile(host.context(), Options(dry_run=dry_run, claim=claim))
    left_out = (CHANGING if dry_run else set()) | (set() if claim else {"_claim"})
    left_out |= set() if shared else {"refresh", "by_rank", "take_turns"}
    assert done == [name for name in PARTS if name not in left_out]
    assert (report.dry_run, report.shared, report.number("containers")) == (dry_run, shared, 0)


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
