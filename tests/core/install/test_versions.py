"""A node that goes from an earlier version to this one, back, and again to this one, while pods run.

Each version installs, serves hooks, reconciles and reports with its own code, on a simulated resctrl. The guest has
upgrades while hooks run (`lab/kernel/test_host`).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.monitored import MonitoredHost

from core.install.installed_node import InstalledNode, installed_node
from core.install.staged import files
from core.install.versions import COMMITS, THIS, command
from resctrl_hooks.core.install.paths import MANIFEST, UNITS

HOUSES = ("lab",)
pytestmark = [pytest.mark.ci, pytest.mark.fuse, pytest.mark.no_cover]
CLASS_COUNTER = "resctrl_class_l3_mbm_total_bytes_total"
COUNTERS = ("l3_mbm_total_bytes_total", CLASS_COUNTER)
LEFT_BY = {"0.2.0": {f"{UNITS}/multi-user.target.wants/resctrl-hooks-exec.service"}}
"""What a version leaves of this one; docs/migration.md has the commands that remove it."""


class Node(InstalledNode):
    """A node on which one version is installed at a time."""

    def __init__(self, root: Path, host: MonitoredHost) -> None:
        super().__init__(root, host)
        self.version = ""
        self.counters: dict[str, float] = {}

    def install(self, version: str) -> None:
        """Install a version over what is there, and let its reconcile run."""
        command(version, "install", "--runtime", "crio", "--root", str(self.root))
        self.version = version
        assert "ignored" not in self.reconcile()  # a record that this version cannot read

    def count(self) -> None:
        """Read the metrics by the running version: no pod's counter has fallen since another version read it."""
        text = command(self.version, "--config", str(self.host.config), "metrics", "--format", "prometheus")
        found: dict[str, float] = {}
        for line in text.splitlines():
            name, _, rest = line.partition("{")
            if name in COUNTERS:
                labels = dict(re.findall(r'(\w+)="([^"]*)"', rest))
                of = name if name == CLASS_COUNTER else labels["pod_uid"]
                found[of] = found.get(of, 0.0) + float(line.split()[-1])
        assert {CLASS_COUNTER, *self.containers} <= set(found)
        fallen = {uid: (self.counters[uid], value) for uid, value in found.items() if value < self.counters.get(uid, 0)}
        assert fallen == {}, f"after the change to {self.version}"
        self.counters = found

    def units(self) -> set[str]:
        """Return the units, after a check that the manifest lists each of them, and that each link leads to one."""
        there = {name for name in files(self.root) if name.startswith(f"{UNITS}/resctrl-hooks-")}
        listed = json.loads((self.root / MANIFEST.lstrip("/")).read_text())["files"]
        assert there == {path for path in listed if path.startswith(f"{UNITS}/resctrl-hooks-")}
        links = {name for name in files(self.root) if ".wants/" in name}
        stray = {link for link in links if f"{UNITS}/{link.rpartition('/')[2]}" not in listed}
        assert stray <= LEFT_BY.get(self.version, set())
        return there


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with installed_node(tmp_path, Node, limbo=0.0) as node:
        yield node


@pytest.mark.parametrize("before", COMMITS)
def test_upgrade_rollback_and_upgrade_lose_nothing(node: Node, before: str) -> None:
    units: dict[str, set[str]] = {}
    for version in (before, THIS, before, THIS):
        there = node.groups()
        node.install(version)
        assert node.groups() == there  # the same groups, not new ones
        assert all(map(node.is_in_group, node.containers))
        assert node.units() == units.setdefault(version, node.units())
        node.start(f"{len(node.containers) + 1:064x}")
        node.count()
        node.count()
    for id_ in list(node.containers):
        node.end(id_)
    node.reconcile()
    assert node.groups() == {}
    assert list(node.host.context.ledger.keys()) == []


@pytest.mark.parametrize("before", COMMITS)
def test_either_version_removes_an_installation_of_the_other(node: Node, before: str) -> None:
    for installed, remover in (((before, THIS), THIS), ((before,), THIS), ((THIS, before), before)):
        for version in installed:
            node.install(version)
        command(remover, "uninstall", "--root", str(node.root))
        left = LEFT_BY.get(before, set()) if remover == before else set()
        assert {name for name in files(node.root) if "resctrl" in name} == left
