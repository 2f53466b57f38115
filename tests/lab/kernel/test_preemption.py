"""A pod of high priority on a full node: counted from its first instruction, while another pod then waits.

Values are compared with the processor's own ledger (tests/lab/kernel/counted/truth.py).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.counted.truth import ROOT, Truth, mounted_with, rmid_of
from kernel.groups import Resctrl, place_of
from kernel.installed import Installed
from kernel.pods import KubernetesPod
from kernel.runtimes import wait_until

NEAR = 0.02
"""Tolerance of reported values."""
ALIKE = 0.05
"""How far the same work done twice may differ."""
COPY = "dd if=/dev/zero of=/dev/null bs=1M count=20 2>/dev/null"
WORK = f"{COPY}; touch /dev/done; sleep 1000"
EVER = "while :; do dd if=/dev/zero of=/dev/null bs=1M count=1 2>/dev/null; sleep 1; done"
RULES = [{"namespaces": ["gold"], "value": 100}, {"namespaces": ["batch"], "value": -10}]


# That a hook comes before the first instruction under both runtimes is shown in test_first_instruction.
pytestmark = [
    pytest.mark.only(driver="cgroupfs", runtime_name="crun"),
    pytest.mark.settings(monitoring={"priority": RULES, "events": ["mbm_total_bytes"]}),
]


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs, none of which the test before has left in limbo."""
    with mounted_with("debug"):
        mounted = Resctrl(ROOT)
        mounted.settle()
        yield mounted


def start(pod: KubernetesPod, name: str, command: str, namespace: str) -> int:
    return pod.start(name, command, annotations={"io.kubernetes.pod.namespace": namespace})


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
    usual = installed.total_bytes(alone.uid)
    alone.end("alone")
    alone.remove()
    low = {pod.uid: start(pod, f"low{number}", EVER, "batch") for number, pod in enumerate(batch)}
    reconciled(installed, lambda: {installed.states().get(key) for key in low} == {"assigned"}, "all are counted")

    before = {key: installed.total_bytes(key) for key in low}
    truth = Truth(int(boot["rmids"]), domains=1)
    after = {key: installed.total_bytes(key) for key in low}  # they go on meanwhile: the truth begins between the two
    pid = start(gold, "gold", WORK, "gold")
    assert place_of(pid).group == gold.uid
    has_copied(pid)
    now = installed.states()
    (loser,) = [key for key in low if now[key] == waits]
    real = sum(truth.of(rmid_of(Resctrl(ROOT).path(group=gold.uid))))
    mine, kept = installed.total_bytes(gold.uid), installed.total_bytes(loser)
    # The same RMID's, before its handover.
    most, least = (kept - read[loser] if waits == "waiting" else 0 for read in (before, after))
    print(f"counted {mine} bytes, alone {usual}; its RMID moved {real}, of which {least} to {most} for the pod before")
    assert now[gold.uid] == "assigned"
    assert kept >= before[loser]
    assert mine + least - NEAR * real < real < mine + most + NEAR * real
    assert abs(mine - usual) < ALIKE * usual

    installed.reconcile()
    assert installed.total_bytes(loser) == kept, "what works without being counted adds nothing"
    assert installed.states()[loser] == waits
    gold.end("gold")
    gold.cgroup.rmdir()
    reconciled(installed, lambda: installed.states().get(loser) == "assigned", "it is counted again")
    assert place_of(low[loser]).group == loser
    wait_until(lambda: installed.total_bytes(loser) > kept, "it counts on from there")
