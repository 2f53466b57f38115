"""`topology --usage`: running containers without a place, with and without a record, on the CPUs that they may use."""

import json
import posix
from typing import Any

import pytest
from conftest import Host
from hosts import crun
from hosts.faults import failing
from hosts.machines import machine, write_sysfs
from hosts.monitored import run

from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.policy import EXCLUSIVE, Decision

MACHINE = machine(2, 1, 2, 2, 2)  # 16 CPUs: packages 0-3,8-11 and 4-7,12-15; l3-0 has 0-1,8-9
START = 1000


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


def usage(host: Host) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the lines of the picture, and the containers in JSON."""
    roots = {"crun": str(host.root / "crun")}
    host.configure(sysPath=write_sysfs(MACHINE, host.root / "sys"), runtimeRoots=roots)
    done = run(host, "topology", "--usage")
    assert done.exit_code == 0, done.output
    (item,) = json.loads(run(host, "topology", "--usage", "--json").stdout)["items"]
    return done.stdout.splitlines(), item["usage"]


def shared_by(lines: list[str]) -> dict[str, str]:
    """Return the counted containers and requests of each part."""
    rows = [line.split() for line in lines if " shared by " in line]
    return {row[0]: " ".join(row[row.index("by") + 1 :]).partition("m")[0] for row in rows}


@pytest.mark.parametrize(
    "cpus, part",
    [("0-1,8-9", "l3-0"), ("8", "l3-0"), ("0-3", "package0"), ("0,15", "node"), ("0-255", "node"), (None, "node")],
)
def test_container_with_a_cpuset_is_at_the_smallest_part_with_all_its_cpus(
    host: Host, cpus: str | None, part: str
) -> None:
    id_ = container(host, 1, cpus)
    lines, _ = usage(host)
    at = next(number for number, line in enumerate(lines) if f"- {id_[:12]}" in line)
    assert lines[at - 1].split()[0] == part
    counted = shared_by(lines)
    assert counted[part].startswith("1 container ")
    assert counted["node"].startswith("1 container ")
    assert counted["l3-3"].startswith("0 containers")


def test_recorded_container_and_its_state_at_the_runtime_are_one(host: Host) -> None:
    id_ = container(host, 1, "0-15", shares=1024)
    other = container(host, 2, "0-15")
    usage(host)
    bundle = str(host.root / "bundle1")
    with host.context().monitor.hold("pod-a") as held:
        held.add_member(id_, {"runtime": "crun", "bundle": bundle}, 101)
    lines, found = usage(host)
    assert shared_by(lines)["node"] == "2 containers requesting 1000"
    assert f"- {id_[:12]} of pod-a: unplaced, CPUs 0-15" in [line.strip() for line in lines]
    assert {(one["container"], one["key"]) for one in found} == {(id_, "pod-a"), (other, other)}


def test_placed_containers_ended_ones_and_sandboxes_are_not_unplaced(host: Host) -> None:
    placed, ended, paused = container(host, 1, "0,8"), container(host, 2, "0-15"), "io.kubernetes.cri.container-type"
    container(host, 3, "0-15", annotations={paused: "sandbox", "io.kubernetes.cri.sandbox-uid": "u" * 36})
    left = container(host, 4, "1-7,9-15")
    host.end_process(102)
    usage(host)
    context = host.context()
    context.ledger.prepare()
    book = Book(context)
    book.add(Entry(placed, "pod-a", 101, START, "/c1", Decision(EXCLUSIVE, "l3-0", owned=0x101)))
    book.save()
    book.written()
    lines, found = usage(host)
    assert shared_by(lines)["node"].startswith("1 container ")
    assert {(one["container"], one["kind"]) for one in found} == {(placed, "exclusive"), (left, "unplaced")}
    assert ended[:12] not in "".join(lines)


def test_container_with_an_unreadable_bundle_is_counted_without_a_request(host: Host) -> None:
    container(host, 1, "0-15", shares=1024)
    (host.root / "bundle1/config.json").unlink()
    assert shared_by(usage(host)[0])["node"] == "1 container requesting 0"


def test_runtime_whose_state_is_unreadable_is_one_line(host: Host) -> None:
    usage(host)
    folder = str(host.root / "crun")
    with failing(
        posix, "listdir", PermissionError(13, "Permission denied"), when=lambda path, **_: str(path) == folder
    ):
        done = run(host, "topology", "--usage")
    assert done.exit_code == 0
    assert done.stderr.startswith("resctrl-hook: containers that placement has not placed are unknown: ")
    assert done.stderr.count("\n") == 1
