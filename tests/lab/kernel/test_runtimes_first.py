"""Containers for which a real runtime creates groups or classes, on a node whose pods want every RMID.

runc 1.3 knows no `enableMonitoring`: without `closID` it creates a class for a container, which takes a CLOSID and an
RMID. crun creates a group, or a class and a group (runtime-spec, config-linux.md, "intelRdt").
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.containers import Containers, Hooks
from kernel.groups import Resctrl
from kernel.local_pods import Pods
from kernel.runtimes import Failed
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

RMIDS = 16
PODS = 18
OWN = 1 << 64
"""The first container's id as a number; those of pods begin with 0."""
SHARED_CLASS = "team"
OWN_CLASS = {"l3CacheSchema": "L3:0=f"}
KINDS: dict[str, list[dict[str, Any]]] = {
    "runc": [OWN_CLASS],
    "crun": [{"closID": SHARED_CLASS, "enableMonitoring": True}, OWN_CLASS, {"enableMonitoring": True}],
}
"""The values of `linux.intelRdt` of the containers, in turn. The last one of crun's takes two RMIDs."""
GUESTS = [
    pytest.param(250, marks=pytest.mark.guest(rmids=RMIDS, closids=8), id="intel"),
    pytest.param(50, marks=pytest.mark.guest(rmids=2 * RMIDS, closids=8, cpus=4, numa=4, snc=2), id="snc"),
    pytest.param(50, marks=pytest.mark.guest(rmids=RMIDS, closids=8, amd=1, counters=8), id="amd"),
    pytest.param(50, marks=pytest.mark.guest(cpus=4, aet=1, perf_rmids=RMIDS, arguments="rdt=energy,perf"), id="aet"),
]
"""How many containers start in which guest. The default reserve is at most a quarter of the RMIDs; here four can be
needed: two containers with a class and a group each, one of them in limbo."""
WITH_HOOKS = 10
"""One of so many containers calls the hook; reconcile finds the others, which start faster in a slow guest."""

pytestmark = pytest.mark.only(driver="cgroupfs")


@pytest.fixture
def own(containers: Containers, context: Context) -> "Own":
    return Own(containers, context)


@pytest.fixture
def storm(resctrl: Resctrl, context: Context, own: "Own", tmp_path: Path) -> Iterator[Pods]:
    """Return more pods than RMIDs, on a node that has seen a container of each kind: the reserve follows from these."""
    resctrl.make(SHARED_CLASS)
    resctrl.settle()
    seen = [own.start() for _ in KINDS[own.runtime.name]]
    reconcile(context, Options(wait=False))
    for name in seen:
        own.end(name)
    pods = Pods(tmp_path, context)
    for _ in range(PODS):
        pods.start()
    assert context.ledger.marked("waiting")
    yield pods
    pods.clean()


class Own:
    """Containers for which a runtime creates groups or classes, one kind after another."""

    def __init__(self, containers: Containers, context: Context) -> None:
        self._containers, self.runtime, self.context = containers, containers.runtime, context
        self.refused: dict[str, str] = {}
        self.started = 0

    def start(self) -> str:
        """Create a container; return its id, empty if the runtime has failed."""
        name = f"{OWN + self.started:064x}"
        rdt = KINDS[self.runtime.name][self.started % len(KINDS[self.runtime.name])]
        hooks: Hooks | None = {} if self.started % WITH_HOOKS else None
        self.started += 1
        try:
            self._containers.create(name, ["/bin/sleep", "10000"], hooks=hooks, intelRdt=rdt)
        except Failed as error:
            self.refused[name] = f"{rdt}: {str(error)[-300:]}"
            return ""
        return name

    def end(self, name: str) -> None:
        """End one."""
        self.runtime.delete(name, force=True)


def kinds_of_owners(number: int, storm: Pods, own: Own) -> set[str]:
    """Start containers one after another; each ends directly before the next one's start, or after it.

    Before each of them reconcile runs, and a pod ends and another one starts. What ended earlier is out of limbo: the
    reserve is for one container's, and the kernel's worker ends limbo once a second (Linux, CQM_LIMBOCHECK_INTERVAL).
    The owners' sum is checked sometimes.
    """
    seen: set[str] = set()
    last = ""
    resctrl = own.context.monitor.resctrl
    for count in range(number):
        reconcile(own.context, Options(wait=False))
        Resctrl(resctrl.root).settle()
        storm.end()
        storm.start()
        if last and count % 2:
            own.end(last)
            last = ""
        now = own.start()
        if count < len(KINDS[own.runtime.name]) or count % WITH_HOOKS == 0:
            found = gather(own.context).account
            assert found is not None
            assert sum(found.rmids.values()) == total_rmids(resctrl)
            assert sum(found.closids.values()) == total_closids(resctrl)
            seen |= {"group" if one.group else "class" for one in found.of("runtimes")}
            print(f"{count}: {found.as_line()}; refused {len(own.refused)}", flush=True)
        if last:
            own.end(last)
        last = now
    return seen


def check(number: int, storm: Pods, own: Own) -> None:
    seen = kinds_of_owners(number, storm, own)
    assert own.refused == {}
    assert seen == ({"class"} if own.runtime.name == "runc" else {"class", "group"})
    assert own.context.ledger.marked("waiting")


@pytest.mark.guest(rmids=RMIDS, closids=8)
def test_no_container_of_a_runtime_lacks_an_rmid_while_pods_start(storm: Pods, own: Own) -> None:
    check(6, storm, own)


@pytest.mark.measures
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", GUESTS)
def test_no_container_of_hundreds_lacks_an_rmid_while_pods_start(number: int, storm: Pods, own: Own) -> None:
    check(number, storm, own)
