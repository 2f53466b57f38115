"""Files of totals that cannot be written, are damaged, or are of other versions: values are right and never fall."""

import errno
import json
import math
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from core.install.versions import COMMITS, THIS, Commands
from hosts.counter_tree import remake, say, say_paths
from hosts.faults import failing
from hosts.guard_and_packages import write_packages
from hosts.hostile_inputs import WRONG, places, replaced
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from observe.metrics.conftest import scraped
from observe.metrics.test_totals import CLASS, ENERGY, GOLD, POD, TOTAL, UNGROUPED, host, values_of
from resctrl_hooks.core.node import call_metrics, retried
from resctrl_hooks.core.node.resctrl import totals_file
from resctrl_hooks.core.node.resctrl.counters_record import CountersRecord
from resctrl_hooks.observe.metrics.collector import NodeCollector

__all__ = ("host",)

NUMBERS = [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES]


def scrape(host: MonitoredHost, pod: int, ungrouped: int = 50) -> dict[str, float]:
    say(host.resctrl / "mon_groups" / KEYS[0], mbm_total_bytes=pod)
    say(host.resctrl, mbm_total_bytes=pod + ungrouped)
    samples = [one for one in scraped(host) if one.labels.get("stage", "createRuntime") == "createRuntime"]
    return {one.name + one.labels.get("content", ""): one.value for one in samples}


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("number", NUMBERS)
def test_scrape_with_unwritable_totals_has_right_values_that_do_not_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_first: bool
) -> None:
    now = [1000.0]
    monkeypatch.setattr(retried, "time", type("Clock", (), {"monotonic": lambda: now[0]}))
    with plain_host(tmp_path) as host:
        group = host.group(0, "web")
        if not is_first:
            scrape(host, 100)
        with failing(totals_file, "write_file", OSError(number, os.strerror(number), "/run/x")):
            for step in range(20):
                found = scrape(host, 100 + step)
                assert (found[POD], found[CLASS]) == (100 + step, 150 + step)
                assert (found["resctrl_scrape_ok"], found["resctrl_hooks_unsavedtotals"]) == (1, 1)
                now[0] += 7
            remake(group, tmp_path / "aside")  # another program removes and creates it
            found = scrape(host, 5)
            assert found[POD] == 119 + 5
            assert found[CLASS] >= 169
        now[0] += 1000
        found = scrape(host, 6)
        assert (found[POD], found["resctrl_hooks_unsavedtotals"]) == (119 + 6, 0)
        ledger, boot = host.context.ledger, host.context.monitor.boot
        assert totals_file.load_totals(ledger, boot, totals_file.KEYS, CountersRecord, host.context.log)["keys"]


def test_scrape_with_an_unwritable_tally_counts_all_calls(host: MonitoredHost) -> None:
    for _ in range(2):
        for _ in range(300):
            host.context.ledger.count_call("createRuntime", 0.001)
        with failing(call_metrics, "write_file", OSError(errno.ENOSPC, "full", "/run/x")):
            scrape(host, 100)
    with failing(call_metrics, "write_file", OSError(errno.ENOSPC, "full", "/run/x")):
        for _ in range(2):
            found = scrape(host, 100)
            assert (found["resctrl_scrape_ok"], found["resctrl_hooks_runs_total"]) == (1, 600)


DAMAGED, OTHER = KEYS[0], KEYS[1]
FILES = {"counters": ("keys", DAMAGED), "class-counters": ("classes", GOLD)}
BEFORE, AFTER = 1000, 7
"""What a group has counted, and the one that is created in its place."""
RARE: dict[str, Any] = {
    "done": {"": {TOTAL: 5}}, "spent": {"": {TOTAL: 1.5}},
    "others": {"/other": [1.0, "1:2", [0, None], [5, None]]},
    "inherited": {GOLD: ["1:2", 1.0, {"mon_L3_00/llc_occupancy": 5}]},
    "turns": [[1.5, 5.0]], "turn": [1.0, 5.0], "gone": 5,
}  # fmt: skip
"""Fields that few pods have."""


class Saved:
    """Two pods and two classes, of which each has counted more than its present groups show, and their files."""

    def __init__(self, host: MonitoredHost, aside: Path) -> None:
        self.host = host
        self._totals = Path(host.context.ledger.folder)
        groups = [host.group(0, "web", rdt_class=GOLD), host.group(1, "cart")]
        for value in (BEFORE, AFTER):
            for number, group in enumerate(groups):
                if value == AFTER:
                    remake(group, aside / str(number))
            for folder in (*groups, host.resctrl, host.resctrl / GOLD):
                say_paths(folder, {TOTAL: value, ENERGY: f"{value}.5"})
            self.scrape()
        self.kept = {name: json.loads((self._totals / "totals" / name).read_text()) for name in FILES}
        self.kept["counters"]["keys"][DAMAGED].update(RARE)

    def scrape(self) -> dict[str, float]:
        """Return the bytes of pods and classes; fail if a part of the scrape failed."""
        problems: list[Exception] = []
        found = values_of(NodeCollector(self.host.context, problems.append).collect())
        assert not problems, problems
        return {key[-1]: value for key, value in found.items() if key[0] in (POD, CLASS)}

    def scrape_with(self, name: str, value: Any) -> dict[str, float]:
        """Return what is scraped with this content of a file, whose other names are gone."""
        for one in FILES:
            (self._totals / one).unlink(missing_ok=True)
            (self._totals / "totals" / one).write_text(json.dumps(value if one == name else self.kept[one]))
        return self.scrape()


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saved]:
    powercap = write_packages(tmp_path / "powercap", 5)
    monkeypatch.setattr("resctrl_hooks.observe.node.snapshot.packages.POWERCAP", powercap)
    (tmp_path / "aside").mkdir()
    with plain_host(tmp_path, "gold/mon_groups", "info/L3_MON", "info/PERF_PKG_MON") as host:
        yield Saved(host, tmp_path / "aside")


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*FILES]), st.data(), st.sampled_from(range(len(WRONG))))
def test_wrong_value_in_a_file_of_totals_affects_its_own_pod_or_class_only(
    saved: Saved, file: str, data: st.DataObject, number: int
) -> None:
    wrong, whole = WRONG[number], dict.fromkeys((OTHER, ""), BEFORE + AFTER)
    assert saved.scrape_with(file, saved.kept[file]).items() >= whole.items()
    path = data.draw(st.sampled_from([*places(saved.kept[file])]))
    said = saved.scrape_with(file, replaced(saved.kept[file], path, wrong))
    is_json = not isinstance(wrong, float) or math.isfinite(wrong)
    assert not is_json or path[:2] != FILES[file] or said.items() >= whole.items()


class Versions:
    """Two pods and ungrouped tasks in a plain tree, their true counts, and what exporters of some versions said."""

    def __init__(self, host: MonitoredHost, aside: Path) -> None:
        self.host, self._aside, self.random = host, aside, random.Random(1)
        self.groups = {name: (host.group(number, name), 0) for number, name in enumerate(("web", "cart"))}
        self.counted, self.said = {"web": 0, "cart": 0, "": 0}, dict[tuple[str, str], float]()

    def change(self) -> None:
        """Let everything count; sometimes a group is removed first, and created again."""
        for name, (group, value) in list(self.groups.items()):
            more, is_new = self.random.randrange(1, 1000), self.random.random() < 0.2
            if is_new:
                remake(group, self._aside / f"{self.random.random()}")
            self.groups[name] = group, more + (0 if is_new else value)
            self.counted[name] += more
            say(group, mbm_total_bytes=self.groups[name][1])
        self.counted[""] += self.random.randrange(1, 1000)
        say(self.host.resctrl, mbm_total_bytes=self.counted[""] + sum(value for _, value in self.groups.values()))

    def scrape(self, exporter: Commands, version: str) -> None:
        """Check an exporter's totals: exact for pods and the class, and none ever falls."""
        samples = samples_of_classic(exporter.run("metrics", "--format", "prometheus"))
        found = {
            (one.name, one.labels.get("pod", "")): one.value for one in samples if one.name.endswith("bytes_total")
        }
        true = {(POD, name): self.counted[name] for name in self.groups}
        true |= {(CLASS, ""): sum(self.counted.values()), (UNGROUPED, ""): self.counted[""]}
        assert found.items() >= true.items(), version
        fallen = {place: (self.said[place], value) for place, value in found.items() if value < self.said.get(place, 0)}
        assert not fallen, (version, fallen)
        self.said.update(found)


def samples_of_classic(text: str) -> list[Any]:
    return [sample for family in parse_classic(text) for sample in family.samples]


@pytest.mark.ci
@pytest.mark.parametrize("versions", [(one, THIS) for one in COMMITS] + [(*COMMITS, THIS)], ids=" ".join)
def test_totals_continue_over_upgrades_and_downgrades(tmp_path: Path, versions: tuple[str, ...]) -> None:
    (tmp_path / "aside").mkdir()
    version = versions[0]
    with ExitStack() as stack:
        node = Versions(stack.enter_context(plain_host(tmp_path)), tmp_path / "aside")
        exporters = {name: Commands(name, node.host.config) for name in versions}
        for exporter in exporters.values():
            stack.callback(exporter.close)
        for _ in range(40):
            node.change()
            node.scrape(exporters[version], version)
            if node.random.random() < 0.3:
                version = THIS if version != THIS else node.random.choice(versions)
                node.scrape(exporters[version], version)
