"""Placement by the NRI plugin: cpusets in containers' own specifications, and in those of displaced containers."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.containerd import Containerd, Pod
from kernel.nri_plugin import Plugin
from kernel.runtimes import wait_until
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.placement.node.allocations import LOCK

HOUSES = ("placement", "nri")
pytestmark = pytest.mark.guest(cpus=4)
CPUS = "cpus.placement.resctrl-hooks.io"
LOOK = ["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000"]
PLACEMENT: dict[str, Any] = {"monitoring": {"enabled": False}, "nri": {"adjust": ["placement"]}}
TOLD = "sent the cpusets of 1 containers to the runtime"
PATIENCE = 60.0
ALLOWED = {"enabled": True, "allow": {"shop": ["*"]}}


def has(pod: Pod, container: str) -> int:
    """Return the CPUs that a container's processes may run on."""
    status = Path(f"/proc/{pod.pid(container)}/status").read_text()
    return parse_list(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))


def specified(pod: Pod, container: str) -> int:
    """Return those that its specification says."""
    return parse_list(pod.specification(container)["linux"]["resources"].get("cpu", {}).get("cpus", ""))


def test_cpusets_are_in_specifications_also_of_displaced_containers(
    node: Containerd, plugin: Callable[..., Plugin]
) -> None:
    served = plugin(placement=ALLOWED, **PLACEMENT).start()
    shares = node.pod("shares")
    first = shares.run("c0", LOOK)
    before = has(shares, first)
    assert before == specified(shares, first) != 0, served.said()

    owner = node.pod("owner", annotations={CPUS: "exclusive:3"})
    second = owner.create("c0", LOOK)
    assert has(shares, first) == before, "no CPU is exclusive yet"
    promised = specified(owner, second)
    assert promised.bit_count() == 3
    owner.start(second)
    assert has(owner, second) == promised == specified(owner, second)
    left = has(shares, first)
    assert left
    assert not left & promised
    wait_until(lambda: specified(shares, first) == left, "the runtime is told of the one who made room")

    owner.stop(second)
    wait_until(lambda: has(shares, first) == before, "and has its CPUs again")
    wait_until(lambda: specified(shares, first) == before, "in its specification too")
    assert "cannot send cpusets" not in served.said()
    assert served.status()["drops"] == 0


def test_runtime_that_dies_gets_pending_cpusets_after_restart(node: Containerd, plugin: Callable[..., Plugin]) -> None:
    served = plugin(placement=ALLOWED, deadlineSeconds=PATIENCE, **PLACEMENT).start()
    shares, owner = node.pod("shares"), node.pod("owner", annotations={CPUS: "exclusive:3"})
    first = shares.run("c0", LOOK)
    before = has(shares, first)
    second = owner.run("c0", LOOK)
    wait_until(lambda: specified(shares, first) == has(shares, first) != before, "it has made room")

    position = len(served.said())
    with Ledger(served.state).lock_named(LOCK, PATIENCE):  # so that the event is in its midst
        stopping = node.begin("StopContainer", container_id=second, timeout=0)
        wait_until(lambda: is_waiting(served), "a process serves StopContainer")
        node.stop(signal.SIGKILL)
        wait_until(lambda: not served.status()["connected"], "the plugin has lost the runtime")
    stopping.exception()  # an answer or none: the plugin answered before its work
    wait_until(lambda: "StopContainer of shop/owner/c0: " in served.said()[position:], "the event is served")
    assert TOLD in served.said()[position:], "the plugin logs the update"

    position = len(served.said())
    node.start()
    wait_until(lambda: TOLD in served.said()[position:], "it is told again, by the runtime's own list")
    wait_until(lambda: specified(shares, first) == before == has(shares, first), "and knows it now")


def is_waiting(served: Plugin) -> bool:
    """Whether a process that serves its events naps until a lock is free; one that stands by waits for a message."""
    assert served.process is not None
    pid = served.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return any("nanosleep" in Path(f"/proc/{child}/wchan").read_text() for child in children)
