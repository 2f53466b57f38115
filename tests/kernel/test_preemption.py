"""A pod of high priority on a full node: counted from its first instruction, while another pod then waits.

Values are compared with the processor's own ledger (tests/kernel/counted/truth.py).
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.counted.truth import ROOT, Truth, mounted_with, rmid_of
from kernel.groups import Resctrl, place_of
from kernel.installed import Installed, succeeds
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.settings import load

TOTAL = "mbm_total_bytes"
NEAR = 0.02
"""Tolerance of reported values."""
ALIKE = 0.05
"""How far the same work done twice may differ."""
COPY = "dd if=/dev/zero of=/dev/null bs=1M count=20 2>/dev/null"
WORK = f"{COPY}; touch /dev/done; sleep 1000"
EVER = "while :; do dd if=/dev/zero of=/dev/null bs=1M count=1 2>/dev/null; sleep 1; done"
RULES = [{"namespaces": ["gold"], "value": 100}, {"namespaces": ["batch"], "value": -10}]


# That a hook comes before the first instruction under both runtimes is shown in test_first_instruction.
pytestmark = pytest.mark.only(driver="cgroupfs", runtime_name="crun")


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs, none of which the test before has left in limbo."""
    with mounted_with("debug"):
        mounted = Resctrl(ROOT)
        mounted.settle()
        yield mounted


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(str(tmp_path / "host"), monitoring={"priority": RULES, "events": [TOTAL]})


def start(pod: KubernetesPod, name: str, command: str, namespace: str) -> int:
    return pod.start(name, command, annotations={"io.kubernetes.pod.namespace": namespace})


def said(installed: Installed, key: str) -> int:
    """Return a key's traffic, from the library."""
    readings = Context(load(installed.config)[0]).monitor.read(key)
    return sum(int(one.value or 0) for one in readings if one.counter.name == TOTAL)


def states(installed: Installed) -> dict[str, str]:
    listed = json.loads(succeeds("--config", installed.config, "list", "-o", "json"))
    return {pod["key"]: pod["state"] for pod in listed["items"]}


def reconciled(installed: Installed, wanted: Callable[[], bool], what: str) -> None:
    """Reconcile until something holds: RMIDs stay in limbo for a second or more."""

    def holds() -> bool:
        installed.reconcile(check=False)
        return wanted()

    wait_until(holds, what)


def has_copied(pid: int) -> None:
    wait_until(lambda: Path(f"/proc/{pid}/root/dev/done").exists(), "it has copied")


@pytest.mark.parametrize(
    "counted, waits",
    [
        pytest.param(4, "waiting", id="RMIDs", marks=pytest.mark.guest(rmids=5, count=1, cpus=1)),
        pytest.param(
            4, "uncounted", id="counters", marks=pytest.mark.guest(amd=1, rmids=32, counters=4, count=1, cpus=1)
        ),
    ],
)
def test_high_priority_pod_on_full_node_is_counted_from_first_instruction(
    pods: list[KubernetesPod], installed: Installed, boot: dict[str, Any], counted: int, waits: str
) -> None:
    alone, gold, *batch = pods[:2] + pods[2 : 2 + counted]
    has_copied(start(alone, "alone", WORK, "gold"))
    usual = said(installed, alone.uid)
    alone.end("alone")
    alone.remove()
    low = {pod.uid: start(pod, f"low{number}", EVER, "batch") for number, pod in enumerate(batch)}
    reconciled(installed, lambda: {states(installed).get(key) for key in low} == {"assigned"}, "all are counted")

    before = {key: said(installed, key) for key in low}
    truth = Truth(int(boot["rmids"]), domains=1)
    after = {key: said(installed, key) for key in low}  # they go on meanwhile: the truth begins between the two
    pid = start(gold, "gold", WORK, "gold")
    assert place_of(pid).group == gold.uid
    has_copied(pid)
    now = states(installed)
    (loser,) = [key for key in low if now[key] == waits]
    real = sum(truth.of(rmid_of(Resctrl(ROOT).path(group=gold.uid))))
    mine, kept = said(installed, gold.uid), said(installed, loser)
    # The same RMID's, before its handover.
    most, least = (kept - read[loser] if waits == "waiting" else 0 for read in (before, after))
    print(f"counted {mine} bytes, alone {usual}; its RMID moved {real}, of which {least} to {most} for the pod before")
    assert now[gold.uid] == "assigned"
    assert kept >= before[loser]
    assert mine + least - NEAR * real < real < mine + most + NEAR * real
    assert abs(mine - usual) < ALIKE * usual

    installed.reconcile()
    assert said(installed, loser) == kept, "what works without being counted adds nothing"
    assert states(installed)[loser] == waits
    gold.end("gold")
    gold.cgroup.rmdir()
    reconciled(installed, lambda: states(installed).get(loser) == "assigned", "it is counted again")
    assert place_of(low[loser]).group == loser
    wait_until(lambda: said(installed, loser) > kept, "it counts on from there")
