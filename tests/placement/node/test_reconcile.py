"""Placement in reconcile: unplaced containers, undone values, offline CPUs."""

import contextlib
from typing import Any

import pytest
from conftest import UID, Host
from hosts.cpufreq import FAST_VALUES, ClassHost, on
from hosts.faults import Fail, failing
from hosts.no_answer import no_answer
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node import allocations, kubelet, node_values, others
from resctrl_hooks.placement.node.allocations import Book


def test_container_recorded_before_placement_was_enabled_is_placed(node: PlacedHost) -> None:
    node.host.configure(sysPath=node.sys)
    told = node.run_unseen("early", 500)
    assert node.host.call(told).code == 0
    node.place(monitoring=True)
    assert [*reconcile(node.host.context()).events["placed"]] == [id_of("early")]
    record = node.host.context().ledger.read_member(UID, id_of("early"))
    assert record is not None
    assert [step["feature"] for step in record["steps"]] == ["monitoring", "placement"]
    assert node.cpus("early") == "0-3,16-19"
    assert [*reconcile(node.host.context()).events["placed"]] == []


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


# A read that fails says nothing: neither that a CPU is free, nor that a value of the node is another's

__all__ = ("no_answer",)


@pytest.mark.parametrize("content", ["", "{", '{"boot": 1}'])
def test_damaged_record_of_previous_values_is_set_aside_with_one_line(host: Host, content: str) -> None:
    node = ClassHost(host)
    node.start("a", 500)
    record = host.state / "placement.cpus"
    record.write_text(content)
    for _ in range(2):
        assert reconcile(host.context()).ok
    assert (host.state / "placement.cpus.damaged").read_text() == content
    (line,) = [line for line in host.log.read_text().splitlines() if "set aside" in line]
    assert f"{record} is damaged (" in line
    assert "the previous values of CPU classes are lost, so those that are changed now stay until a reboot" in line


def test_previous_values_of_the_node_survive_a_record_that_cannot_be_read(host: Host, no_answer: OSError) -> None:
    node = ClassHost(host)
    node.start("a", 500)
    with failing(node_values, "read_file", no_answer):
        reconcile(host.context())
        node.start("b", 500)
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)
    for name in ("a", "b"):
        node.stop(name)
    assert reconcile(host.context()).ok
    assert node.cpufreq.changed() == {}


PLACEMENT: dict[str, tuple[Any, str]] = {
    "allocations and topology": (allocations, "read_file"),
    "online CPUs": (allocations, "kernel_text"),
    "kubelet's state": (kubelet, "read_file"),
    "folders of others": (others, "list_folder"),
    "/proc": (procfs, "read_kernel_file"),
    "records of containers": (Ledger, "read_member"),
}
"""Reads of placement in a pass of reconcile: each one's owner and name."""


@pytest.mark.parametrize("operation", PLACEMENT.values(), ids=PLACEMENT)
def test_exclusive_cpus_stay_while_placement_cannot_read(
    host: Host, operation: tuple[Any, str], no_answer: OSError
) -> None:
    node = PlacedHost(host)
    (host.root / "kubelet").mkdir()
    (host.root / "kubelet/cpu_manager_state").write_text('{"policyName": "none"}')
    node.start("gold", 4000, **{CPUS: "exclusive"})
    node.start("bronze", 500)
    before = {name: node.cpus(name) for name in ("gold", "bronze")}
    assert parse_list(before["gold"]).bit_count() == 4
    asked: list[Any] = []
    context = host.context()

    def ask(*words: Any, **_: Any) -> bool:
        asked.append(words)
        return True

    with failing(*operation, no_answer, when=ask), contextlib.suppress(HookError):
        reconcile(context)
    assert asked
    assert {name: node.cpus(name) for name in before} == before
    reconcile(host.context())
    assert {name: node.cpus(name) for name in before} == before
    node.start("new", 4000, **{CPUS: "exclusive"})
    assert not parse_list(node.cpus("new")) & parse_list(before["gold"])
