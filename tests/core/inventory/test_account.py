"""The account of RMIDs and CLOSIDs: a pure decision, and its observation on a node."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from conftest import examples, not_none
from hosts.shared_node import Pod, SharedNode
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.inventory.account import NO_CLASS, Facts, account_of
from resctrl_hooks.core.inventory.creators import RUNTIME, UNKNOWN, creator_of, greediest
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)

_NAMES = st.sampled_from([f"group{number}" for number in range(12)])
_GROUPS = st.dictionaries(_NAMES, st.lists(_NAMES, unique=True, max_size=6), max_size=5)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Return a node whose groups fit into its RMIDs, as the kernel ensures."""
    groups = {"": draw(st.lists(_NAMES, unique=True, max_size=8)), **draw(_GROUPS)}
    sizes = [1 + len(names) for names in groups.values()]
    each, rmids = 0, sum(sizes) + draw(st.integers(0, 20))
    closids = len(groups) + draw(st.integers(0, 4))
    if draw(st.booleans()):
        each = max(sizes) + draw(st.integers(0, 3))
        rmids = each * closids
    owners = st.dictionaries(_NAMES, st.text(min_size=1, max_size=3), max_size=6)
    energy = draw(st.sampled_from([{}, {"PERF_PKG": rmids + 3}]))
    return Facts(
        {"L3": rmids, **energy}, closids, each, groups, draw(owners), draw(owners), refused=draw(st.booleans())
    )


@given(facts())
def test_owners_sum_is_the_kernels_number(node: Facts) -> None:
    found = account_of(node)
    assert sum(found.rmids.values()) == min(node.rmids.values())
    assert sum(found.closids.values()) == node.closids
    assert len(found.owners) == sum(found.rmids[kind] for kind in ("pods", "classes", "runtimes", "foreign"))
    unused = found.rmids["limbo" if node.refused else "free"]
    assert unused == (
        sum(found.free_by_class.values()) if node.of_each_class else min(node.rmids.values()) - len(found.owners)
    )


def test_smaller_limit_counts_and_the_program_with_most_groups_is_the_greediest() -> None:
    found = account_of(Facts({"L3": 64, "PERF_PKG": 5}, 0, 0, {"": ["a"]}, {"a": "shop/web"}, {}))
    assert (sum(found.rmids.values()), found.rmids["free"]) == (5, 3)
    assert found.as_line() == "RMIDs by owner: 1 pod, 1 class, 3 free; PERF_PKG limits the groups to 5 RMIDs"
    assert [creator_of(name).name for name in ("mine", "c1")] == [UNKNOWN.name] * 2
    assert "resctrl-mon" in creator_of("3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01").name
    assert creator_of("c1", by_runtime=True) == RUNTIME
    groups = {"": ["pqos-1-0", "pqos-1-1", "mine", "c1"]}
    most = not_none(greediest(account_of(Facts({"L3": 16}, 4, 0, groups, {}, {"c1": "c1"}))))
    assert (most[0].name, [one.group for one in most[1]]) == ("pqos", ["pqos-1-0", "pqos-1-1"])
    assert greediest(account_of(Facts({"L3": 16}, 4, 0, {"": []}, {}, {}))) is None


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
        event = self.chances.choice(["start", "start", "own", "end", "add", "class", "remove", "reconcile"])
        number, of = self.chances.randrange(99), self.node
        with suppress(OSError):  # the kernel has refused it
            if event == "start":
                self.pods.append(of.start("shop"))
            elif event == "own":
                self.pods.append(of.start("own", own_group=True))
            elif event == "end" and self.pods:
                of.end(self.pods.pop(number % len(self.pods)))
            elif event == "add":
                parent = self.chances.choice(["", *(f"{name}/" for name in self.made if "/" not in name)])
                self.mkdir(f"{parent}mon_groups/pqos-{len(self.made)}-{number}")
            elif event == "class":
                self.mkdir(f"class{number % 9}")
            elif event == "remove" and self.made:
                name = self.made[number % len(self.made)]
                self.made = [one for one in self.made if one != name and not one.startswith(f"{name}/")]
                of.kernel.rmdir(f"{self.root}/{name}")
            elif event == "reconcile":
                of.reconcile()

    def mkdir(self, name: str) -> None:
        self.node.kernel.mkdir(f"{self.root}/{name}")
        self.made.append(name)

    def unused(self, rdt_class: str) -> int:
        """Return how many groups the kernel lets us create in a class; they are removed again."""
        folder, made = os.path.normpath(f"{self.root}/{rdt_class}/mon_groups"), 0
        with suppress(OSError):
            while True:
                self.node.kernel.mkdir(f"{folder}/probe{made}")
                made += 1
        for number in range(made):
            self.node.kernel.rmdir(f"{folder}/probe{number}")
        return made


@pytest.mark.parametrize("kind", ["AMD", *(pytest.param(one, marks=pytest.mark.ci) for one in KINDS if one != "AMD")])
def test_sum_is_the_kernels_number_in_every_state(tmp_path: Path, kind: str) -> None:
    node = SharedNode(tmp_path, limbo=0, **KINDS[kind])
    resctrl = node.context().monitor.resctrl
    churn = Churn(node, 45)
    seen = set()
    for number in range(STATES):
        churn.step()
        found = not_none(gather(node.context()).account)
        assert sum(found.rmids.values()) == total_rmids(resctrl)
        assert sum(found.closids.values()) == total_closids(resctrl)
        if number % 10 == 0:
            each = found.free_by_class or {"": found.rmids["free"] + found.rmids["limbo"]}
            assert {name: churn.unused(name) for name in each} == each
        seen |= {owner for owner, count in found.rmids.items() if count}
    assert seen >= {"pods", "classes", "runtimes", "foreign", "free"}
    assert (NO_CLASS in seen) == (kind == "Arm")
