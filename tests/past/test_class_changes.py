"""Since when a class has its values: `top --by class` and `diagnose`, from the history and the guard's steps."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample
from jsonschema import validate

from resctrl_hooks.cli.class_lines import since_text
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.schemas import schemas
from resctrl_hooks.inventory.class_changes import ClassChange, ClassChanges
from resctrl_hooks.node.guard.status import NAME
from resctrl_hooks.node.history.place import claim
from resctrl_hooks.node.history.sample import Sample
from resctrl_hooks.node.history.store import Store

CHANGED = {"kind": "schemata", "key": "schemata", "rdt_class": "bronze", "domain": "mon_L3_00"}


class Limited:
    """A node with a class `bronze` and a history that the test writes."""

    def __init__(self, host: MonitoredHost, file: Path) -> None:
        self.host = host
        host.configure(history={"enabled": True, "file": str(file)})
        claim(str(file))
        self.file = file
        self.limit("MB:0=30")
        self.now = int(time.time())

    def limit(self, schemata: str) -> None:
        folder = Path(self.host.resctrl, "bronze")
        (folder / "mon_groups").mkdir(parents=True, exist_ok=True)
        (folder / "tasks").touch()
        (folder / "schemata").write_text(f"{schemata}\n")

    def store(self, ago: int, *events: str, domain: str = "mon_L3_00") -> None:
        """Write a sample of so many seconds ago with these events."""
        one = sample(ago, {"web": 1000.0})
        rows = [*one.rows, *({**CHANGED, "domain": domain, "event": f"class bronze: {text}"} for text in events)]
        store = Store(str(self.file), write=True)
        store.add(Sample((self.now - ago) * 1000, one.uptime, one.boot, one.host, rows))
        store.close()

    def top(self, *words: str) -> Any:
        result = self.host.run("top", "--once", "--interval", "100ms", "-o", "json", *words)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        validate(found, schemas()["top"])
        return found["classChanges"]

    def changes(self) -> ClassChanges:
        return ClassChanges(open_node(str(self.host.config)))

    def newest(self) -> list[ClassChange]:
        return self.changes().newest()


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    with plain_host(tmp_path, "info") as host:
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        yield Limited(host, tmp_path / "var/history.sqlite")


def test_newest_change_in_the_history_is_shown_by_class(limited: Limited) -> None:
    limited.store(900, "MB 100 to 50")
    limited.store(720, "MB 50 to 30")
    limited.store(10)
    (change,) = limited.top("--by", "class")
    assert change == {
        "rdtClass": "bronze",
        "since": limited.now - 720,
        "change": "MB 50 to 30 (L3 0)",
        "source": "history",
    }
    shown = limited.host.run("top", "--once", "--interval", "100ms", "--by", "class").stdout
    assert "class bronze since " in shown
    assert "(12m ago): MB 50 to 30 (L3 0)" in shown
    assert limited.top() == []


def test_change_of_values_that_are_not_present_is_not_shown(limited: Limited) -> None:
    limited.store(720, "MB 100 to 30")
    limited.limit("MB:0=60")
    assert limited.newest() == []


def test_later_samples_are_read_without_the_earlier_ones(limited: Limited) -> None:
    limited.store(720, "MB 100 to 30")
    changes = limited.changes()
    assert [one.since for one in changes.newest()] == [limited.now - 720]
    limited.store(60, "MB 30 to 20")
    limited.limit("MB:0=20")
    assert [one.since for one in changes.newest()] == [limited.now - 60]


def test_step_of_the_guard_is_shown_while_its_value_stays(limited: Limited) -> None:
    one = {"declared": 100, "now": 60, "wanted": 60, "floor": 20, "overridden": False, "rate": 1.0}
    last = {"time": 1000.5, "action": "cut", "class": "bronze", "old": 70, "new": 60, "reason": "load 94%"}
    domain = {"l3": [0], "state": "holding", "since": 1, "load": 0.8, "estimated": False}
    domain |= {"classes": {"bronze": one}, "last": last}
    status = {"running": True, "mode": "act", "why": "", "unit": "%", "started": 1.0, "updated": 2.0, "actions": {}}
    status |= {
        "pid": 1,
        "start": 1,
        "invalidSamples": 0,
        "throttledSeconds": {},
        "events": [],
        "domains": {"0": domain},
    }
    path = Path(limited.host.context.settings.state_dir, NAME)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(status))
    (change,) = limited.newest()
    assert (change.since, change.source, change.change) == (1000.5, "guard", "MB 70 to 60 (memory domain 0)")
    one["now"] = 80
    path.write_text(json.dumps(status))
    assert limited.newest() == []


def test_damaged_history_shows_no_change(limited: Limited) -> None:
    limited.file.write_bytes(b"not a history" * 100)
    assert limited.newest() == []


def test_change_of_another_day_has_its_date() -> None:
    noon = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, -1))
    change = ClassChange(rdt_class="", since=noon, change="MB 100 to 30 (L3 0)", source="history")
    assert since_text(change, noon + 60) == "class / since 12:00:00 (1m ago): MB 100 to 30 (L3 0)"
    assert since_text(change, noon + 86_400).startswith("class / since 2026-03-02 12:00:00 (1d ago): ")
