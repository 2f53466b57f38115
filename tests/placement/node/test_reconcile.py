"""Placement in reconcile: unplaced containers, undone values, offline CPUs."""

import contextlib
import errno
import json
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import BOOT, UID, Host
from hosts.cpufreq import FAST_VALUES, ClassHost, on
from hosts.faults import Fail, failing
from hosts.no_answer import no_answer
from hosts.placed import CPUS, MACHINE, PlacedHost, id_of
from hosts.record_types import check_fields

from resctrl_hooks.core.node.container.workload import Workload, workload_of
from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.shapes import fits
from resctrl_hooks.placement.node import allocations, kubelet, node_values, others, policy
from resctrl_hooks.placement.node import specified as specified_module
from resctrl_hooks.placement.node.allocations import AllocationsRecord, Book, _Places, topology_of
from resctrl_hooks.placement.node.feature import FEATURE
from resctrl_hooks.placement.node.node_values import NodeValuesRecord
from resctrl_hooks.placement.node.policy import EXCLUSIVE, Decision, Request
from resctrl_hooks.placement.node.specified import note, specified


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

    for name in ("reconcile", "placing"):
        fail(f"resctrl_hooks.placement.node.{name}", "steps_for", KeyError("nothing"), when=broken)
    report = reconcile(node.host.context())
    ((which, why),) = report.events["failed"].items()
    assert which == id_of("broken")
    assert "internal error in resctrl-hook: KeyError: 'nothing' in faults.py:" in why
    assert node.cpus("last") == "0-3,16-19"


def test_container_with_own_cgroups_is_placed_in_its_own_cgroup(node: PlacedHost) -> None:
    node.run_unseen("late", 500)
    pid = node.pids["late"]
    node.host.process(pid, f"/kubepods/pod{UID}/crio-{id_of('late')}/init.scope", start=pid)
    for _ in range(2):  # the second time from the record
        reconcile(node.host.context())
        assert node.cpus("late") == "0-3,16-19"
        (node.host.state / "placement").unlink()
        (node.folder("late") / "cpuset.cpus").write_text("")
    assert list((node.folder("late") / "init.scope").iterdir()) == []


# A read that fails says nothing: neither that a CPU is free, nor that a value of the node is another's

__all__ = ("no_answer",)


@pytest.mark.parametrize("content", ["", "{", '{"boot": 1}'])
def test_damaged_record_of_previous_values_is_set_aside_with_one_line(host: Host, content: str) -> None:
    ClassHost(host).start("a", 500)
    record = host.state / "placement.cpus"
    record.write_text(content)
    assert [reconcile(host.context()).ok for _ in range(2)] == [True] * 2
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
    node: PlacedHost, operation: tuple[Any, str], no_answer: OSError
) -> None:
    node.kubelet("none")
    node.start("gold", 4000, **{CPUS: "exclusive"})
    node.start("bronze", 500)
    before = {name: node.cpus(name) for name in ("gold", "bronze")}
    assert parse_list(before["gold"]).bit_count() == 4
    asked = Mock(return_value=True)
    context = node.context()
    with failing(*operation, no_answer, when=asked), contextlib.suppress(HookError):
        reconcile(context)
    assert asked.called, "it has been read"
    assert {name: node.cpus(name) for name in before} == before
    reconcile(node.context())
    assert {name: node.cpus(name) for name in before} == before
    node.start("new", 4000, **{CPUS: "exclusive"})
    assert not parse_list(node.cpus("new")) & parse_list(before["gold"])


@pytest.mark.parametrize(
    "damage",
    [None, "", "1\n", f"2\t{BOOT}\t0\t\t\n\tshared\tx\t1\t0\t0\t0\t5\t1\n", "format", "pid", "set", "fields", "line"],
)
def test_hook_without_allocations_uses_records(node: PlacedHost, damage: str | None) -> None:
    node.start("a", 500)
    for name in ("b", "gone"):
        node.start(name, 2000, **{CPUS: "exclusive"})
    node.die("gone")
    book = node.state / "placement"
    if damage is None:
        book.unlink()
    elif damage in ("format", "pid", "set", "fields", "line"):
        node_line, *lines = map(json.loads, book.read_text().splitlines())
        node_line["format"] += damage == "format"
        lines[1][2] = "x" if damage == "pid" else lines[1][2]
        lines[1][-1] = {"set": lines[1][-1].replace("\t", "\t-", 2), "fields": "shared\tx"}.get(damage, lines[1][-1])
        del lines[len(lines) - (damage == "line") :]
        book.write_text("".join(f"{json.dumps(line)}\n" for line in (node_line, *lines)))
    else:
        book.write_text(damage)
    node.start("c", 2000, **{CPUS: "exclusive"})
    assert {name: node.cpus(name) for name in "abc"} == {"a": "2-3,18-19", "b": "0,16", "c": "1,17"}
    node.assert_sound()


def test_machine_is_read_again_after_cpu_change(node: PlacedHost) -> None:
    node.start("a", 500)
    context, cpu = node.context(), node.root / "sys/devices/system/cpu"
    (cpu / "cpu0/topology/core_cpus_list").write_text("0\n")  # not read while the same CPUs are online
    assert topology_of(context).as_record() == MACHINE.as_record()
    (cpu / "online").write_text("0-30\n")
    assert topology_of(context).online == MACHINE.online & ~(1 << 31)
    assert topology_of(context).cores[0] == 1


# Which cpusets of specifications are this project's own


def test_recorded_specification_is_read_damage_ignored_and_an_unreadable_file_not_replaced(host: Host) -> None:
    context = host.context()
    context.ledger.prepare()
    assert specified(context) == {}
    note("a", {"cpus": "0-3"}, context)
    note("b", {"cpus": "5"}, context)
    noted = {"a": "0-3", "b": "5"}
    assert specified(context) == noted
    file = host.state / "placement.specified"
    for number in (errno.EIO, errno.EMFILE, errno.EACCES):
        with failing(specified_module, "read_file", OSError(number, "no answer", "/file")), pytest.raises(LedgerError):
            note("b", {"cpus": "6"}, context)
        assert json.loads(file.read_text()) == noted
    for rubbish in ("[]", "{", ""):
        file.write_text(rubbish)
        assert specified(context) == {}


# Each record of placement checks each of its fields

REQUEST = Request(
    "id", "key", namespace="shop", pod="web", container="app", qos="Guaranteed", kind=EXCLUSIVE, exclusive=1,
    milli=1000, limit=1000, memory=1, isolated=True, one_thread=True, any_memory=True, only_isolated=True, pool="a",
    matched="a", group="a", pulls=[["id", -1]], hints=[["gpu", "0-3"]], strict_hints=True, by_hints=True, quiet=True,
    housekeeping=True, cpu_class="turbo", memory_kinds=["dram"], wide="die",
).as_record()  # fmt: skip
PLACE = Decision(EXCLUSIVE, "a", milli=1000, cpus=0b1111, owned=0b11, hidden=4, mems=1, quiet=1, cpu_class="turbo")
DECISION = {**PLACE.as_record(), "why": "full"}
ROW = ["id", "key", 1, 1, "/cgroup", 1000, "", "/scope", 1, "{}"]


VALUE = {"found": "1", "wanted": "2", "now": "2", "refused": ""}
RECORDS: list[tuple[Any, Any]] = [
    (policy.RequestRecord, REQUEST),
    (policy.DecisionRecord, DECISION),
    (policy.PlacementNeeds, {"request": REQUEST, "decision": DECISION}),
    (NodeValuesRecord, {"boot": "boot", "values": {"a": VALUE}, "facts": "f"}),
    (AllocationsRecord, {"format": 4, "boot": "boot", "machine": ["0-3"], "containers": 1, "others": {"claim": "0"}}),
]


@pytest.mark.parametrize("kind, value", RECORDS)
def test_record_checks_each_of_its_fields(kind: Any, value: Any) -> None:
    check_fields(kind, value)


def test_row_of_a_container_checks_each_column() -> None:
    assert fits(_Places, [])
    assert fits(_Places, [ROW, ROW])
    for place, value in enumerate(ROW):
        for other in (None, True, 1 if isinstance(value, str) else "1", "\0", -1, 1 << 62, 1.0, "/a/../b"):
            if place not in {0, 1, 6, 9} or other != "/a/../b":  # a text may be any
                assert not fits(_Places, [ROW, [*ROW[:place], other, *ROW[place + 1 :]]]), (place, other)
    damaged: list[Any] = [{}, [{}], [ROW[1:]], [ROW, [*ROW, 1]]]
    assert not any(fits(_Places, wrong) for wrong in damaged)


# Placement by hooks: assigned CPUs, displaced containers


def test_hook_logs_the_placed_request_or_why_it_places_nothing(node: PlacedHost) -> None:
    preserve, request = "cpu.preserve.resource-policy.nri.io", "CPUs for a request of 2500m, policy topology-aware"
    asked = {
        f"shared {request} duration": {},
        f"2 exclusive {request} duration": {CPUS: "exclusive"},
        f"reserved {request} duration": {CPUS: "reserved"},
        f"shared {request}: invalid annotation {CPUS}: 'mine'": {CPUS: "mine"},
        f"annotation {preserve}: CPUs and memory nodes left unchanged": {preserve: "true"},
    }
    for words, notes in asked.items():
        log = node.start("a", 2500, **notes)
        assert f"): {words}" in log, log
        node.stop("a")
    node.begin("own")
    own = node.container("own", 1000)
    own.linux["resources"]["cpu"]["cpus"] = "3"
    assert "): container spec sets a cpuset; left unchanged" in node.call(node.oci(own)).log


def test_external_policy_is_used(node: PlacedHost) -> None:
    lines = ("from .policy import Decision", "def choose(topology, usage, request):")
    answer = "    return Decision('shared', 'mine', cpus=0b1000, why='I say so')\n"
    (node.root / "mine.py").write_text("\n".join([*lines, answer]))
    node.place(policy=str(node.root / "mine.py"))
    node.start("a")
    assert node.cpus("a") == "3"


def test_preview_shows_the_cpus_that_the_container_would_get(node: PlacedHost) -> None:
    node.start("a", 500)
    told = node.run_unseen("late", 2000, **{CPUS: "exclusive"})
    context = node.context()
    workload = workload_of(id_of("late"), node.pids["late"], told["bundle"], context.proc, str(node.cgroup))
    for shared in ("0-3,16-19", "1-3,17-19"):
        (step,) = FEATURE.plan(workload, context)
        shown = FEATURE.preview(step, workload, context).parameters
        assert (shown["cpus"], shown["mems"], node.cpus("a")) == ("0,16", "0", shared)
        assert node.call(told).code == 0  # a second preview is of a container that has its place
    assert node.cpus("late") == "0,16"
    node.place(namespaces=["none"])
    (skipped,) = FEATURE.plan(workload, node.context())
    assert FEATURE.preview(skipped, workload, node.context()) is skipped
