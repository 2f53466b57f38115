"""Random interleavings of events of containers, hooks and groups, checked against invariants.

Hooks, reconcile and the exec watcher are also killed at any effect, or get an error from any call.
"""

from typing import Any, ClassVar

import pytest
from conftest import examples
from hypothesis import HealthCheck, settings

from faults.node_life import PODS, NodeLife

HOUSES = ("lab",)
pytestmark = pytest.mark.no_cover


class SharedNodeLife(NodeLife):
    """The same where pods take RMIDs of others, by their priorities and in turns."""

    monitoring: ClassVar[dict[str, Any]] = {
        "priority": [{"namespaces": ["gold"], "value": 10}],
        "reserve": {"rmids": 1, "above": 0, "runtimes": 0},
        "share": {"interval": 0.001, "atLeast": 0.0},
    }
    rmids = 6  # three for pods, in addition to the root's and the two classes'
    reserved = 1

    def namespace(self, pod: str) -> str:
        return "gold" if pod == PODS[0] else "shop"

    def check_order(self, waiting: set[str]) -> None:
        if PODS[0] in waiting:
            assert {key for _, key in self.owned()} <= {PODS[0]}, "a pod of lower priority is counted, this one waits"
        assert set(self.node.marked()) == waiting


class ReservingNodeLife(SharedNodeLife):
    """The same with the default reserve for runtimes, which follows from the containers with classes."""

    monitoring: ClassVar[dict[str, Any]] = {**SharedNodeLife.monitoring, "reserve": {"rmids": 1, "above": 0}}
    rmids = 7  # one more, for runtimes


NodeLife.TestCase.settings = settings(
    max_examples=examples(30),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
SharedNodeLife.TestCase.settings = settings(NodeLife.TestCase.settings, max_examples=examples(20))
ReservingNodeLife.TestCase.settings = settings(NodeLife.TestCase.settings, max_examples=examples(10))
TestNodeLife = NodeLife.TestCase
TestSharedNodeLife = SharedNodeLife.TestCase
TestReservingNodeLife = ReservingNodeLife.TestCase
