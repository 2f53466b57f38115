"""Owners of RMIDs in random states, and starts of a runtime's containers at the limit, on the simulated kernel.

    python tests/bench/owners.py [--states 200] [--starts 500]

It prints the tables of docs/dev/sharing.md. A state is right if the owners' sum is the kernel's number, and the number
of free RMIDs is the number of groups that the kernel then lets us create. A start is a container with
`enableMonitoring` on a node whose other RMIDs all belong to pods; each lives for one start, and its RMID is in limbo
for a second afterwards.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hosts.shared_node import Pod, SharedNode
from inventory.test_account_states import KINDS, Churn, account

from resctrl_hooks.node.resctrl.rmids import total_closids, total_rmids

RMIDS = 16
RESERVES = (0, 1, 2, 4, None)
SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--starts", type=int, default=500)
    options = parser.parse_args()
    print("| processor | states | sum of the owners differs | free RMIDs differ |\n|---|--:|--:|--:|")
    for kind in KINDS:
        print(f"| {kind} | {options.states} | {' | '.join(map(str, differences(kind, options.states)))} |", flush=True)
    print("\n| `reserve.runtimes` | starts | refused |\n|---|--:|--:|")
    for reserve in RESERVES:
        name = "default" if reserve is None else reserve
        print(f"| {name} | {options.starts} | {refused(reserve, options.starts)} |", flush=True)


def differences(kind: str, states: int) -> tuple[int, int]:
    """Return in how many states the sum, and the number of free RMIDs, differ from the kernel's."""
    sums = unused = 0
    with tempfile.TemporaryDirectory() as folder:
        node = SharedNode(Path(folder), limbo=0, **KINDS[kind])
        resctrl = node.context().monitor.resctrl
        churn = Churn(node, 44)
        for _ in range(states):
            churn.step()
            found = account(node)
            numbers = sum(found.rmids.values()), sum(found.closids.values())
            sums += numbers != (total_rmids(resctrl), total_closids(resctrl))
            each = found.free_by_class or {"": found.rmids["free"] + found.rmids["limbo"]}
            unused += {name: churn.unused(name) for name in each} != each
    return sums, unused


def refused(reserve: int | None, starts: int) -> int:
    """Return how many containers of a runtime the kernel refuses a group, after the first one."""
    rules: dict[str, Any] = {} if reserve is None else {"reserve": {"runtimes": reserve}}
    with tempfile.TemporaryDirectory() as folder:
        node = SharedNode(Path(folder), rmids=RMIDS, limbo=1.0, **rules)
        root = node.context().monitor.resctrl.root
        own(node, root)
        node.reconcile()
        for _ in range(RMIDS):
            node.start("shop")
        number = 0
        last: Pod | None = None
        for _ in range(starts):
            node.kernel.now += SECONDS
            pod = own(node, root)
            number += pod is None
            if last is not None:
                node.end(last)
                node.kernel.rmdir(f"{root}/mon_groups/{last.id}")
            last = pod
            node.reconcile()
    return number


def own(node: SharedNode, root: str) -> Pod | None:
    """Start a container whose runtime creates a group for it; None if the kernel refuses the group."""
    try:
        node.kernel.mkdir(f"{root}/mon_groups/{len(node.pods):064x}")
    except OSError:
        return None
    return node.start("own", linux={"intelRdt": {"enableMonitoring": True}})


if __name__ == "__main__":
    main()
