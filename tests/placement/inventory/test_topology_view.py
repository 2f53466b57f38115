"""`resctrl-hook topology`: the machine as text, with its containers."""

import json
import posix
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts import crun
from hosts.displays import cells, described, probed
from hosts.faults import failing
from hosts.machines import MACHINES, machine, write_sysfs
from hosts.monitored import run

from resctrl_hooks.core.inventory.feature_display.model import Found
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.topology import SLOW, MemoryNode, Topology
from resctrl_hooks.placement.inventory.feature_display import placement
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.policy import EXCLUSIVE, SHARED, Decision

REPOSITORY = Path(__file__).parents[3]
MACHINE = machine(2, 1, 2, 2, 2)
"""That of docs/topology.svg, with 16 CPUs: packages 0-3,8-11 and 4-7,12-15; l3-0 has 0-1,8-9."""
START = 1000


def topology(host: Host, of: Topology, *words: str, **section: object) -> str:
    host.configure(sysPath=write_sysfs(of, host.root / "sys"), placement=section)
    done = run(host, "topology", *words)
    assert done.exit_code == 0, done.output
    return done.output


def place(host: Host, *placed: Entry) -> None:
    host.configure(sysPath=write_sysfs(MACHINE, host.root / "sys"))
    context = host.context()
    context.ledger.prepare()
    book = Book(context)
    for entry in placed:
        book.add(entry)
    book.save()
    book.written()


def test_usage_of_each_part_is_drawn(host: Host, golden: Golden) -> None:
    shared = [("pod-b", "l3-0", 0x0303), ("pod-a", "l3-0", 0x0303), ("p" * 40, "package0", 0x0F0F)]
    shared.append(("pod-n", "node", 0xFFFF))
    placed = [(key, Decision(SHARED, pool, cpus=cpus, milli=500)) for key, pool, cpus in shared]
    own = Entry("9" * 64, "pod-x", 1, 1, "/x", Decision(EXCLUSIVE, "l3-3", owned=0xC0C0, hidden=0x8080))
    place(host, own, *(Entry(f"{number}" * 64, key, 1, 1, "/x", of) for number, (key, of) in enumerate(placed)))
    golden(topology(host, MACHINE, "--usage", reservedCpus="0"))


def test_recorded_output_of_the_picture_is_that_of_the_command(host: Host) -> None:
    own, shared, large = (
        Decision(EXCLUSIVE, "l3-1", owned=0x0C0C),
        Decision(SHARED, "l3-0", cpus=0x0303, milli=1500),
        Decision(SHARED, "package1", cpus=0xF0F0, milli=3000),
    )
    place(
        host,
        Entry("6f1c9b04d2aa", "343e47a0-7237-4009-92af-9c9bd197514c", 1, 1, "/x", own),
        Entry("b29d0e77c415", "77a6cab6-fb2f-4f14-9dbf-5b9e243bdc1d", 1, 1, "/y", shared),
        Entry("e85a3310f9d6", "9d2f6c1e-0b7a-4c55-8f43-2a61d5b7e901", 1, 1, "/z", large),
    )
    shown = topology(host, MACHINE, "--usage", reservedCpus="0")
    assert (REPOSITORY / "contrib/topology.txt").read_text() == shown
    drawn = (REPOSITORY / "docs/topology.svg").read_text().replace("&#160;", " ")
    assert all(line.strip() in drawn for line in shown.splitlines())


def test_other_details_are_drawn(host: Host) -> None:
    assert "performance CPUs: 0-3,12-15; efficient CPUs: 4-11" in topology(host, MACHINES["hybrid"])
    special = machine(cores=2, threads=2, offline=0b1000, isolated=0b1)
    special.nodes.append(MemoryNode(1, 0, {0: 20, 1: 10}, 1 << 30, SLOW))
    special.nodes[0].distances[1] = 20
    shown = topology(host, special)
    for words in ("[i. .]", "offline CPUs: 3", "memory node 1: 1.0 GiB of slow memory, no CPUs"):
        assert words in shown


@pytest.mark.parametrize("name", MACHINES)
def test_json_describes_machine(host: Host, name: str) -> None:
    made = json.loads(topology(host, MACHINES[name], "--json"))
    (item,) = made["items"]
    assert (item.pop("usage"), item.pop("account")["rmids"]) == (None, {})
    for node in item["nodes"]:
        node["memory"] = node.pop("memoryBytes")
    assert item == {name: value for name, value in MACHINES[name].as_record().items() if name != "format"}


def test_missing_sysfs_is_reported(host: Host) -> None:
    host.configure(sysPath=str(host.root / "nowhere"))
    done = run(host, "topology")
    assert done.exit_code == 1
    assert "lists no CPUs" in done.output


# `topology --usage`: running containers without a place, with and without a record, on the CPUs that they may use


def container(
    host: Host, number: int, cpus: str | None, *, shares: int = 0, annotations: dict[str, str] | None = None
) -> str:
    """Start a container that only crun knows; return its id."""
    id_ = f"{number:x}" * 64
    pid = host.process(100 + number, f"/c{number}", start=START)
    if cpus is not None:
        (host.proc / str(pid) / "status").write_text(f"Name:\tx\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n")
    linux = {"resources": {"cpu": {"shares": shares}}} if shares else {}
    bundle = host.bundle({"ociVersion": "1.2.1", "linux": linux, "annotations": annotations or {}}, f"bundle{number}")
    crun.record(host.root / "crun", id_, pid, bundle, START)
    return id_


def usage(host: Host) -> tuple[str, list[dict[str, Any]]]:
    (item,) = json.loads(topology(host, MACHINE, "--usage", "--json"))["items"]
    return topology(host, MACHINE, "--usage"), item["usage"]


def test_containers_without_a_place_are_at_the_smallest_part_with_their_cpus(host: Host, golden: Golden) -> None:
    """Those recorded, too; but no sandboxes, and none that has ended or is placed."""
    for number, cpus in enumerate(("0-1,8-9", "8", "0-3", "0,15", "0-255", None), 1):
        container(host, number, cpus, shares=1024 if number < 3 else 0)
    (host.root / "bundle2/config.json").unlink()  # counted without a request
    sandbox = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-uid": "u" * 36}
    container(host, 7, "0-15", annotations=sandbox)
    container(host, 8, "0-15")
    host.end_process(108)
    placed, recorded = container(host, 9, "4,12"), container(host, 10, "0-15", shares=1024)
    place(host, Entry(placed, "pod-b", 109, START, "/c9", Decision(EXCLUSIVE, "l3-2", owned=0x1010)))
    with host.context().monitor.hold("pod-a") as held:
        held.add_member(recorded, {"runtime": "crun", "bundle": str(host.root / "bundle10")}, 110)
    shown, found = usage(host)
    golden(shown, "picture")
    golden("\n".join(sorted(json.dumps(one) for one in found)), "JSON")


def test_runtime_whose_state_is_unreadable_is_one_line(host: Host) -> None:
    usage(host)
    folder, error = str(host.root / "crun"), PermissionError(13, "Permission denied")
    with failing(posix, "listdir", error, when=lambda path, **_: str(path) == folder):
        done = run(host, "topology", "--usage")
    assert (done.exit_code, done.stderr.count("\n")) == (0, 1)
    assert done.stderr.startswith("resctrl-hook: containers that placement has not placed are unknown: ")


# The presentation of placement: a container's details, the target of a step for `explain`, and cells of `list`


def test_impossible_placement_is_named(host: Host) -> None:
    with failing(placement, "preview", HookError("no CPU is free")):
        assert probed("placement", host, {}) == Found("", "would fail: no CPU is free", possible=False)


def test_effective_cpus_are_those_of_the_cgroup_or_its_scope(tmp_path: Path) -> None:
    needs = {"decision": {"kind": "shared", "pool": "l3-0", "milli": 500}}
    place = {"kind": "shared", "pool": "l3-0"}
    (tmp_path / "a/b").mkdir(parents=True)
    assert described("placement", {}, needs) == described("placement", {"cgroup": f"{tmp_path}/a/b"}, needs) == place
    for folder, cpus in (("a", "0-3"), ("a/b", "0-1")):
        (tmp_path / folder / "cpuset.cpus.effective").write_text(f"{cpus}\n")
        found = described("placement", {"cgroup": f"{tmp_path}/a/b"}, needs)
        assert found == {**place, "effective": cpus}


def test_cells_of_placement_are_those_of_placed_containers() -> None:
    one, two = ({"placement": {"kind": "shared", "pool": "l3-0", "effective": cpus}} for cpus in ("0-3", "2-5"))
    assert cells("placement", one, {}, two) == ("shared l3-0", "0-5")
    assert cells("placement", one, {"placement": {"why": "not placed yet"}}) == ("not yet, shared l3-0", "0-3")
    assert cells("placement", {"placement": {"why": "not placed yet"}}) == ("not yet", "-")
