"""Totals over upgrades and downgrades: exporters of several versions take turns on one state directory."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from core.install.versions import COMMITS, THIS, Commands
from hosts.counter_tree import remake, say
from hosts.monitored import MonitoredHost, plain_host
from prometheus_client.parser import text_string_to_metric_families as parse

STEPS = 40
RECREATED, REPLACED = 0.2, 0.3
"""How often a pod's group is created again, and the exporter is replaced."""
Samples = dict[tuple[str, str, str], float]
"""Counters by name, pod and class."""


def scrape(exporter: Commands) -> Samples:
    """Return the samples of counters."""
    return {
        (sample.name, sample.labels.get("pod", ""), sample.labels.get("rdt_class", "")): sample.value
        for family in parse(exporter.run("metrics", "--format", "prometheus"))
        for sample in family.samples
        if sample.name.endswith("_bytes_total")
    }


class Node:
    """Two pods and ungrouped tasks in a plain tree, their true counts, and what exporters said."""

    def __init__(self, host: MonitoredHost, aside: Path, seed: int) -> None:
        self.host, self._aside = host, aside
        self.random = random.Random(seed)
        self.groups = {name: (host.group(number, name), 0) for number, name in enumerate(("web", "cart"))}
        self.ungrouped = 0
        self.counted = {"web": 0, "cart": 0}
        self.said: Samples = {}
        self.write()

    def write(self) -> None:
        """Write the files: a class's own one is the sum with its groups'."""
        for group, value in self.groups.values():
            say(group, mbm_total_bytes=value)
        say(self.host.resctrl, mbm_total_bytes=self.ungrouped + sum(value for _, value in self.groups.values()))

    def change(self) -> None:
        """Let everything count; sometimes a group is removed first, and created again."""
        for name, (group, value) in list(self.groups.items()):
            more, is_new = self.random.randrange(1, 1000), self.random.random() < RECREATED
            if is_new:
                remake(group, self._aside / f"{self.random.random()}")
            self.groups[name] = group, more + (0 if is_new else value)
            self.counted[name] += more
        self.ungrouped += self.random.randrange(1, 1000)
        self.write()

    def scrape(self, exporter: Commands, version: str) -> None:
        """Check an exporter's totals: exact for pods and the class, and none ever falls."""
        found = scrape(exporter)
        for name, counted in self.counted.items():
            assert found["l3_mbm_total_bytes_total", name, ""] == counted, (version, name)
        whole = sum(self.counted.values()) + self.ungrouped
        assert found["resctrl_class_l3_mbm_total_bytes_total", "", ""] == whole, version
        assert found["resctrl_ungrouped_l3_mbm_total_bytes_total", "", ""] == self.ungrouped, version
        fallen = {place: (self.said[place], value) for place, value in found.items() if value < self.said.get(place, 0)}
        assert not fallen, (version, fallen)
        self.said.update(found)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (tmp_path / "aside").mkdir()
    with plain_host(tmp_path) as host:
        yield Node(host, tmp_path / "aside", seed=1)


@pytest.mark.parametrize("versions", [(one, THIS) for one in COMMITS] + [(*COMMITS, THIS)], ids=" ".join)
def test_totals_continue_over_upgrades_and_downgrades(node: Node, versions: tuple[str, ...]) -> None:
    version = versions[0]
    with ExitStack() as stack:
        exporters = {name: Commands(name, node.host.config) for name in versions}
        for exporter in exporters.values():
            stack.callback(exporter.close)
        for _ in range(STEPS):
            node.change()
            node.scrape(exporters[version], version)
            if node.random.random() < REPLACED:
                version = THIS if version != THIS else node.random.choice(versions)
                node.scrape(exporters[version], version)
