"""The account in random states of a node: pods of ours, groups of runtimes, and groups and classes made by hand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from conftest import examples
from hosts.shared_node import Pod, SharedNode

from resctrl_hooks.core.inventory.account import NO_CLASS, Account
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
STATES = examples(20)  # each takes up to a second; the deep profile has 400
KINDS: dict[str, dict[str, Any]] = {
    "Intel": {"rmids": 16},
    "AMD": {"rmids": 16, "assignable_counters": 4},
    "Arm": {"rmids": 16, "pmg": 4},
}


class Churn:
    """Random events on a node, each of which the kernel may refuse."""

    def __init__(self, node: SharedNode, seed: int) -> None:
        self.node = node
        self.root = node.context().monitor.resctrl.root
        self.chances = random.Random(seed)
        self.made: list[str] = []
        self.pods: list[Pod] = []

    def step(self) -> None:
        """Let one event happen."""
        event = self.chances.choice(
            [self.start, self.start, self.start_own, self.end, self.add, self.add_class, self.remove, self.reconcile]
        )
        try:
            event()
        except OSError:
            return  # the kernel has refused it

    def start(self) -> None:
        self.pods.append(self.node.start("shop"))

    def start_own(self) -> None:
        name = f"{len(self.node.pods):064x}"  # the id of the next container
        self.mkdir(f"mon_groups/{name}")
        self.pods.append(self.node.start("own", linux={"intelRdt": {"enableMonitoring": True}}))

    def end(self) -> None:
        if self.pods:
            self.node.end(self.pods.pop(self.chances.randrange(len(self.pods))))

    def add(self) -> None:
        parents = ["", *(f"{name}/" for name in self.made if "/" not in name)]
        self.mkdir(f"{self.chances.choice(parents)}mon_groups/pqos-{len(self.made)}-{self.chances.randrange(99)}")

    def add_class(self) -> None:
        self.mkdir(f"class{self.chances.randrange(9)}")

    def remove(self) -> None:
        if self.made:
            name = self.chances.choice(self.made)
            self.made = [one for one in self.made if one != name and not one.startswith(f"{name}/")]
            self.node.kernel.rmdir(f"{self.root}/{name}")

    def reconcile(self) -> None:
        self.node.reconcile()

    def mkdir(self, name: str) -> None:
        self.node.kernel.mkdir(f"{self.root}/{name}")
        self.made.append(name)

    def unused(self, rdt_class: str) -> int:
        """Return how many groups the kernel lets us create in a class; they are removed again."""
        folder = f"{self.root}/{rdt_class}/mon_groups" if rdt_class else f"{self.root}/mon_groups"
        made: list[str] = []
        try:
            while True:
                path = f"{folder}/probe{len(made)}"
                self.node.kernel.mkdir(path)
                made.append(path)
        except OSError:
            return len(made)
        finally:
            for path in made:
                self.node.kernel.rmdir(path)


def account(node: SharedNode) -> Account:
    found = gather(node.context()).account
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_sum_is_the_kernels_number_in_every_state(tmp_path: Path, kind: str) -> None:
    node = SharedNode(tmp_path, limbo=0, **KINDS[kind])
    resctrl = node.context().monitor.resctrl
    churn = Churn(node, 44)
    seen = set()
    for number in range(STATES):
        churn.step()
        found = account(node)
        assert sum(found.rmids.values()) == total_rmids(resctrl)
        assert sum(found.closids.values()) == total_closids(resctrl)
        if number % 10 == 0:
            each = found.free_by_class or {"": found.rmids["free"] + found.rmids["limbo"]}
            assert {name: churn.unused(name) for name in each} == each
        seen |= {owner for owner, count in found.rmids.items() if count}
    assert seen >= {"pods", "classes", "runtimes", "foreign", "free"}
    assert (NO_CLASS in seen) == (kind == "Arm")
