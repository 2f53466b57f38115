import json

import pytest
from conftest import BOOT, UID
from hosts.placed import CPUS, MACHINE, PlacedHost

from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.host.files import format_json
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node import allocations
from resctrl_hooks.placement.node.allocations import Book, topology_of
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.policy import SHARED, Decision


def test_allocations_keep_place_of_every_container(node: PlacedHost) -> None:
    for number in range(6):
        node.start(f"s{number}", 100 * number, **{"io.kubernetes.container.name": f"s{number}"})
    node.start("b", 2500, **{CPUS: "mixed:2"})
    first, second = Book(node.host.context()), Book(node.host.context())
    assert first.usage() is first.usage()
    assert len(first.entries) == len(second.entries) == 7
    for id_, entry in second.entries.items():
        found = first.entries[id_]
        for name in ("id", "key", "pid", "start", "folder", "unit", "scope", "applied", "milli"):
            assert getattr(found, name) == getattr(entry, name)
        assert found.decision.as_record() == entry.decision.as_record()
    assert first.usage().load(MACHINE.online) == second.usage().load(MACHINE.online) == (2000, 7)
    assert second.usage(UID).near(UID) == second.usage().near(UID) | parse_list("0-3,16-19")
    assert second.usage(UID).load(MACHINE.online) == (2000, 7)
    (like,) = [entry for entry in second.entries.values() if entry.milli == 100]
    second.add(Entry("x", "another pod", 1, 1, "", Decision(*like.decision.place, milli=100)))
    assert second.entries["x"].decision is like.decision
    assert second.usage(UID).load(MACHINE.online) == second.usage().load(MACHINE.online) == (2100, 8)
    assert second.usage() is second.usage() is not second.usage(UID)
    assert second.remove("x")
    assert not first.remove("nobody")
    for id_ in second.entries:
        assert first.remove(id_)
    assert first.usage().load(MACHINE.online) == (0, 0)
    assert first.usage().common == MACHINE.online


def test_hook_encodes_only_changed_containers(node: PlacedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        node.start(f"s{number}", 100, **{"io.kubernetes.container.name": f"s{number}"})
    book = Book(node.host.context())
    before = (node.host.state / "placement").read_bytes().splitlines()
    encoded: list[object] = []

    def counted(value: object) -> bytes:
        encoded.append(value)
        return format_json(value)

    monkeypatch.setattr(allocations, "format_json", counted)
    _, changed, *_ = book.entries.values()
    changed.memory = 1 << 30
    book.remove(changed.id)
    book.add(changed)
    book.save()
    assert len(encoded) == 2  # the node's line and this container's
    after = (node.host.state / "placement").read_bytes().splitlines()
    assert len(set(before) - set(after)) == 1
    assert Book(node.host.context()).entries[changed.id].memory == 1 << 30


def test_new_container_has_no_known_cpuset() -> None:
    assert Entry("a", "A", 7, 70, "/cg/a", Decision(SHARED, "all", cpus=0b11)).applied == 0


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


@pytest.mark.parametrize("name", ["placement", "placement.writing", "placement.untold", "topology"])
def test_unusable_placement_file_is_replaced(node: PlacedHost, name: str) -> None:
    node.start("a", 500)
    file = node.host.state / name
    file.unlink(missing_ok=True)
    file.mkdir()
    report = reconcile(node.host.context())
    assert f"cannot use {file}" in report.events["failed"]["placement"]
    assert report.reasons == ["ledger"]
    outcome = node.host.call(node.told("a", status="stopped"))
    assert outcome.code == 0
    assert "fault" not in outcome.log


def test_machine_is_read_again_after_cpu_change(node: PlacedHost) -> None:
    node.start("a", 500)
    context = node.host.context()
    core = node.host.root / "sys/devices/system/cpu/cpu0/topology/core_cpus_list"
    core.write_text("0\n")  # not read while the same CPUs are online
    assert topology_of(context).as_record() == MACHINE.as_record()
    (node.host.root / "sys/devices/system/cpu/online").write_text("0-30\n")
    assert topology_of(context).online == MACHINE.online & ~(1 << 31)
    assert topology_of(context).cores[0] == 1
