"""Placements in `explain`, `show` and `list`."""

import pytest
from conftest import Host
from hosts.monitored import run
from hosts.placed import CPUS, PlacedHost

from resctrl_hooks.core.doctor.host import Host as DoctorsHost
from resctrl_hooks.core.node.host.files import format_json
from resctrl_hooks.placement.doctor.placement import placement


@pytest.fixture
def node(host: Host) -> PlacedHost:
    return PlacedHost(host)


def test_explain_names_chosen_pool_and_next_candidates(node: PlacedHost) -> None:
    node.start("a", 500)
    node.begin("b")
    (node.host.state / "topology").unlink()
    before = (node.host.state / "placement").read_bytes()
    given = format_json(node.told("b", 2000, **{CPUS: "exclusive"}))
    done = run(node.host, "explain", data=given)
    assert done.exit_code == 0, done.output
    assert (
        "exclusive in l3-0, CPUs 0,16, memory nodes 0; CPUs 0,16 of its own: l3-0 has whole cores free" in done.output
    )
    assert "next best: l3-1 (8000m free)" in done.output
    assert (node.host.state / "placement").read_bytes() == before
    assert not (node.host.state / "topology").exists()
    assert node.cpus("b") == ""


def test_allocations_of_another_version_are_shown_by_records(node: PlacedHost) -> None:
    """After an update, before the first hook recreates the file."""
    node.start("a", 500)
    node.start("b", 2000, **{CPUS: "exclusive"})
    node.begin("c")
    given = format_json(node.told("c", 2000, **{CPUS: "exclusive"}))

    def shown() -> list[str]:
        return [run(node.host, *words, data=given).output for words in (["topology", "--usage"], ["explain"])]

    before = shown()
    assert "0,16" in before[0]
    allocations = node.host.state / "placement"
    allocations.write_bytes(b"placement 1\n")
    assert shown() == before
    assert allocations.read_bytes() == b"placement 1\n"
    found = [one.text for one in placement(DoctorsHost(str(node.host.config)))]
    assert found == ["2 containers are placed; nothing else runs on their exclusive CPUs"]
