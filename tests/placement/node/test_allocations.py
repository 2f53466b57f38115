import errno
import json
from typing import Any

import pytest
from conftest import BOOT, Host
from hosts.faults import failing
from hosts.placed import CPUS, MACHINE, PlacedHost
from hosts.record_types import check_fields

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.shapes import fits
from resctrl_hooks.placement.node import specified as module
from resctrl_hooks.placement.node.allocations import AllocationsRecord, _Places, topology_of
from resctrl_hooks.placement.node.node_values import NodeValuesRecord
from resctrl_hooks.placement.node.policy import DecisionRecord, PlacementNeeds, RequestRecord
from resctrl_hooks.placement.node.specified import note, specified


@pytest.mark.parametrize(
    "damage",
    [None, "", "1\n", f"2\t{BOOT}\t0\t\t\n\tshared\tx\t1\t0\t0\t0\t5\t1\n", "format", "pid", "set", "fields", "line"],
)
def test_hook_without_allocations_uses_records(node: PlacedHost, damage: str | None) -> None:
    node.start("a", 500)
    node.start("b", 2000, **{CPUS: "exclusive"})
    node.start("gone", 2000, **{CPUS: "exclusive"})
    node.die("gone")
    book = node.host.state / "placement"
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
    assert node.cpus("b") == "0,16"
    assert node.cpus("c") == "1,17"
    assert node.cpus("a") == "2-3,18-19"
    node.assert_sound()


def test_machine_is_read_again_after_cpu_change(node: PlacedHost) -> None:
    node.start("a", 500)
    context = node.host.context()
    core = node.host.root / "sys/devices/system/cpu/cpu0/topology/core_cpus_list"
    core.write_text("0\n")  # not read while the same CPUs are online
    assert topology_of(context).as_record() == MACHINE.as_record()
    (node.host.root / "sys/devices/system/cpu/online").write_text("0-30\n")
    assert topology_of(context).online == MACHINE.online & ~(1 << 31)
    assert topology_of(context).cores[0] == 1


# Which cpusets of specifications are this project's own


def test_recorded_specification_is_read_and_damage_ignored(host: Host) -> None:
    context = host.context()
    host.state.mkdir(parents=True, exist_ok=True)
    context.ledger.prepare()
    assert specified(context) == {}
    note("a", {"cpus": "0-3"}, context)
    note("b", {"cpus": "5"}, context)
    assert specified(context) == {"a": "0-3", "b": "5"}
    (file,) = host.state.glob("placement.specified")
    for rubbish in ("[]", "{", ""):
        file.write_text(rubbish)
        assert specified(context) == {}


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_specifications_that_cannot_be_read_are_not_replaced(host: Host, number: int) -> None:
    context = host.context()
    context.ledger.prepare()
    note("a", {"cpus": "0-3"}, context)
    with failing(module, "read_file", OSError(number, "no answer", "/file")), pytest.raises(LedgerError):
        note("b", {"cpus": "5"}, context)
    (file,) = host.state.glob("placement.specified")
    assert json.loads(file.read_text()) == {"a": "0-3"}


# Each record of placement checks each of its fields

REQUEST = {
    "namespace": "shop",
    "pod": "web",
    "container": "app",
    "qos": "Guaranteed",
    "kind": "exclusive",
    "exclusive": 1,
    "milli": 1000,
    "limit": 1000,
    "memory": 1,
    "isolated": True,
    "one_thread": True,
    "any_memory": True,
    "only_isolated": True,
    "pool": "a",
    "matched": "a",
    "group": "a",
    "pulls": [["id", -1]],
    "hints": [["gpu", "0-3"]],
    "strict_hints": True,
    "by_hints": True,
    "quiet": True,
    "housekeeping": True,
    "cpu_class": "turbo",
    "memory_kinds": ["dram"],
    "wide": "die",
}
DECISION = {
    "kind": "exclusive",
    "pool": "a",
    "milli": 1000,
    "cpus": "0-3",
    "owned": "0,1",
    "hidden": "2",
    "mems": "0",
    "quiet": "0",
    "cpu_class": "turbo",
    "why": "full",
}
ROW = ["id", "key", 1, 1, "/cgroup", 1000, "", "/scope", 1, "{}"]


@pytest.mark.parametrize(
    "kind, value",
    [
        (RequestRecord, REQUEST),
        (DecisionRecord, DECISION),
        (PlacementNeeds, {"request": REQUEST, "decision": DECISION}),
        (
            NodeValuesRecord,
            {"boot": "boot", "values": {"a": {"found": "1", "wanted": "2", "now": "2", "refused": ""}}, "facts": "f"},
        ),
        (
            AllocationsRecord,
            {"format": 4, "boot": "boot", "machine": ["0-3"], "containers": 1, "others": {"claim": "0"}},
        ),
    ],
)
def test_record_checks_each_of_its_fields(kind: Any, value: dict[str, Any]) -> None:
    check_fields(kind, value)


def test_row_of_a_container_checks_each_column() -> None:
    assert fits(_Places, [])
    assert fits(_Places, [ROW, ROW])
    for place, value in enumerate(ROW):
        for other in (None, True, 1 if isinstance(value, str) else "1", "\0", -1, 1 << 62, 1.0, "/a/../b"):
            if place not in {0, 1, 6, 9} or other != "/a/../b":  # a text may be any
                assert not fits(_Places, [ROW, [*ROW[:place], other, *ROW[place + 1 :]]]), (place, other)
    damaged: list[Any] = [{}, [{}], [ROW[1:]], [ROW, [*ROW, 1]]]
    for wrong in damaged:
        assert not fits(_Places, wrong)
