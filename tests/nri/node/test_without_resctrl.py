"""The plugin on a node that cannot have resctrl: containers start quietly, requested classes fail by their policy."""

from pathlib import Path

import pytest
from conftest import ID, POD_CGROUP, Host

from nri.node.conftest import NOTHING, POD, container, log, message, plugin_of, served, synchronized

pytestmark = pytest.mark.usefixtures("alarm")


@pytest.fixture
def node(tmp_path: Path) -> Host:
    host = Host(tmp_path, resctrl=tmp_path / "sys/fs/resctrl")
    (host.proc / "filesystems").write_text("nodev\tproc\n")
    (host.proc / "cpuinfo").write_text("flags\t\t: fpu hypervisor\n")
    return host


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_container_starts_quietly_without_resctrl(node: Host, policy: str) -> None:
    plugin = plugin_of(node, failurePolicy=policy)
    assert served(plugin, "CreateContainer", message()) == NOTHING
    node.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    assert "resctrl" not in "".join(line for line in log(node).splitlines() if not line.startswith("<31>"))


def test_line_is_logged_once_when_runtimes_connect(node: Host) -> None:
    plugin = plugin_of(node)
    node.process(41, f"{POD_CGROUP}/{ID}")
    for _ in range(2):
        synchronized(plugin, container(41))
    lines = [line for line in log(node).splitlines() if "this node has no resctrl" in line]
    assert [line[:4] for line in lines if not line.startswith("<31>")] == ["<29>"]


@pytest.mark.parametrize("policy, refused", [("ignore", False), ("fail", True)])
def test_requested_class_fails_by_its_policy_at_creation(node: Host, policy: str, refused: bool) -> None:
    plugin = plugin_of(node, rdt={"enabled": True, "allow": {"*": ["*"]}, "failurePolicy": policy})
    pod = {**POD, "annotations": {"class.rdt.resctrl-hooks.io": "gold"}}
    code, answer, _ = served(plugin, "CreateContainer", message(pod=pod))
    assert (b"this node has no resctrl" in answer) is refused
    assert (code != 0) is refused
