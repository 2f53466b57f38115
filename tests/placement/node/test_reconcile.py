"""Placement in reconcile: unplaced containers, undone values, offline CPUs."""

from typing import Any

from conftest import UID
from hosts.faults import Fail
from hosts.machines import machine, write_sysfs
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.placement.node.allocations import Book


def test_reconcile_places_unseen_containers(node: PlacedHost) -> None:
    node.place()
    node.start("hooked", 500)
    node.run_unseen("late", 2000, **{CPUS: "exclusive"})
    node.run_unseen("sandbox", 0, **{"io.kubernetes.cri-o.ContainerType": "sandbox"})
    del node.pids["sandbox"]
    dry = reconcile(node.host.context(), Options(dry_run=True))
    assert ([*dry.events["placed"]], node.cpus("late")) == ([id_of("late")], "")
    report = reconcile(node.host.context())
    assert [*report.events["problem"]] == []
    assert not report.events["failed"]
    assert [*report.events["placed"]] == [id_of("late")]
    assert "running containers placed" in report.as_text()
    assert (node.cpus("late"), node.cpus("hooked")) == ("0,16", "1-3,17-19")
    node.assert_sound()
    assert [*reconcile(node.host.context()).events["placed"]] == []
    node.stop("late")
    assert node.cpus("hooked") == "0-3,16-19"
    assert node.host.context().ledger.containers() == [id_of("hooked")]


def test_container_recorded_before_placement_was_enabled_is_placed(node: PlacedHost) -> None:
    node.host.configure(sysPath=node.sys, runtimeRoots={"crun": str(node.host.root / "crun")})
    told = node.run_unseen("early", 500)
    assert node.host.call(told).code == 0
    node.place(monitoring=True)
    assert [*reconcile(node.host.context()).events["placed"]] == [id_of("early")]
    record = node.host.context().ledger.read_member(UID, id_of("early"))
    assert record is not None
    assert [step["feature"] for step in record["steps"]] == ["monitoring", "placement"]
    assert node.cpus("early") == "0-3,16-19"
    assert [*reconcile(node.host.context()).events["placed"]] == []


def test_reconcile_avoids_kubelet_cpu_manager(node: PlacedHost) -> None:
    node.run_unseen("late", 500)
    node.kubelet()
    report = reconcile(node.host.context())
    assert [*report.events["placed"]] == []
    assert "placement is inactive" in report.events["failed"]["placement"]
    assert node.cpus("late") == ""


def test_request_of_one_container_does_not_stop_reconcile(node: PlacedHost, fail: Fail) -> None:
    node.start("dead", 1000)
    node.die("dead")
    node.run_unseen("odd", 500, **{CPUS: "exclusive:²"})
    node.run_unseen("late", 500)
    reconcile(node.host.context())
    assert node.cpus("odd") == node.cpus("late") == "0-3,16-19"
    assert id_of("dead") not in Book(node.host.context()).entries
    node.run_unseen("broken")
    node.run_unseen("last")

    def broken(workload: Workload, *_rest: Any, **_named: Any) -> bool:
        return workload.id == id_of("broken")

    for module in ("reconcile", "placing"):
        fail(f"resctrl_hooks.placement.node.{module}", "steps_for", KeyError("nothing"), when=broken)
    report = reconcile(node.host.context())
    ((which, why),) = report.events["failed"].items()
    assert which == id_of("broken")
    assert "internal error in resctrl-hook: KeyError: 'nothing' in faults.py:" in why
    assert node.cpus("last") == "0-3,16-19"


def test_unreadable_record_does_not_stop_reconcile(node: PlacedHost) -> None:
    node.start("broken", 500)
    node.start("good", 500)
    record = node.host.state / "pods" / UID / f"c-{id_of('broken')}"
    record.unlink()
    record.mkdir()
    node.run_unseen("late", 500)
    report = reconcile(node.host.context())
    assert any("Is a directory (EISDIR)" in problem for problem in report.events["problem"])
    assert node.cpus("late") == "0-3,16-19"


def test_container_with_own_cgroups_is_placed_in_its_own_cgroup(node: PlacedHost) -> None:
    node.run_unseen("late", 500)
    pid = node.pids["late"]
    node.host.process(pid, f"/kubepods/pod{UID}/crio-{id_of('late')}/init.scope", start=pid)
    reconcile(node.host.context())
    assert node.cpus("late") == "0-3,16-19"
    (node.host.state / "placement").unlink()
    (node.folder("late") / "cpuset.cpus").write_text("")
    reconcile(node.host.context())  # from the record now
    assert node.cpus("late") == "0-3,16-19"
    assert list((node.folder("late") / "init.scope").iterdir()) == []


def take_offline(node: PlacedHost, cpus: str) -> None:
    write_sysfs(machine(2, 1, 2, 4, 2, offline=parse_list(cpus)), node.host.root / "sys")


def test_missing_shared_cpus_are_reported(node: PlacedHost) -> None:
    node.start("a", 500)
    node.start("own", 2000, **{CPUS: "exclusive"})
    assert node.cpus("own") == "0,16"
    take_offline(node, "1-15,17-31")
    report = reconcile(node.host.context())
    assert (
        "no shared CPUs left: 1 containers run on exclusive CPUs of other containers"
        in report.events["failed"]["placement"]
    )
    assert not report.ok
    assert (node.cpus("a"), node.cpus("own")) == ("0,16", "0,16")
    log = node.start("b", 500)
    assert "no shared CPUs left: all are offline, isolated, reserved or exclusive" in log
    take_offline(node, "31")
    assert reconcile(node.host.context()).ok
    assert (node.cpus("a"), node.cpus("own")) == ("1-3,17-19", "0,16")
    node.assert_sound()


def test_reserved_cpus_are_shared_before_exclusive_ones(node: PlacedHost) -> None:
    node.place(reservedCpus="31")
    node.start("a", 500)
    node.start("own", 2000, **{CPUS: "exclusive"})
    take_offline(node, "1-15,17-30")
    assert "1 containers run on reserved CPUs" in reconcile(node.host.context()).events["failed"]["placement"]
    assert (node.cpus("a"), node.cpus("own")) == ("31", "0,16")


def test_container_without_its_exclusive_cpus_gets_others(node: PlacedHost) -> None:
    node.start("a", 500)
    node.start("own", 2000, **{CPUS: "exclusive"})
    take_offline(node, "0,16")
    assert reconcile(node.host.context()).ok
    assert node.cpus("own") == "1,17"
    assert node.cpus("a") == "2-3,18-19"
    node.assert_sound()
