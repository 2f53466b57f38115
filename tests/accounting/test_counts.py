"""A count is never lost, doubled or taken for another's, whatever happens in between: see `counts`."""

from collections.abc import Iterator

import pytest
from conftest import examples
from hypothesis import HealthCheck, Phase, settings

from accounting.counts import Counts
from accounting.jobs import Jobs
from accounting.node import PODS, NodeProgram

HOUSES = ("lab",)
pytestmark = pytest.mark.no_cover
POD = PODS[0]
FEW = settings(
    max_examples=examples(60), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip
"""10 000 steps and more are for CI, which also looks for the shortest sequence that fails: that takes minutes."""


class LongCounts(Counts):
    """The same machine."""


class LongJobs(Jobs):
    """The same machine."""


TestCounts, TestJobs = Counts.TestCase, Jobs.TestCase
TestLongCounts, TestLongJobs = pytest.mark.ci(LongCounts.TestCase), pytest.mark.ci(LongJobs.TestCase)
TestCounts.settings = TestJobs.settings = FEW
TestLongCounts.settings = settings(FEW, max_examples=examples(250), phases=tuple(Phase))
TestLongJobs.settings = settings(FEW, max_examples=examples(150), phases=tuple(Phase))


@pytest.fixture
def machine() -> Iterator[Counts]:
    """Return the machine, for a fixed sequence of steps; afterwards nothing is left on the node."""
    machine = Counts()
    yield machine
    machine.teardown()


def test_group_in_another_class_after_a_remount_counts_from_zero(machine: Counts) -> None:
    machine.node.begin(POD, "gold", 1, hooked=True)
    machine.work()
    machine.read(0)
    machine.remount(again=True)  # the tasks are in the root class then, and the first group has the inode of the last
    machine.kernel.now += 1
    machine.node.pass_over(NodeProgram(machine.node))
    machine.work()
    machine.work()
    machine.read(0)
    assert machine.node.accounts.truths[POD].total == (300, 603)


def test_group_with_another_pods_name_is_counted_once(machine: Counts) -> None:
    other = PODS[1]
    machine.node.begin(POD, "gold", 1, hooked=True)
    machine.node.begin(other, "gold", 1, hooked=True)
    machine.reconcile()
    machine.work()
    machine.read(0)
    machine.node.attempt("rmdir", machine.node.path_of("gold", other))
    machine.act("confuse", 0, "gold", other)
    machine.work()
    machine.read(0)
    machine.reconcile()
    machine.work()
    machine.read(0)
    assert machine.node.accounts.ended(other)
    assert {name for _, _, name, _ in machine.node.accounts.groups()} == {POD, other}
