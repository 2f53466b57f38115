"""Since when a class has its values: `top --by class` and `diagnose`, from the history and the guard's steps."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hosts.counter_tree import say
from hosts.guard_and_packages import write_guard_state
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample
from jsonschema import validate

from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.observe.cli.class_lines import since_text
from resctrl_hooks.observe.inventory import class_changes
from resctrl_hooks.observe.inventory.class_changes import ClassChange, ClassChanges
from resctrl_hooks.observe.node.guard.status import NAME
from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store

INTERVAL = 600.0
GAP = 3 * int(INTERVAL)
CHANGED = {"kind": "schemata", "key": "schemata", "rdt_class": "bronze", "domain": "mon_L3_00"}


class Limited:
    """A node with a class `bronze` and a history that the test writes."""

    def __init__(self, host: MonitoredHost, file: Path) -> None:
        self.host = host
        host.configure(history={"enabled": True, "file": str(file), "interval": INTERVAL})
        claim(str(file))
        self.file = file
        self.limit("MB:0=30")
        self.now = int(time.time())
        self.uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.ahead = 0
        """Seconds by which the clock of the next samples is ahead."""

    def limit(self, schemata: str, rdt_class: str = "bronze") -> None:
        folder = Path(self.host.resctrl, rdt_class)
        (folder / "mon_groups").mkdir(parents=True, exist_ok=True)
        (folder / "tasks").touch()
        (folder / "schemata").write_text(f"{schemata}\n")

    def store(self, ago: int, *events: str, domain: str = "mon_L3_00", rdt_class: str = "bronze") -> None:
        """Write a sample of so many seconds ago with these events."""
        change = {**CHANGED, "domain": domain, "rdt_class": rdt_class}
        self.store_rows(ago, *({**change, "event": f"class {rdt_class}: {text}"} for text in events))

    def store_rows(self, ago: int, *events: Any, boot: str = "") -> None:
        """Write a sample of so many seconds ago with these rows."""
        one = sample(ago, {"web": 1000.0}, boot=boot or self.host.context.monitor.boot)
        rows = [*one.rows, *events]
        store = Store(str(self.file), write=True)
        store.add(Sample((self.now - ago + self.ahead) * 1000, self.uptime - ago, one.boot, one.host, rows))
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


@pytest.mark.parametrize(
    "change, samples, shown",
    [
        (GAP + 90, [GAP - 90, 60], True),
        (GAP + 90, [], False),
        (GAP + 90, [60], False),
        (2 * GAP, [GAP + 90, GAP], False),
    ],
    ids=["continuous", "history stopped", "gap after the change", "gap at the end"],
)
def test_change_before_a_gap_of_the_history_is_not_shown(
    limited: Limited, change: int, samples: list[int], *, shown: bool
) -> None:
    """The resctrl that is mounted after the gap can have the same values by chance."""
    limited.store(change, "MB 100 to 30")
    for ago in samples:
        limited.store(ago)
    assert bool(limited.newest()) is shown


def test_change_that_was_read_is_not_shown_after_a_gap(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    limited.store(60, "MB 100 to 30")
    changes = limited.changes()
    assert changes.newest()
    later = SimpleNamespace(clock_gettime=lambda _: limited.uptime + GAP, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME)
    monkeypatch.setattr(class_changes, "time", later)
    assert changes.newest() == []
    limited.store(-GAP)
    assert changes.newest() == []


@pytest.mark.parametrize("jump", [31 * 86400, -31 * 86400])
def test_change_stays_after_the_clock_was_set(limited: Limited, jump: int) -> None:
    limited.store(700, "MB 100 to 30")
    changes = limited.changes()
    (before,) = changes.newest()
    assert before.since == limited.now - 700
    limited.ahead = jump
    for ago in (600, 0):
        limited.store(ago)
    assert changes.newest() == limited.newest() == [before]


@pytest.mark.parametrize("jump", [0, 31 * 86400, -31 * 86400])
def test_change_before_a_gap_is_not_shown_whatever_the_clock_says(limited: Limited, jump: int) -> None:
    limited.store(2 * GAP, "MB 100 to 30")
    limited.ahead = jump
    limited.store(60)
    assert limited.newest() == []


def test_change_of_an_earlier_boot_is_not_shown(limited: Limited) -> None:
    limited.store(120, "MB 100 to 30")
    limited.store_rows(60, boot="b0")
    limited.store(0)
    assert limited.newest() == []


@pytest.mark.parametrize(
    "texts, shown",
    [
        ({0: "L3 none to 3, MB none to 30", 1: "L3 none to 3, MB none to 30"}, "created, L3 3, MB 30 (L3 0 1)"),
        (
            {0: "L3 none to 3, MB none to 30", 1: "L3 none to f, MB none to 30"},
            "created, L3 3, MB 30 (L3 0); L3 f, MB 30 (L3 1)",
        ),
        ({0: "L3 none to 3, MB 20 to 30"}, "L3 none to 3, MB 20 to 30 (L3 0)"),
    ],
    ids=["same values", "different values", "not created"],
)
def test_created_class_is_shown_with_its_values(limited: Limited, texts: dict[int, str], shown: str) -> None:
    limited.limit(f"MB:0=30;1=30\nL3:0=3;1={'f' if 'L3 f' in shown else '3'}")
    rows = [
        {**CHANGED, "domain": f"mon_L3_0{number}", "event": f"class bronze: {text}"} for number, text in texts.items()
    ]
    limited.store_rows(60, *rows)
    assert [one.change for one in limited.newest()] == [shown]


def test_later_samples_are_read_without_the_earlier_ones(limited: Limited) -> None:
    limited.store(720, "MB 100 to 30")
    changes = limited.changes()
    assert [one.since for one in changes.newest()] == [limited.now - 720]
    limited.store(60, "MB 30 to 20")
    limited.limit("MB:0=20")
    assert [one.since for one in changes.newest()] == [limited.now - 60]


def test_change_of_several_resources_is_shown_and_the_newest_class_comes_first(limited: Limited) -> None:
    for name in ("bronze", "gold"):
        limited.limit("MB:0=30;1=30\nL3:0=f;1=3", name)
    limited.store(900, "MB 100 to 30", rdt_class="gold")
    limited.store(60, "L3 ff to f, MB 50 to 30")
    limited.store(60, "L3 ff to 3, MB 50 to 30", domain="mon_L3_01")
    assert [(one.rdt_class, one.change) for one in limited.newest()] == [
        ("bronze", "L3 ff to 3, MB 50 to 30 (L3 1)"),
        ("gold", "MB 100 to 30 (L3 0)"),
    ]


@pytest.mark.parametrize("schemata, shown", [("MB:0=30\n", True), ("MB:0=30\nL3:0=f\n", False)])
def test_removed_resource_has_the_value_none(limited: Limited, schemata: str, *, shown: bool) -> None:
    limited.limit(schemata)
    limited.store(60, "L3 ff to none")
    assert bool(limited.newest()) is shown


def test_change_of_several_domains_names_them_all(limited: Limited) -> None:
    limited.limit("MB:0=30;1=30;2=20")
    rows = [("MB 50 to 30", "mon_L3_00"), ("MB 50 to 20", "mon_L3_02"), ("MB 50 to 30", "mon_L3_01")]
    limited.store_rows(60, *({**CHANGED, "domain": domain, "event": f"class bronze: {text}"} for text, domain in rows))
    assert [one.change for one in limited.newest()] == ["MB 50 to 30 (L3 0 1); MB 50 to 20 (L3 2)"]


def test_other_events_and_the_root_class_are_distinguished(limited: Limited) -> None:
    (limited.host.resctrl / "schemata").write_text("MB:0=30\n")
    events = [{**CHANGED, "kind": "pod", "event": "pod"}, {**CHANGED, "rdt_class": "", "event": "class /: MB 50 to 30"}]
    limited.store_rows(60, *events)
    assert [(one.rdt_class, one.change) for one in limited.newest()] == [("", "MB 50 to 30 (L3 0)")]


class Stepped:
    """The status file of a guard that has lowered class bronze on domain 0 from 70 to 60 per cent."""

    def __init__(self, limited: Limited, when: float) -> None:
        write_guard_state(limited.host.context)
        self.path = Path(limited.host.context.settings.state_dir, NAME)
        self.status: dict[str, Any] = json.loads(self.path.read_text())
        self.domain: dict[str, Any] = self.status["domains"]["0"]
        last = {"time": when, "action": "cut", "class": "bronze", "old": 70, "new": 60, "reason": "load 94%"}
        self.domain["last"] = last
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.status))


def test_step_of_the_guard_is_shown_while_its_value_stays(limited: Limited) -> None:
    guard = Stepped(limited, 1000.5)
    (change,) = limited.newest()
    assert (change.since, change.source, change.change) == (1000.5, "guard", "MB 70 to 60 (memory domain 0)")
    guard.domain["classes"]["bronze"]["now"] = 80
    guard.write()
    assert limited.newest() == []


@pytest.mark.parametrize(
    "change",
    [{"mode": "observe"}, {"domains": {"0": {"last": None}}}, {"domains": {"0": {"classes": {}}}}],
    ids=["only observes", "no step", "class removed"],
)
def test_step_of_the_guard_needs_a_written_value(limited: Limited, change: dict[str, Any]) -> None:
    guard = Stepped(limited, 1000.5)
    guard.status |= {"domains": {"0": {**guard.domain, **change.get("domains", {}).get("0", {})}}}
    guard.status["mode"] = change.get("mode", "act")
    guard.write()
    assert limited.newest() == []


@pytest.mark.parametrize("ago, source", [(700, "history"), (720, "history"), (721, "history"), (719, "guard")])
def test_later_one_of_history_and_guard_is_shown(limited: Limited, ago: int, source: str) -> None:
    limited.store(720 if source == "guard" else min(ago, 720), "MB 70 to 30")
    Stepped(limited, limited.now - ago)
    assert [one.source for one in limited.newest()] == [source]


def test_node_without_history_has_no_changes(limited: Limited) -> None:
    limited.file.unlink(missing_ok=True)
    assert limited.newest() == []


def test_damaged_history_shows_no_change(limited: Limited) -> None:
    limited.file.write_bytes(b"not a history" * 100)
    assert limited.newest() == []


def test_change_of_another_day_has_its_date() -> None:
    noon = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, -1))
    change = ClassChange(rdt_class="", since=noon, change="MB 100 to 30 (L3 0)", source="history")
    assert since_text(change, noon + 60) == "class / since 12:00:00 (1m ago): MB 100 to 30 (L3 0)"
    assert since_text(change, noon + 86_400).startswith("class / since 2026-03-02 12:00:00 (1d ago): ")


def test_change_of_a_resource_that_is_not_managed_is_shown_under_its_name(limited: Limited) -> None:
    limited.limit("MB_MIN:1=5\nMB:0=30")
    limited.store(20, "MB_MIN 0 to 5", domain="mon_MB_MIN_01")
    assert [one.change for one in limited.newest()] == ["MB_MIN 0 to 5 (MB_MIN 1)"]
