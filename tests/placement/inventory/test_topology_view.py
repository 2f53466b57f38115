"""`resctrl-hook topology`: the machine as text, with its containers."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts.machines import MACHINES, machine, write_sysfs
from hosts.monitored import run

from resctrl_hooks.core.node.host.topology import SLOW, MemoryNode, Topology
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.policy import EXCLUSIVE, SHARED, Decision

REPOSITORY = Path(__file__).parents[3]
PICTURED = machine(2, 1, 2, 2, 2)
"""The machine of docs/topology.svg."""


def topology(host: Host, of: Topology, *words: str, **section: object) -> str:
    host.configure(sysPath=write_sysfs(of, host.root / "sys"), placement=section)
    done = run(host, "topology", *words)
    assert done.exit_code == 0, done.output
    return done.output


def place(host: Host, *placed: tuple[str, str, Decision]) -> None:
    """Record containers on the machine of the picture: the id, the pod's key and the decision of each."""
    topology(host, PICTURED)
    context = host.context()
    context.ledger.prepare()
    book = Book(context)
    for id_, key, decision in placed:
        book.add(Entry(id_, key, 1, 1, f"/{id_}", decision))
    book.save()
    book.written()


def test_usage_of_each_part_is_drawn(host: Host, golden: Golden) -> None:
    shared = [("pod-b", "l3-0", 0x0303), ("pod-a", "l3-0", 0x0303), ("p" * 40, "package0", 0x0F0F)]
    shared.append(("pod-n", "node", 0xFFFF))
    decisions = [(key, Decision(SHARED, pool, cpus=cpus, milli=500)) for key, pool, cpus in shared]
    own = Decision(EXCLUSIVE, "l3-3", owned=0xC0C0, hidden=0x8080)
    place(host, *((f"{number}" * 64, *of) for number, of in enumerate(decisions)), ("9" * 64, "pod-x", own))
    golden(topology(host, PICTURED, "--usage", reservedCpus="0"))


def test_recorded_output_of_the_picture_is_that_of_the_command(host: Host) -> None:
    place(
        host,
        ("6f1c9b04d2aa", "343e47a0-7237-4009-92af-9c9bd197514c", Decision(EXCLUSIVE, "l3-1", owned=0x0C0C)),
        ("b29d0e77c415", "77a6cab6-fb2f-4f14-9dbf-5b9e243bdc1d", Decision(SHARED, "l3-0", cpus=0x0303, milli=1500)),
        ("e85a3310f9d6", "9d2f6c1e-0b7a-4c55-8f43-2a61d5b7e901", Decision(SHARED, "package1", cpus=0xF0F0, milli=3000)),
    )
    shown = topology(host, PICTURED, "--usage", reservedCpus="0")
    assert (REPOSITORY / "contrib/topology.txt").read_text() == shown
    drawn = (REPOSITORY / "docs/topology.svg").read_text().replace("&#160;", " ")
    assert all(line.strip() in drawn for line in shown.splitlines())


def test_other_details_are_drawn(host: Host) -> None:
    hybrid = MACHINES["hybrid"]
    shown = topology(host, hybrid)
    assert "performance CPUs: 0-3,12-15; efficient CPUs: 4-11" in shown
    special = machine(cores=2, threads=2, offline=0b1000, isolated=0b1)
    special.nodes.append(MemoryNode(1, 0, {0: 20, 1: 10}, 1 << 30, SLOW))
    special.nodes[0].distances[1] = 20
    shown = topology(host, special)
    assert "[i. .]" in shown
    assert "offline CPUs: 3" in shown
    assert "memory node 1: 1.0 GiB of slow memory, no CPUs" in shown


@pytest.mark.parametrize("name", MACHINES)
def test_json_describes_machine(host: Host, name: str) -> None:
    made = json.loads(topology(host, MACHINES[name], "--json"))
    (item,) = made["items"]
    machine_: dict[str, Any] = {**MACHINES[name].as_record()}
    memory = [node.pop("memory") for node in machine_["nodes"]]
    assert [node.pop("memoryBytes") for node in item["nodes"]] == memory
    assert item.pop("usage") is None
    assert item.pop("account")["rmids"] == {}
    del machine_["format"]
    assert item == machine_


def test_missing_sysfs_is_reported(host: Host) -> None:
    host.configure(sysPath=str(host.root / "nowhere"))
    done = run(host, "topology")
    assert done.exit_code == 1
    assert "lists no CPUs" in done.output
