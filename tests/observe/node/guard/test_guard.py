"""The guard at work on a made-up node: what it writes, what it never writes, and what stands after it."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Host, always
from hosts.faults import failing

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.instance import only_instance
from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.restored import Restored
from resctrl_hooks.errors import HookError
from resctrl_hooks.observe.node.guard import lease as lease_module
from resctrl_hooks.observe.node.guard.actuator import Mount
from resctrl_hooks.observe.node.guard.changes import restore
from resctrl_hooks.observe.node.guard.law import BLIND, REPORT
from resctrl_hooks.observe.node.guard.lease import LOCK, Lease
from resctrl_hooks.observe.node.guard.recovery import restore_ended
from resctrl_hooks.observe.node.guard.section import OBSERVE
from resctrl_hooks.observe.node.guard.status import NAME, event_text

from .node import FULL, GB, Node

CALM = {"gold": 5.0, "silver": 1.0, "bronze": 1.0}


class Killed(BaseException):
    """SIGKILL in the middle of a write."""


def declared(node: Node) -> bool:
    return all(node.limit(name) == f"MB:0={node.most}" for name in ("", "gold", "silver", "bronze"))


def of_ended_guard(context: Context) -> Restored:
    return restore_ended(context)


@contextlib.contextmanager
def running(host: Host) -> Iterator[None]:
    """Hold the guard's lock as its process does; /proc does not show that process."""
    lock = only_instance(f"{host.state}/{LOCK}")
    try:
        yield
    finally:
        os.close(lock)


def test_full_domain_lowers_the_first_class_only(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(), FULL, 6)
    assert node.fs.writes == [("bronze", "MB:0=90")]
    assert node.limit("gold") == node.limit("") == "MB:0=100"
    assert "guard lowered MB of class bronze on memory domain 0 from 100 to 90 (per cent): load 95%" in node.lines


def test_status_has_every_action(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(), FULL, 8)
    status = json.loads((host.state / NAME).read_text())
    assert (host.state / NAME).stat().st_mode & 0o777 == 0o600
    assert status["actions"] == {"lower": 2}
    first, second = status["events"]
    assert (first["domain"], first["action"], first["class"]) == ("0", "lower", "bronze")
    assert [(event["old"], event["new"]) for event in (first, second)] == [(100, 90), (90, 70)]
    domain = status["domains"]["0"]
    assert domain["last"] == {name: value for name, value in second.items() if name != "domain"}
    assert domain["classes"]["bronze"]["now"] == 70
    assert status["throttledSeconds"]["bronze"] > 1


def test_observe_writes_nothing_and_says_what_it_would_do(host: Host) -> None:
    node = Node(host, mode="observe")
    node.pass_time(node.guard(), FULL, 60)
    assert node.fs.writes == []
    assert not (host.state / "guard-lease.json").exists()
    assert "guard would lower MB of class bronze on memory domain 0 from 100 to 90 (per cent): load 95%" in node.lines
    events = json.loads((host.state / NAME).read_text())["events"]
    (report,) = [event_text(event, OBSERVE, "per cent") for event in events if event["action"] == REPORT]
    assert "memory domain 0 would be exhausted if lowering had no effect: load 95%" in report
    assert f"guard: {report}" in node.lines


@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("number", range(1, 9))
def test_killed_guard_is_repaired_by_reconcile(host: Host, number: int, *, after: bool) -> None:
    node = Node(host)
    writes: list[str] = []

    def die(path: str) -> None:
        writes.append(path)
        if len(writes) == number:
            raise Killed

    setattr(node.fs, "after" if after else "before", die)
    guard = node.guard(pid=999_999)  # a process that has ended by the time of the reconcile
    with pytest.raises(Killed):
        node.pass_time(guard, FULL, 200)
    setattr(node.fs, "after" if after else "before", lambda _: None)
    context = node.context()
    restored = of_ended_guard(context)
    assert not restored.failed + restored.foreign
    assert declared(node)
    assert not (host.state / "guard-lease.json").exists()
    assert of_ended_guard(context).done == []


def test_turn_of_an_rmid_costs_one_sample_and_no_write(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    node.fs.writes.clear()
    for turn in range(5):
        path = node.root / "silver/mon_data/mon_L3_00/mbm_total_bytes"
        node.count("silver", 0, max(0, int(path.read_text()) - 60_000_000_000))  # a group is removed with its count
        node.now += 1
        guard.sample(node.now)
        assert f'"invalidSamples": {turn + 1}' in (host.state / NAME).read_text()
        node.pass_time(guard, {"gold": 20.0, "silver": 20.0, "bronze": 40.0}, 3)
    assert node.fs.writes == []
    assert node.limit("bronze") == "MB:0=90"


def test_release_restores_before_the_lease_is_removed(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(), FULL, 6)
    assert node.limit("bronze") == "MB:0=90"
    done = release_everything(node.context())
    assert done.restored == ["class bronze, domain 0: MB 90 -> 100"]
    assert not done.problems
    assert declared(node)
    assert not (host.state / "guard-lease.json").exists()


def test_lease_of_running_guard_is_left_alone_by_reconcile(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(pid=100), FULL, 6)
    with running(host):
        report = reconcile(node.context())
        assert (report.number("repaired"), [*report.events["problem"]], report.events["failed"]) == (0, [], {})
        assert node.limit("bronze") == "MB:0=90"
    assert reconcile(node.context()).number("repaired") == 1
    assert declared(node)


def test_value_of_other_program_is_kept_until_restart(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    (node.root / "bronze/schemata").write_text("MB:0=70\n")
    node.pass_time(guard, FULL, 60)
    assert node.limit("bronze") == "MB:0=70"
    assert any("another program changed MB of class bronze" in line for line in node.lines)
    assert {name for name, _ in node.fs.writes[1:]} == {"silver"}
    guard.end()
    assert node.limit("bronze") == "MB:0=70"
    assert node.limit("silver") == "MB:0=100"


def test_value_changed_before_first_cut_is_kept(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    (node.root / "bronze/schemata").write_text("MB:0=70\n")
    node.pass_time(guard, FULL, 20)
    assert node.limit("bronze") == "MB:0=70"


def test_removed_class_is_dropped_by_guard(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    shutil.rmtree(node.root / "bronze")
    node.pass_time(guard, {"gold": 20.0, "silver": 75.0}, 20)
    guard.end()
    assert node.limit("silver") == "MB:0=100"
    assert not (node.root / "bronze").exists()


def test_remounted_resctrl_keeps_its_own_values(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 12)
    for name in ("silver", "bronze"):
        shutil.rmtree(node.root / name)
        node.add_class(name)
    before = len(node.fs.writes)
    guard.end()
    assert len(node.fs.writes) == before
    assert declared(node)


@pytest.mark.parametrize("value", ["Unavailable", "Unassigned", "Error", ""])
def test_missing_counter_value_stops_writes_and_restores(host: Host, value: str) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    node.fs.writes.clear()
    for _ in range(20):
        node.now += 1
        node.count("silver", 0, value)
        guard.sample(node.now)
    assert node.fs.writes == [("bronze", "MB:0=100")]
    assert f'"state": "{BLIND}"' in (host.state / NAME).read_text()


def test_load_is_a_lower_bound_beside_a_group_without_an_assigned_counter(host: Host) -> None:
    node = Node(host)
    (node.root / "info/L3_MON").mkdir()
    (node.root / "mbm_L3_assignments").write_text("mbm_total_bytes:0=e\nmbm_local_bytes:0=e\n")
    guard = node.guard()
    node.pass_time(guard, CALM, 2)
    assert '"estimated": false' in (host.state / NAME).read_text()
    group = node.root / "bronze/mon_groups/pod"
    group.mkdir()
    (group / "mbm_L3_assignments").write_text("mbm_total_bytes:0=_\nmbm_local_bytes:0=_\n")
    node.pass_time(guard, FULL, 20)
    assert node.fs.writes[0] == ("bronze", "MB:0=90")
    assert '"estimated": true' in (host.state / NAME).read_text()


def test_domain_without_a_capacity_is_never_limited(host: Host) -> None:
    node = Node(host, capacity="0")
    node.pass_time(node.guard(), FULL, 30)
    assert node.fs.writes == []
    assert any("no monitoring.capacity for memory domain 0" in line for line in node.lines)


def test_mount_with_mbps_is_only_observed(host: Host) -> None:
    node = Node(host)
    (node.root / "schemata").write_text("MB:0=4294967295\n")
    node.pass_time(node.guard(), FULL, 30)
    assert node.fs.writes == []
    assert any("guard only observes: resctrl is mounted with mba_MBps" in line for line in node.lines)


def test_arm_mount_is_only_observed(host: Host) -> None:
    resctrl = Node(host).context().monitor.resctrl
    assert Mount(resctrl, "aarch64").observe_only == "the effect of MB values is unknown on Arm (MPAM)"
    assert Mount(resctrl, "x86_64").observe_only == ""


def test_amd_floor_in_per_cent_is_of_the_capacity(host: Host) -> None:
    mount = Mount(Node(host, amd=True).context().monitor.resctrl)
    assert mount.floor_of(20, 100e9) == 160, "20 GB/s in 1/8 GB/s"
    assert mount.floor_of("2GBps", 100e9) == 16
    assert mount.floor_of(20, 0) == 1, "without a capacity per cent cannot be converted"


def test_amd_limit_starts_at_the_measured_rate(host: Host) -> None:
    node = Node(host, amd=True)
    node.pass_time(node.guard(), FULL, 6)
    assert node.fs.writes == [("bronze", f"MB:0={int(55e9 / 125e6 * 0.8)}")]


def test_unknown_topology_of_several_caches_is_only_observed(host: Host) -> None:
    node = Node(host, l3=(0, 1))
    guard = node.guard()
    node.pass_time(guard, FULL, 20)
    assert (guard.mode, node.fs.writes) == ("observe", [])
    assert any("guard only observes: the topology is unreadable" in line for line in node.lines)
    assert "the topology is unreadable" in json.loads((host.state / NAME).read_text())["why"]


def test_spread_load_of_caches_declared_as_numa_nodes_is_one_load(host: Host) -> None:
    node = Node(host, l3=tuple(range(8)), amd=True)
    nodes = [MemoryNode(number, 1 << number, {}, 1, UNKNOWN) for number in range(8)]
    topology = Topology(0xFF, [], l3={number: 1 << number for number in range(8)}, nodes=nodes)
    guard = node.guard(topology=topology)
    for second in range(1, 8):
        for number in range(8):
            for name, each in (("gold", 2), ("bronze", 10)):
                node.count(name, number, second * each * GB)
        guard.sample(float(second))
    (domain,) = json.loads((host.state / NAME).read_text())["domains"].values()
    assert domain["load"] == pytest.approx(0.96)
    parts = [int(part.partition("=")[2]) for part in node.limit("bronze").removeprefix("MB:").split(";")]
    assert max(parts) < 2048
    floor = domain["classes"]["bronze"]["floor"]
    assert min(parts) >= floor // 8 > 1


def test_per_cent_are_the_same_on_all_caches_of_one_memory(host: Host) -> None:
    node = Node(host, l3=(0, 1))
    topology = Topology(0b1111, [1, 2, 4, 8], l3={0: 0b11, 1: 0b1100}, nodes=[MemoryNode(0, 0b1111, {}, 1, UNKNOWN)])
    guard = node.guard(topology=topology)
    node.pass_time(guard, FULL, 6)
    assert node.fs.writes == [("bronze", "MB:0=90;1=90")]
    guard.end()
    assert node.limit("bronze") == "MB:0=100;1=100"


def test_lease_of_an_earlier_boot_is_removed(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(pid=999_999), FULL, 6)
    boot = host.proc / "sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True, exist_ok=True)
    boot.write_text("another\n")
    assert not Lease(str(host.state), str(host.proc)).load()
    assert of_ended_guard(node.context()).done == []
    assert not (host.state / "guard-lease.json").exists()
    assert not Lease(str(host.state), str(host.proc)).load()
    assert node.limit("bronze") == "MB:0=90"


@pytest.mark.parametrize("floor, least", [(25, 30), (15, 20)])
def test_floor_is_rounded_as_the_kernel_rounds_and_restored(host: Host, floor: int, least: int) -> None:
    node = Node(host, floor=floor)
    guard = node.guard()
    node.pass_time(guard, {"gold": 39.0, "silver": 1.0, "bronze": 55.0}, 60)
    assert node.limit("bronze") == f"MB:0={least}"
    assert not any("another program" in line for line in node.lines)
    node.pass_time(guard, CALM, 400)
    assert declared(node)
    node.pass_time(guard, FULL, 60)
    assert guard.end()
    assert declared(node)


def test_value_that_the_kernel_changed_is_the_one_in_effect(host: Host) -> None:
    node = Node(host)
    node.fs.step = 20  # bandwidth_gran says 10: whatever the kernel does, what is read back counts
    guard = node.guard()
    node.pass_time(guard, FULL, 2)
    for _ in range(30):
        node.pass_time(guard, FULL, 1)
        limit = int(node.limit("bronze").removeprefix("MB:0="))
        status = json.loads((host.state / NAME).read_text())["domains"]["0"]
        assert status["classes"]["bronze"]["now"] == limit
    assert limit < 100
    assert not any("another program" in line for line in node.lines)
    lease = Lease(str(host.state), str(host.proc))
    assert guard.end()
    assert declared(node)
    assert not os.path.exists(lease.path)


def test_unreadable_value_is_not_another_programs(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    node.fs.unreadable = {"bronze"}
    node.pass_time(guard, FULL, 4)
    assert node.limit("bronze") == "MB:0=90"
    node.fs.unreadable = set()
    node.pass_time(guard, FULL, 4)
    assert int(node.limit("bronze").removeprefix("MB:0=")) < 90


def test_write_that_failed_once_is_tried_again(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    failures = [OSError(24, "Too many open files", "/x")]

    def fail_once(_: str) -> None:
        if failures:
            raise failures.pop()

    node.fs.before = fail_once
    node.pass_time(guard, FULL, 12)
    assert not failures
    assert int(node.limit("bronze").removeprefix("MB:0=")) < 90
    assert not any("another program" in line for line in node.lines)


def test_guard_without_a_boot_id_does_not_start(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(host)
    monkeypatch.setattr(lease_module, "boot_id", always(""))
    with pytest.raises(HookError, match="cannot read this boot's id"):
        node.guard()


OPERATIONS = {"lease": "read_file", "boot id": "boot_id"}


@pytest.mark.parametrize("what", ["schemata", "lease", "boot id", "no boot id"])
def test_lease_stays_while_a_read_fails(host: Host, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    node = Node(host)
    node.pass_time(node.guard(pid=999_999), FULL, 6)
    context = node.context()
    path = host.state / "guard-lease.json"
    with monkeypatch.context() as patch, contextlib.ExitStack() as faults:
        if what == "schemata":
            node.fs.unreadable = {"bronze"}
        elif what == "no boot id":
            patch.setattr(lease_module, "boot_id", always(""))
        else:
            faults.enter_context(failing(lease_module, OPERATIONS[what], OSError(24, "Too many open files", "/x")))
        try:
            failed = of_ended_guard(context).failed
        except HookError as raised:
            failed = [str(raised)]
        assert failed
        assert path.exists()
        assert node.limit("bronze") == "MB:0=90"
    node.fs.unreadable = set()
    assert of_ended_guard(context).done == ["class bronze, domain 0: MB 90 -> 100"]
    assert not path.exists()


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"pid": 1}', b'{"pid":1,"start":2,"boot":"x","declared":[],"ours":{}}']
)
def test_damaged_lease_stays_and_is_reported_each_time(host: Host, content: bytes) -> None:
    node = Node(host)
    node.pass_time(node.guard(pid=999_999), FULL, 6)
    path = host.state / "guard-lease.json"
    path.write_bytes(content)
    for _ in range(2):  # else the second would take the lowered values for declared ones
        (problem,) = of_ended_guard(node.context()).failed
        assert f"{path} is damaged" in problem
        assert path.read_bytes() == content


def test_release_beside_a_running_guard_changes_nothing(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(pid=100), FULL, 6)
    with running(host):
        done = release_everything(node.context())
    assert any(f"another instance is running, process {os.getpid()}; stop it" in line for line in done.problems)
    assert node.limit("bronze") == "MB:0=90"
    assert (host.state / "guard-lease.json").exists()


def test_refused_restoration_keeps_the_lease(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(pid=999_999), FULL, 6)

    def refuse(path: str) -> None:
        raise OSError(22, "Invalid argument", path)

    node.fs.before = refuse
    context = node.context()
    lease = Lease(str(host.state), str(host.proc))
    assert lease.load()
    assert restore(context.monitor.resctrl, lease).failed
    assert Path(lease.path).exists()
    assert os.stat(lease.path).st_mode & 0o777 == 0o600
