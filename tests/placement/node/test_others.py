"""CPUs that other programs have given to containers: respected from the next pass of reconcile on.

The CDI files are those of dra-driver-cpu's source (pkg/driver/cdi.go, `AddDevice`): it needs a kubelet to run.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node.allocations import Book

CLAIM = "5d2f8f6e-5a7c-4a1e-9a55-1d9d3b7e6c01"
NAME = f"dra.k8s.io-cpu_claim-{CLAIM}.json"


class Node(PlacedHost):
    """A node with dra-driver-cpu's folder."""

    def __init__(self, host: Host) -> None:
        self.cdi = host.root / "cdi"
        super().__init__(host)
        self.cdi.mkdir()

    def place(self, *, monitoring: bool = True, **section: Any) -> None:
        super().place(monitoring=monitoring, cdiPath=str(self.cdi), **section)

    def claim(self, cpus: str) -> Path:
        """Prepare a claim, as the driver does before the kubelet creates the container."""
        edits = {"env": [f"DRA_CPUSET_{CLAIM}={cpus}"]}
        device = {"name": f"claim-{CLAIM}", "containerEdits": edits}
        path = self.cdi / NAME
        path.write_text(json.dumps({"cdiVersion": "0.8.0", "kind": "dra.k8s.io/cpu", "devices": [device]}))
        return path

    def start_of_other(self, name: str, cpus: str, milli: int) -> None:
        """Start a container in whose specification another program has set a cpuset."""
        self.begin(name)
        state = self.told(name, milli)
        bundle = Path(state["bundle"]) / "config.json"
        config = json.loads(bundle.read_text())
        config["linux"]["resources"]["cpu"]["cpus"] = cpus
        bundle.write_text(json.dumps(config))
        (self.folder(name) / "cpuset.cpus").write_text(cpus)
        assert self.host.call(state).code == 0

    def runs(self, name: str) -> int:
        return parse_list(self.cpus(name))

    def owned(self, name: str) -> int:
        return Book(self.host.context()).entries[id_of(name)].decision.owned

    def taken(self) -> str:
        return format_list(Book(self.host.context(), read_only=True).taken)


@pytest.fixture
def node(host: Host) -> Node:
    return Node(host)


def allocation_of_a_claim(node: Node, cpus: str) -> None:
    node.claim(cpus)


def allocation_by_another_plugin(node: Node, cpus: str) -> None:
    node.start_of_other("theirs", cpus, parse_list(cpus).bit_count() * 1000)


ALLOCATIONS: list[Callable[[Node, str], None]] = [allocation_of_a_claim, allocation_by_another_plugin]


@pytest.mark.parametrize("allocate", ALLOCATIONS)
def test_later_allocation_is_respected_at_the_next_pass(node: Node, allocate: Callable[[Node, str], None]) -> None:
    node.start("exclusive", 2000, **{CPUS: "exclusive"})
    node.start("shared", 500)
    before = node.owned("exclusive")
    assert before.bit_count() == 2
    allocate(node, format_list(before))
    reconcile(node.host.context())
    now = node.owned("exclusive")
    assert now.bit_count() == 2
    assert not now & before
    assert node.runs("exclusive") == now
    assert not node.runs("shared") & (before | now)
    assert reconcile(node.host.context()).number("repaired") == 0


def test_ended_claim_returns_its_cpus(node: Node) -> None:
    path = node.claim("0-3")
    node.start("shared", 500)
    reconcile(node.host.context())
    assert (node.taken(), node.runs("shared") & parse_list("0-3")) == ("0-3", 0)
    path.unlink()
    reconcile(node.host.context())
    assert node.taken() == ""
    node.stop("shared")
    node.start("again", 500)
    assert node.runs("again") & parse_list("0-3")


def test_ended_container_of_another_program_returns_its_cpus(node: Node) -> None:
    allocation_by_another_plugin(node, "0-3")
    reconcile(node.host.context())
    assert node.taken() == "0-3"
    node.stop("theirs")
    reconcile(node.host.context())
    assert node.taken() == ""


@pytest.mark.parametrize("cpus, milli", [("0-27", 500), ("0-31", 32000), ("4-7", 3999)], ids=["pool", "whole", "pin"])
def test_cpuset_that_a_request_does_not_fill_takes_no_cpus(node: Node, cpus: str, milli: int) -> None:
    node.start_of_other("theirs", cpus, milli)
    reconcile(node.host.context())
    assert node.taken() == ""


@pytest.mark.parametrize("damage", ["", "{}", '{"devices": [{"containerEdits": {"env": [1]}}]}', "[" * 500])
def test_claim_whose_file_is_damaged_keeps_its_cpus(node: Node, damage: str) -> None:
    path = node.claim("0-3")
    node.start("shared", 500)
    reconcile(node.host.context())
    path.write_text(damage)
    reconcile(node.host.context())
    assert node.taken() == "0-3"


def test_claim_that_was_never_readable_is_named_and_others_are_repaired(node: Node) -> None:
    path = node.claim("0-3")
    path.write_text("{")
    node.start("shared", 500)
    (node.folder("shared") / "cpuset.cpus").write_text("1")
    report = reconcile(node.host.context())
    assert f"{path}: not a CDI file" in report.events["failed"]["placement"]
    assert "may be assigned" in report.events["failed"]["placement"]
    assert node.cpus("shared") != "1"
