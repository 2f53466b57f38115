"""Sessions of the comparison with nri-plugins (tests/bench/placement_peers.py), with our side only."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from peers.measures import Measures
from peers.nodes import Node, nodes
from peers.ours import Ours
from peers.sessions import Container, session


@pytest.mark.parametrize("node", nodes(), ids=lambda node: node.name)
def test_scheduled_containers_are_placed_by_their_requests(node: Node, tmp_path: Path) -> None:
    node.write(tmp_path)
    ours = Ours({"policy": "topology-aware", "allow": {"*": ["*"]}, "failurePolicy": "fail"}, node, tmp_path)
    running: dict[str, Container] = {}
    found = Measures()
    for kind, container in session(node, 7, 60):
        answer = ours.apply(kind, container)
        assert not answer.refused
        if kind == "start":
            running[container.id] = container
        else:
            del running[container.id]
        found.note(node, answer, running)
    assert set(answer.places) == set(running)
    assert found.twice == 0
    assert found.value("memory overcommitted, GiB") == 0
    assert found.value("without exclusive CPUs") <= 0.02
    assert found.value("short of CPU time") <= 0.05
