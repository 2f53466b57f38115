"""A node through its life: what `list` and `show` print of pods, groups, owners and demand, as golden texts."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import not_none
from golden import Golden
from hosts.faults import Fail
from hosts.monitored import run
from hosts.shared_node import RULES, SharedNode
from hosts.transcript import Transcript

from resctrl_hooks.core.inventory import demand
from resctrl_hooks.core.inventory.container_names import container_names
from resctrl_hooks.core.inventory.gather import gather, rmids_of
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.errors import HookError

HOUSES = ("lab",)
ODD = [b"\xff", b"a\tb", b"\xfe\\", "a\u2028b".encode()]
"""Names of classes that are refused here: these are counted and shown, and nothing else."""


def make(node: SharedNode, *names: str) -> None:
    for name in names:
        node.kernel.mkdir(f"{node.host.resctrl}/{name}")


def odd_class(node: SharedNode, number: int) -> None:
    name = os.fsdecode(ODD[number])
    make(node, name, f"{name}/mon_groups/{node.pods[0].key}", f"{name}/mon_groups/\udcfd")


def boot(node: SharedNode) -> None:
    node.kernel.boot(2)
    for pod in node.pods:
        pod.pid = 0


EVENTS: dict[str, Callable[[SharedNode], object]] = {
    **{name: lambda node, name=name: node.start(name, threads=2) for name in ("shop", "gold", "silver", "batch")},  # type: ignore[misc]
    "beside": lambda node: node.start("shop", beside=node.pods[0]),
    "own group": lambda node: (node.start("shop", own_group=True), node.reconcile()),
    "end": lambda node: node.end(node.pods[1], pod_lives=True),
    "end pod": lambda node: node.end(node.pods[0]),
    "astray": lambda node: node.kernel.write(f"{node.host.resctrl}/tasks", b"%d\n" % (node.pods[0].pid + 1)),
    "lose": lambda node: node.kernel.rmdir(f"{node.host.resctrl}/mon_groups/{node.pods[2].key}"),
    "foreign": lambda node: make(node, "mon_groups/job", "mon_groups/pqos-7-0"),
    "runtime": lambda node: make(node, f"mon_groups/{node.pods[0].id}"),
    "class": lambda node: make(node, "gold"),
    **{f"odd {number}": lambda node, number=number: odd_class(node, number) for number in range(len(ODD))},  # type: ignore[misc]
    "reconcile": SharedNode.reconcile,
    "boot": boot,
    "mark": lambda node: node.context().ledger.mark("waiting", "unknown"),
}
FEW = (
    "foreign, list, shop, shop, shop, beside, list, end, astray, lose, list, show, shop, list, end pod, list, boot, "
    "list, mark, list"
)
SCENES: dict[str, tuple[dict[str, Any], str]] = {
    "few RMIDs": ({"rmids": 6}, FEW),
    "limbo": ({"rmids": 2, "limbo": 1000.0}, "shop, end pod, shop, list"),
    "owners": ({"rmids": 16}, "shop, foreign, runtime, class, own group, list, list -A -o wide, show"),
    "odd classes": ({"rmids": 24}, "shop, list, odd 0, list, odd 1, odd 2, odd 3, list -o name, list, show"),
    "odd classes, RMIDs of each": ({"rmids": 16, "pmg": 4}, "shop, list, odd 0, list, list --demand"),
    "demand": (
        {"rmids": 8, "priority": RULES, "reserve": {"rmids": 2, "above": 60, "runtimes": 1}},
        "gold, batch, silver, shop, lose, foreign, list --demand, list --demand --no-headers, list",
    ),
    "demand for counters": (
        {"rmids": 16, "assignable_counters": 4, "priority": RULES},
        "foreign, gold, batch, batch, batch, list --demand, list",
    ),
    "queued": ({"rmids": 8, "limits": {"sh*": 1}}, "shop, shop, list"),
    "turns": (
        {"rmids": 3, "share": {"interval": "10s"}},
        "shop, shop, shop, list, list --demand, list --demand -o csv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
def test_list_and_show_of_a_node(tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch, scene: str) -> None:
    options, steps = SCENES[scene]
    node = SharedNode(tmp_path, **options)
    for module in ("list", "show"):
        monkeypatch.setattr(f"resctrl_hooks.core.cli.{module}.open_node", lambda _: node.context())
    told = Transcript()
    for number, step in enumerate(steps.split(", ")):
        if step in EVENTS:
            EVENTS[step](node)
            told.add(number, step, "")
            continue
        words = [*step.split(), "-n", "shop"] if step == "show" else step.split()
        node.kernel.show_counters()
        done = run(node.host, *words)
        if step == "list -o name":
            names = done.stdout.splitlines()
            items = json.loads(run(node.host, "show", *names, "-o", "json").stdout)["items"]
            assert sorted(item["name"] for item in items) == sorted(names)
            assert run(node.host, "list", *names, "-o", "name").stdout == done.stdout
        if scene.startswith("odd classes"):
            context = node.context()
            assert gather(context).rmids == rmids_of(context.monitor.resctrl, 2), "those of the pod and the root class"
        told.add(number, step, re.sub(r"\b\d+s\b", "<age>", done.output), done.exit_code)
    golden(str(told), hide="pid duration time")


def test_containers_have_the_names_of_their_records_and_only_what_can_be_counted_is_in_demand(
    tmp_path: Path, fail: Fail
) -> None:
    node = SharedNode(tmp_path, rmids=16, assignable_counters=4)
    pod = node.start("shop", own_group=True)
    context = node.context()
    record = not_none(context.ledger.read_member(pod.key, pod.id))
    names = "/".join(record[name] for name in ("namespace", "pod", "container"))
    assert container_names(context, {pod.id: pod.key}, {}) == {pod.id: names}
    fail(demand, "holders_of", HookError("unreadable"))
    inventory = gather(context)
    inventory.pods += [Pod(key=state, state=state) for state in ("unmonitored", "no-rdt", "foreign")]
    assert [(one.resource, one.wanted) for one in demand.demand_of(context, inventory)] == [("RMIDs", 1)]
