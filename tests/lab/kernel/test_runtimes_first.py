"""Containers for which a real runtime creates groups or classes, on a node whose pods want every RMID."""

import itertools
from typing import Any

import pytest
from hosts.node import Container, pod_number

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.pods import Containers, Hooks
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

PODS = 18
OWN = 1 << 64  # the first container's id as a number; those of pods begin with 0
SHARED_CLASS = "team"
OWN_CLASS = {"l3CacheSchema": "L3:0=f"}
KINDS: dict[str, list[dict[str, Any]]] = {
    "runc": [OWN_CLASS],
    "crun": [{"closID": SHARED_CLASS, "enableMonitoring": True}, OWN_CLASS, {"enableMonitoring": True}],
}
"""The values of `linux.intelRdt` of the containers, in turn. One of crun's takes two RMIDs."""


class Own:
    """Containers for which a runtime creates groups or classes, one kind after another."""

    def __init__(self, containers: Containers) -> None:
        self._containers, self.runtime, self._started = containers, containers.runtime, 0
        self.kinds = KINDS[containers.runtime.name]

    def start(self) -> str:
        """Create a container; return its id."""
        name = f"{OWN + self._started:064x}"
        rdt = self.kinds[self._started % len(self.kinds)]
        hooks: Hooks | None = {} if self._started else None  # one calls the hook; reconcile finds the others
        self._started += 1
        self._containers.create(name, ["/bin/sleep", "10000"], hooks=hooks, intelRdt=rdt)
        return name


@pytest.mark.only(driver="cgroupfs")
def test_no_container_of_a_runtime_lacks_an_rmid_while_pods_start(
    containers: Containers, context: Context, installed: Installed, resctrl: Resctrl
) -> None:
    """The node has seen a container of each kind, from which the reserve for runtimes follows.

    Containers end directly before the next one's start, or after it. What ended earlier is out of limbo: the reserve is
    for one container's, and the kernel's worker ends limbo once a second (Linux, CQM_LIMBOCHECK_INTERVAL).
    """
    own, number = Own(containers), itertools.count()
    resctrl.make(SHARED_CLASS, *(f"mon_groups/other{count}" for count in range(resctrl.rmids - 16)))
    resctrl.settle()
    seen = [own.start() for _ in own.kinds]
    reconcile(context, Options(wait=False))
    for name in seen:
        own.runtime.delete(name, force=True)
    owners, last = set[str](), ""

    def start_pod() -> None:
        """Start a pod of one process, whose hook runs in this process: fast enough for many in a slow guest."""
        count = next(number)
        installed.start(Container(f"{count:064x}", pod_number(count)))

    def end_pod() -> None:
        """End the oldest one."""
        ended = installed.containers.pop(0)
        installed.end(ended)
        installed.poststop(ended.id)

    try:
        for _ in range(PODS):
            start_pod()
        assert context.ledger.marked("waiting")
        for count in range(6):
            reconcile(context, Options(wait=False))
            resctrl.settle()
            end_pod()
            start_pod()
            before = last and count % 2
            if before:
                own.runtime.delete(last, force=True)
            now = own.start()
            account = gather(context).account
            assert account is not None
            assert sum(account.rmids.values()) == total_rmids(context.monitor.resctrl), account.as_line()
            assert sum(account.closids.values()) == total_closids(context.monitor.resctrl), account.as_line()
            owners |= {"group" if one.group else "class" for one in account.of("runtimes")}
            if last and not before:
                own.runtime.delete(last, force=True)
            last = now
        assert owners == ({"class"} if own.runtime.name == "runc" else {"class", "group"})
        assert context.ledger.marked("waiting")
    finally:
        while installed.containers:
            end_pod()
