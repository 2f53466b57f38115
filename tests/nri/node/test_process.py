"""The real command on a made-up host, with a runtime that tells of pods: what only its processes together show."""

from collections.abc import Callable
from pathlib import Path

from conftest import ID, POD_CGROUP, Host

from nri.node.conftest import POD, Plugin, configure, container


def test_changed_settings_apply_to_next_event(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start().greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    configure(host, namespaces=["other"])
    peer.event("StartContainer", POD, container(41))
    assert host.groups() == []


def test_plugin_memory_stays_small(host: Host, start: Callable[..., Plugin]) -> None:
    sections = {"enabled": True}
    plugin = start(rdt=sections, blockio=sections, scheduling=sections, classes=[{"name": "batch", "allowswap": True}])
    plugin.greet()
    status = Path(f"/proc/{plugin.process.pid}/status").read_text()
    resident = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    assert resident < 30 * 1024
