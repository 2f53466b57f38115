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
    (node.state / "topology").unlink()
    before = (node.state / "placement").read_bytes()
    done = run(node.host, "explain", data=format_json(node.told("b", 2000, **{CPUS: "exclusive"})))
    assert done.exit_code == 0, done.output
    own = "exclusive in l3-0, CPUs 0,16, memory nodes 0; CPUs 0,16 of its own: l3-0 has whole cores free"
    for words in (own, "next best: l3-1 (8000m free)"):
        assert words in done.output
    assert ((node.state / "placement").read_bytes(), node.cpus("b")) == (before, "")
    assert not (node.state / "topology").exists()


def test_allocations_of_another_version_are_shown_by_records(node: PlacedHost) -> None:
    """After an update, before the first hook recreates the file."""
    node.start("a", 500)
    node.start("b", 2000, **{CPUS: "exclusive"})
    node.begin("c")
    given = format_json(node.told("c", 2000, **{CPUS: "exclusive"}))
    shown = []
    for text in ((node.state / "placement").read_text(), "placement 1\n"):
        (node.state / "placement").write_text(text)
        shown.append([run(node.host, *words, data=given).output for words in (["topology", "--usage"], ["explain"])])
        assert (node.state / "placement").read_text() == text
    assert shown[0] == shown[1]
    assert "0,16" in shown[0][0]
    found = [one.text for one in placement(DoctorsHost(str(node.config)))]
    assert found == ["2 containers are placed; nothing else runs on their exclusive CPUs"]
