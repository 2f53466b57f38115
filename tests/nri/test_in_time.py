"""What comes of an event when somebody else keeps a lock that it needs, or its time runs out: in this process."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import POD_CGROUP, UID, Host
from machines import machine, write_sysfs

from nri.test_events import CLASS, POD, container, host
from resctrl_hooks.node.errors import DeadlineError
from resctrl_hooks.node.features.placement.allocations import LOCK
from resctrl_hooks.nri import events
from resctrl_hooks.nri.notify import Notify
from resctrl_hooks.nri.plugin import NodePlugin
from resctrl_hooks.nri.protobuf import decode, encode
from resctrl_hooks.nri.status import Status

__all__ = ["host"]
TIMEOUT = 1000
"""Milliseconds, of which 700 are an event's deadline."""
OTHER = {"uid": UID[:-1] + "2", "cgroup": POD_CGROUP[:-1] + "2"}


@pytest.fixture
def serve(host: Host) -> Iterator[Callable[..., tuple[int, bytes]]]:
    """Has a plugin, made anew as in a child, serve a CreateContainer: status, and the answer or why it is refused."""

    def make(pod: dict[str, Any], id_: str = "a" * 64, **config: Any) -> tuple[int, bytes]:
        host.configure(runtimeRoots={"runc": str(host.root / "none")}, **config)
        status = Status(str(host.state), "")
        plugin = NodePlugin("resctrl-hooks", "90", str(host.config), notify=Notify(), status=status, stderr=False)
        plugin.configure({"request_timeout": TIMEOUT})
        code, answer, _ = plugin.serve(
            "CreateContainer", encode("ContainerEvent", {"pod": pod, "container": container(id_=id_)})
        )
        return code, answer

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


def test_who_can_not_have_its_pods_lock_in_time_is_refused(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    with host.context().ledger.lock(UID, 0):
        code, words = serve(POD, failurePolicy="fail")
    assert code == 2
    assert words.startswith(b"monitoring: ")
    assert b"was held for 0.56 s" in words, "patience is a part of what this runtime gives an event"


def test_a_turn_that_does_not_come_leaves_time_to_refuse(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    config = crowded(host)
    low = {**POD, "uid": OTHER["uid"], "namespace": "batch", "linux": {"cgroup_parent": OTHER["cgroup"]}}
    assert serve(low, **config) == (0, b"")
    with host.context().ledger.lock_named("handover", 0):
        code, words = serve(POD, **config)
    assert code == 2
    assert b"the free RMIDs are kept for pods of priorities above 50" in words


def test_a_pod_that_is_refused_waits_for_nothing(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, b"")
    ledger = host.context().ledger
    assert serve(POD, **config)[0] == 2
    assert (ledger.marked("waiting"), ledger.keys()) == ([], [OTHER["uid"]])


def test_unless_it_was_there_before(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    """What was counted for it must not be lost, and it waits already."""
    config = crowded(host)
    assert serve({**POD, "uid": OTHER["uid"], "linux": {"cgroup_parent": OTHER["cgroup"]}}, **config) == (0, b"")
    ledger = host.context().ledger
    with host.context().monitor.hold(UID) as locked:
        locked.save()
    assert serve(POD, **config)[0] == 2
    assert ledger.marked("waiting") == [UID]


def placed_with_mounts(host: Host) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod whose containers get a cpuset and what their class brings, and the settings of its node."""
    config = {
        "sysPath": write_sysfs(machine(cores=4, threads=1), host.root / "sys"),
        "monitoring": {"enabled": False},
        "placement": {"enabled": True, "kubeletPath": str(host.root / "kubelet")},
        "nri": {"adjust": ["placement"], "allow": {"*": ["batch"]}},
        "classes": [{"name": "batch", "mounts": [{"source": "/usr", "destination": "/host-usr"}]}],
    }
    return {**POD, "annotations": {CLASS: "batch"}}, config


def test_a_cpuset_that_can_not_be_noted_costs_no_mount(host: Host, serve: Callable[..., tuple[int, bytes]]) -> None:
    pod, config = placed_with_mounts(host)
    with host.context().ledger.lock_named(LOCK, 0):
        code, answer = serve(pod, **config)
    assert not code
    adjusted = decode("CreateContainerResponse", answer)["adjust"]
    assert [mount["destination"] for mount in adjusted["mounts"]] == ["/host-usr"]
    assert "linux" not in adjusted, "nobody would know that the cpuset is no choice of somebody else's"
    assert "gets its cpuset only when it starts" in host.log.read_text()


@pytest.mark.parametrize("error", [DeadlineError("the hook's deadline passed"), OSError(28, "No space left on device")])
def test_nor_does_any_other_trouble_with_that(
    host: Host, serve: Callable[..., tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    pod, config = placed_with_mounts(host)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(events, "note", fail)
    code, answer = serve(pod, **config)
    assert not code
    assert decode("CreateContainerResponse", answer)["adjust"].keys() == {"mounts"}
