"""The plugin in the test's own process, where most of its work is tested."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host
from hosts.machines import machine, write_sysfs

from resctrl_hooks.core.node.host.notify import Notify
from resctrl_hooks.nri.node.plugin import NodePlugin
from resctrl_hooks.nri.node.protobuf import encode
from resctrl_hooks.nri.node.status import Status
from resctrl_hooks.nri.node.worker import unpack

Answer = tuple[int, bytes, bytes]
"""Code, payload and updates of other containers."""
NOTHING: Answer = (0, b"", b"")
OK = (0, "", b"")
POD = {
    "id": "s" * 64,
    "name": "web-0",
    "uid": UID,
    "namespace": "shop",
    "labels": {"app": "web"},
    "linux": {"cgroup_parent": POD_CGROUP},
}
CLASS = "class.memtierd.nri.io"
FAIL = {"failurePolicy": "fail"}
SCHEDULING = {
    "enabled": True,
    "allow": {"*": ["*"]},
    "classes": {"quick": {"policy": "fifo", "priority": 7, "ioClass": "best-effort", "cpuWeight": 200}},
}
QUICK: dict[str, Any] = {**POD, "annotations": {"class.scheduling.resctrl-hooks.io": "quick"}}
LIMITS: dict[str, Any] = {"memory": {"allowLimits": {"*": ["*"]}}, "classes": [{"name": "batch", "allowswap": True}]}
MEMORY: dict[str, Any] = {**POD, "annotations": {CLASS: "batch", "memory.high.memtierd.nri.io": "64M"}}


def container(pid: int = 0, id_: str = ID, name: str = "c0", **more: Any) -> dict[str, Any]:
    return {"id": id_, "pod_sandbox_id": POD["id"], "name": name, **({"pid": pid} if pid else {}), **more}


def message(pid: int = 0, pod: dict[str, Any] = POD, **more: Any) -> bytes:
    return encode("ContainerEvent", {"pod": pod, "container": container(pid, **more)})


def log(host: Host) -> str:
    return host.log.read_text() if host.log.exists() else ""


def plugin_of(host: Host, **config: Any) -> NodePlugin:
    """Return a plugin with such settings, in this process."""
    host.configure(**config)
    status = Status(str(host.state), "")
    plugin = NodePlugin("resctrl-hooks", "90", str(host.config), notify=Notify(), status=status, stderr=False)
    plugin.configure({"request_timeout": 1000})
    return plugin


def answer_of(serve: Callable[[Callable[[int, bytes], None]], object]) -> Answer:
    """Return the only reply of what this process serves."""
    replies: list[tuple[int, bytes]] = []
    serve(lambda code, answer: replies.append((code, answer)))
    ((code, answer),) = replies
    return (code, *unpack(answer))


def served(plugin: NodePlugin, event: str, payload: bytes) -> Answer:
    return answer_of(lambda reply: plugin.serve(event, payload, reply))


def synchronized(plugin: NodePlugin, *containers: dict[str, Any], pod: dict[str, Any] = POD) -> Answer:
    parts = [encode("SynchronizeRequest", {"pods": [pod], "containers": [*containers]})]
    return answer_of(lambda reply: plugin.synchronize(parts, reply))


def placement(host: Host, **section: Any) -> dict[str, Any]:
    """Return the settings of a machine of four CPUs with placement."""
    section = {"enabled": True, "allow": {"*": ["*"]}, "kubeletPath": str(host.root / "kubelet"), **section}
    return {"sysPath": write_sysfs(machine(cores=4, threads=1), host.root / "sys"), "placement": section}


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    """Restore the handler of the alarm, which a deadline sets."""
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)
