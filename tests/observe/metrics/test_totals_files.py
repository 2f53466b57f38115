"""Every field of the files of totals with wrong values: each scrape succeeds, and others keep their totals."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosts.counter_tree import remake, say_paths
from hosts.guard_and_packages import write_packages
from hosts.hostile_inputs import WRONG, places, replaced
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.observe.metrics.collector import NodeCollector

if TYPE_CHECKING:
    from resctrl_hooks.core.node.errors import HookError

TOTAL, ENERGY = "mon_L3_00/mbm_total_bytes", "mon_PERF_PKG_00/core_energy"
DAMAGED, OTHER = KEYS[0], KEYS[1]
GOLD = "gold"
FILES = ("counters", "class-counters")
BEFORE, AFTER = 1000, 7
"""What a group has counted, and the one that is created in its place."""
RARE: dict[str, Any] = {
    "done": {"": {TOTAL: 5}},
    "spent": {"": {TOTAL: 1.5}},
    "others": {"/other": [1.0, "1:2", [0, None], [5, None]]},
    "inherited": {GOLD: ["1:2", 1.0, {"mon_L3_00/llc_occupancy": 5}]},
    "turns": [[1.5, 5.0]],
    "turn": [1.0, 5.0],
    "gone": 5,
}
"""Fields that few pods have."""


class Node:
    """Two pods and two classes, of which each has counted more than its present groups show."""

    def __init__(self, host: MonitoredHost, aside: Path) -> None:
        self.host = host
        self._totals = host.context.ledger.folder
        groups = [host.group(0, "web", rdt_class=GOLD), host.group(1, "cart")]
        for value in (BEFORE, AFTER):
            for number, group in enumerate(groups):
                if value == AFTER:
                    remake(group, aside / str(number))
                say_paths(group, {TOTAL: value, ENERGY: f"{value}.5"})
            for folder in (host.resctrl, host.resctrl / GOLD):
                say_paths(folder, {TOTAL: value, ENERGY: f"{value}.5"})
            self.scrape()
        self.kept = {name: json.loads(Path(self._totals, "totals", name).read_text()) for name in FILES}
        self.kept["counters"]["keys"][DAMAGED].update(RARE)

    def scrape(self) -> dict[str, float]:
        """Return the bytes of pods and classes; fail if a part of the scrape failed."""
        problems: list[HookError] = []
        families = {
            family.name: family.samples for family in NodeCollector(self.host.context, problems.append).collect()
        }
        assert not problems, problems
        pods = {sample.labels["pod_uid"]: sample.value for sample in families["l3_mbm_total_bytes"]}
        classes = families["resctrl_class_l3_mbm_total_bytes"]
        return pods | {sample.labels["rdt_class"]: sample.value for sample in classes}

    def scrape_with(self, name: str, value: Any) -> dict[str, float]:
        """Return what is scraped with this content of a file, whose other names are gone."""
        for one in FILES:
            Path(self._totals, one).unlink(missing_ok=True)
            Path(self._totals, "totals", one).write_text(json.dumps(value if one == name else self.kept[one]))
        return self.scrape()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(
        "resctrl_hooks.observe.node.snapshot.packages.POWERCAP", write_packages(tmp_path / "powercap", 5)
    )
    (tmp_path / "aside").mkdir()
    with plain_host(tmp_path, "gold/mon_groups", "info/L3_MON", "info/PERF_PKG_MON") as host:
        yield Node(host, tmp_path / "aside")


@pytest.mark.parametrize("file, inner, damaged", [("counters", "keys", DAMAGED), ("class-counters", "classes", GOLD)])
def test_wrong_value_in_a_file_of_totals_affects_its_own_pod_or_class_only(
    node: Node, file: str, inner: str, damaged: str
) -> None:
    whole = {OTHER: BEFORE + AFTER, "": BEFORE + AFTER}
    assert node.scrape_with(file, node.kept[file]).items() >= whole.items()
    found: list[str] = []
    for path in places(node.kept[file]):
        for wrong in WRONG:
            said = node.scrape_with(file, replaced(node.kept[file], path, wrong))
            lost = {name: said.get(name) for name in whole if said.get(name) != whole[name]}
            is_json = not isinstance(wrong, float) or math.isfinite(wrong)
            if lost and is_json and path[:2] == (inner, damaged):
                found.append(f"{path} = {wrong!r}: {lost}")
    assert not found, "\n".join(found[:40])
