"""Since when a class has its values: `top --by class` and `diagnose`, from the history and the guard's steps."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import examples
from hosts.counter_tree import say
from hosts.guard_and_packages import write_guard_state
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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

GAP = 1800
"""Seconds of three intervals."""
DAYS = 31 * 86400


class Limited:
    """A node with a class `bronze` and a history that the test writes."""

    def __init__(self, host: MonitoredHost, file: Path) -> None:
        self.host, self.file = host, file
        host.configure(history={"enabled": True, "file": str(file), "interval": GAP / 3})
        claim(str(file))
        self.limit("MB:0=30")
        self.begin()

    def begin(self) -> None:
        """Begin with an empty history."""
        for path in self.file.parent.glob(f"{self.file.name}*"):
            path.write_bytes(b"") if path == self.file else path.unlink()
        self.now, self.uptime = int(time.time()), time.clock_gettime(time.CLOCK_BOOTTIME)

    def limit(self, schemata: str, rdt_class: str = "bronze") -> None:
        (self.host.resctrl / rdt_class / "mon_groups").mkdir(parents=True, exist_ok=True)
        (self.host.resctrl / rdt_class / "tasks").touch()
        (self.host.resctrl / rdt_class / "schemata").write_text(f"{schemata}\n")

    def store(self, ago: int, *events: tuple[str, ...], boot: str = "", ahead: int = 0, **more: Any) -> None:
        """Write a sample of so many seconds ago with these events: text, domain, class."""
        one = sample(ago, {"web": 1000.0}, boot=boot or self.host.context.monitor.boot)
        rows = [*one.rows]
        for text, domain, rdt_class in ((*event, *("mon_L3_00", "bronze")[len(event) - 1 :]) for event in events):
            change = {"kind": "schemata", "key": "schemata", "rdt_class": rdt_class, "domain": domain, **more}
            rows.append({**change, "event": f"class {rdt_class or '/'}: {text}"})
        store = Store(str(self.file), write=True)
        store.add(Sample((self.now - ago + ahead) * 1000, self.uptime - ago, one.boot, one.host, rows))
        store.close()

    def changes(self) -> ClassChanges:
        return ClassChanges(open_node(str(self.host.config)))

    def texts(self) -> list[tuple[str, str]]:
        return [(one.rdt_class, one.change) for one in self.changes().newest()]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    with plain_host(tmp_path, "info") as host:
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        yield Limited(host, tmp_path / "var/history.sqlite")


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from([60, 600, GAP - 90, GAP + 90]),
        st.dictionaries(st.sampled_from(["bronze", "gold", ""]), st.sampled_from([20, 30, 30])),
        st.sampled_from(["", "", "", "", "b0"]),
        st.sampled_from([0, 0, 0, DAYS, -DAYS]),
    ),
    max_size=6,
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SAMPLES)
def test_newest_change_is_shown_if_no_gap_or_boot_follows_and_its_values_are_present(
    limited: Limited, samples: list[tuple[int, dict[str, int], str, int]]
) -> None:
    """A sample, newest first: the seconds until the next one, classes with new values, its boot, a jump of the clock.

    The resctrl that is mounted after a gap can have the same values by chance.
    """
    limited.begin()
    for name in ("bronze", "gold", ""):
        limited.limit("MB:0=30", name)
    expected: dict[str, tuple[float, int]] = {}
    stored, ago, is_continuous = [], 0, True
    for step, changed, boot, ahead in samples:
        ago += step
        is_continuous = is_continuous and step <= GAP and not boot
        stored.append((ago, [(f"MB 50 to {to}", "mon_L3_00", name) for name, to in changed.items()], boot, ahead))
        for name, to in changed.items() if is_continuous else ():
            expected.setdefault(name, (limited.now - ago + ahead, to))
    changes = limited.changes()
    for age, events, boot, ahead in reversed(stored):
        limited.store(age, *events, boot=boot, ahead=ahead)
    shown = {name: since for name, (since, to) in expected.items() if to == 30}
    for found in (changes.newest(), limited.changes().newest(), changes.newest()):
        assert {one.rdt_class: one.since for one in found} == shown
        assert {one.change for one in found} <= {"MB 50 to 30 (L3 0)"}
        assert [one.since for one in found] == sorted(shown.values(), reverse=True)


def test_change_that_was_read_is_not_shown_after_a_gap(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    limited.store(720, ("MB 100 to 30",))
    changes = limited.changes()
    assert [one.since for one in changes.newest()] == [limited.now - 720]
    limited.store(60, ("MB 30 to 20",))
    limited.limit("MB:0=20")
    assert [one.since for one in changes.newest()] == [limited.now - 60], "only later samples are read"
    later = SimpleNamespace(clock_gettime=lambda _: limited.uptime + GAP, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME)
    monkeypatch.setattr(class_changes, "time", later)
    assert changes.newest() == []
    limited.store(-GAP)
    assert changes.newest() == []


@pytest.mark.parametrize(
    "schemata, events, shown",
    [
        ("MB:0=30;1=30\nL3:0=3;1=3",
         [("L3 none to 3, MB none to 30",), ("L3 none to 3, MB none to 30", "mon_L3_01")],
         "created, L3 3, MB 30 (L3 0 1)"),
        ("MB:0=30;1=30\nL3:0=3;1=f",
         [("L3 none to 3, MB none to 30",), ("L3 none to f, MB none to 30", "mon_L3_01")],
         "created, L3 3, MB 30 (L3 0); L3 f, MB 30 (L3 1)"),
        ("MB:0=30\nL3:0=3", [("L3 none to 3, MB 20 to 30",)], "L3 none to 3, MB 20 to 30 (L3 0)"),
        ("MB:0=30;1=30;2=20", [("MB 50 to 30",), ("MB 50 to 20", "mon_L3_02"), ("MB 50 to 30", "mon_L3_01")],
         "MB 50 to 30 (L3 0 1); MB 50 to 20 (L3 2)"),
        ("MB:0=30", [("L3 ff to none",)], "L3 ff to none (L3 0)"),
        ("MB:0=30\nL3:0=f", [("L3 ff to none",)], None),
        ("MB_MIN:1=5\nMB:0=30", [("MB_MIN 0 to 5", "mon_MB_MIN_01")], "MB_MIN 0 to 5 (MB_MIN 1)"),
    ],
)  # fmt: skip
def test_change_names_its_resources_and_domains(
    limited: Limited, schemata: str, events: list[tuple[str, ...]], shown: str | None
) -> None:
    limited.limit(schemata)
    limited.store(60, *events)
    assert limited.texts() == ([("bronze", shown)] if shown else [])
    limited.store(30, ("MB 1 to 2",), kind="pod")
    assert limited.texts() == ([("bronze", shown)] if shown else []), "another event"


def test_newest_change_is_shown_by_class(limited: Limited) -> None:
    limited.store(720, ("MB 50 to 30",))
    limited.store(10)
    words = ("top", "--once", "--interval", "100ms")
    document = limited.host.json(*words, "--by", "class")
    validate(document, schemas()["top"])
    (change,) = document["classChanges"]
    expected = {"rdtClass": "bronze", "since": limited.now - 720, "change": "MB 50 to 30 (L3 0)", "source": "history"}
    assert change == expected
    shown = limited.host.run(*words, "--by", "class").stdout
    assert "class bronze since " in shown
    assert "(12m ago): MB 50 to 30 (L3 0)" in shown
    assert limited.host.json(*words)["classChanges"] == []


def step(limited: Limited, when: float, **changes: Any) -> None:
    """Write the status file of a guard that has lowered class bronze on domain 0 from 70 to 60 per cent."""
    write_guard_state(limited.host.context)
    path = Path(limited.host.context.settings.state_dir, NAME)
    status = json.loads(path.read_text())
    last = {"time": when, "action": "cut", "class": "bronze", "old": 70, "new": 60, "reason": "load 94%"}
    domain = {**status["domains"]["0"], "last": last}
    domain["classes"]["bronze"] |= {"now": changes.pop("now", 60)}
    domain |= {name: changes.pop(name) for name in ("last", "classes") if name in changes}
    path.write_text(json.dumps({**status, "domains": {"0": domain}, **changes}))


@pytest.mark.parametrize("change", [{"mode": "observe"}, {"last": None}, {"classes": {}}, {"now": 80}])
def test_step_of_the_guard_is_shown_while_its_written_value_stays(limited: Limited, change: dict[str, Any]) -> None:
    step(limited, 1000.5)
    (found,) = limited.changes().newest()
    assert (found.since, found.source, found.change) == (1000.5, "guard", "MB 70 to 60 (memory domain 0)")
    step(limited, 1000.5, **change)
    assert limited.texts() == []


@pytest.mark.parametrize("ago, source", [(720, "history"), (721, "history"), (719, "guard")])
def test_later_one_of_history_and_guard_is_shown(limited: Limited, ago: int, source: str) -> None:
    limited.store(720, ("MB 70 to 30",))
    step(limited, limited.now - ago)
    assert [one.source for one in limited.changes().newest()] == [source]


def test_node_without_a_readable_history_has_no_changes(limited: Limited) -> None:
    limited.file.write_bytes(b"not a history" * 100)
    assert limited.texts() == []
    limited.file.unlink()
    assert limited.texts() == []


def test_change_of_another_day_has_its_date() -> None:
    noon = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, -1))
    change = ClassChange(rdt_class="", since=noon, change="MB 100 to 30 (L3 0)", source="history")
    assert since_text(change, noon + 60) == "class / since 12:00:00 (1m ago): MB 100 to 30 (L3 0)"
    assert since_text(change, noon + 86_400).startswith("class / since 2026-03-02 12:00:00 (1d ago): ")
