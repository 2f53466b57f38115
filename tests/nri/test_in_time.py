"""What comes of an event when somebody else keeps a lock that it needs, or its time runs out: in this process."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import POD_CGROUP, UID, Host

from nri.test_events import POD, container, host
from resctrl_hooks.nri.notify import Notify
from resctrl_hooks.nri.plugin import NodePlugin
from resctrl_hooks.nri.protobuf import encode
from resctrl_hooks.nri.status import Status

__all__ = ["host"]
TIMEOUT = 1000
"""Milliseconds, of which 700 are an event's deadline."""
OTHER = {"uid": UID[:-1] + "2", "cgroup": POD_CGROUP[:-1] + "2"}


@pytest.fixture
def serve(host: Host) -> Iterator[Callable[..., tuple[int, str]]]:
    """Has a plugin, made anew as in a child, serve a CreateContainer: status and why it is refused."""

    def make(pod: dict[str, Any], id_: str = "a" * 64, **config: Any) -> tuple[int, str]:
        host.configure(runtimeRoots={"runc": str(host.root / "none")}, **config)
        status = Status(str(host.state), "")
        plugin = NodePlugin("resctrl-hooks", "90", str(host.config), notify=Notify(), status=status, stderr=False)
        plugin.configure({"request_timeout": TIMEOUT})
        code, answer, _ = plugin.serve(
            "CreateContainer", encode("ContainerEvent", {"pod": pod, "container": container(id_=id_)})
        )
        return code, answer.decode() if code else ""

    before = signal.getsignal(signal.SIGALRM)
    yield make
    signal.signal(signal.SIGALRM, before)


def crowded(host: Host) -> dict[str, Any]:
    """The settings of a node with one RMID for pods below 50, which a pod of low priority may have first."""
    (host.resctrl / "info/L3_MON").mkdir(parents=True)
    (host.resctrl / "info/L3_MON/num_rmids").write_text("5\n")
    (host.cgroup / OTHER["cgroup"].lstrip("/")).mkdir(parents=True)
    rules = [{"namespaces": ["batch"], "value": -10}]
    return {"failurePolicy": "fail", "monitoring": {"priority": rules, "reserve": {"rmids": 3, "above": 50}}}


def test_who_can_not_have_its_pods_lock_in_time_is_refused(host: Host, serve: Callable[..., tuple[int, str]]) -> None:
    with host.context().ledger.lock(UID, 0):
        code, words = serve(POD, failurePolicy="fail")
    assert code == 2
    assert words.startswith("monitoring: ")
    assert "was held for 0.56 s" in words, "patience is a part of what this runtime gives an event"


def test_a_turn_that_does_not_come_leaves_time_to_refuse(host: Host, serve: Callable[..., tuple[int, str]]) -> None:
    config = crowded(host)
    low = {**POD, "uid": OTHER["uid"], "namespace": "batch", "linux": {"cgroup_parent": OTHER["cgroup"]}}
    assert serve(low, **config) == (0, "")
    with host.context().ledger.lock_named("handover", 0):
        code, words = serve(POD, **config)
    assert code == 2
    assert "the free RMIDs are kept for pods of priorities above 50" in words


def test_a_pod_that_is_refused_waits_for_nothing(host: Host, serve: Callable[..., tuple[int, str]]) -> None:
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, "")
    ledger = host.context().ledger
    assert serve(POD, **config)[0] == 2
    assert (ledger.marked("waiting"), ledger.keys()) == ([], [OTHER["uid"]])


def test_unless_it_was_there_before(host: Host, serve: Callable[..., tuple[int, str]]) -> None:
    """What was counted for it must not be lost, and it waits already."""
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, "")
    ledger = host.context().ledger
    with host.context().monitor.hold(UID) as locked:
        locked.save()
    assert serve(POD, **config)[0] == 2
    assert ledger.marked("waiting") == [UID]
