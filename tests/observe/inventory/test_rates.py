"""Rates: counted amount by counted seconds; and since when a class has its values."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import examples
from golden import Golden
from hosts.counter_tree import say
from hosts.guard_and_packages import write_guard_state
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import validate

from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    WAITING,
    Reading,
    slot_at,
)
from resctrl_hooks.observe.cli.class_lines import since_text
from resctrl_hooks.observe.inventory import class_changes
from resctrl_hooks.observe.inventory.class_changes import ClassChange, ClassChanges
from resctrl_hooks.observe.inventory.columns import BY_KEY, COLUMNS, LOCAL, MBM, POWER
from resctrl_hooks.observe.inventory.rates import Line, added, of_pod, of_values
from resctrl_hooks.observe.node.guard.status import NAME
from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, Values

TOTAL, LOCAL_BYTES, OTHER = "mon_L3_00/mbm_total_bytes", "mon_L3_00/mbm_local_bytes", "mon_L3_01/mbm_total_bytes"
OCCUPANCY, PART = "mon_L3_00/llc_occupancy", "mon_L3_00/mon_sub_L3_01"
HERE, ENERGY = "mon_PERF_PKG_00/core_energy", "mon_PERF_PKG_01/core_energy"
KEY = "web"


def reading(
    value: float | None, seconds: float, state: str = AVAILABLE, rdt_class: str = "", path: str = TOTAL
) -> Reading:
    slot = slot_at(path)
    return Reading(slot.domain, slot.counter, value, state, rdt_class, seconds)


def gold(value: float, seconds: float, state: str = AVAILABLE) -> Reading:
    return reading(value, seconds, state, rdt_class="gold")


def snapshot(when: float, *readings: Reading, held: tuple[str, ...] | None = None, tracked: bool = True) -> Snapshot:
    """Return a snapshot of one pod with groups in the classes ``held``, or in those of its readings."""
    classes = {one.rdt_class or "" for one in readings if one.state != WAITING} if held is None else set(held)
    return Snapshot(when, {}, {KEY: list(readings)} if tracked else {}, {KEY: classes} if classes else {})


def rates(before: Snapshot, now: Snapshot) -> Line:
    return of_pod(before, now, KEY)


SHARES = st.sampled_from([0.0, 0.01, 0.3, 0.49, 0.5, 0.75, 0.975, 0.98, 1.0])
PLACES = st.dictionaries(
    st.tuples(st.sampled_from(["mbm_total_bytes", "mbm_local_bytes"]), st.sampled_from(["00", "01", "02"])),
    st.tuples(st.lists(st.integers(0, 1000), min_size=1, max_size=2), SHARES, st.booleans()),
    min_size=1,
)


@settings(max_examples=examples(60))
@given(PLACES, st.sampled_from([2, 100]), st.sampled_from([AVAILABLE, UNASSIGNED, WAITING]))
def test_pod_of_constant_traffic_has_that_rate_if_half_of_the_interval_is_counted(
    places: dict[tuple[str, str], tuple[list[int], float, bool]], interval: int, state: str
) -> None:
    """Each class of the pod moves a number of bytes per second, and its counter counts for a part of the interval."""
    before, now = [], []
    for (counter, domain), (by_class, share, is_known) in places.items():
        for rdt_class, rate in zip(("", "gold"), by_class, strict=False):
            path = f"mon_L3_{domain}/{counter}"
            value, seconds = (50, 7) if is_known else (None, 0)
            before.append(reading(value, seconds, AVAILABLE if is_known else WAITING, rdt_class, path))
            counted = share * interval
            now.append(reading((value or 0) + rate * counted, seconds + counted, state, rdt_class, path))
    held = ("", "gold")
    found = rates(snapshot(100, *before, held=held), snapshot(100 + interval, *now, held=held))
    known = [share for _, share, _ in places.values() if share >= 0.5]
    for column in (MBM, LOCAL):
        of = [(sum(by_class), share) for (name, _), (by_class, share, _) in places.items() if name == column.counter]
        is_whole = bool(of) and all(share >= 0.5 for _, share in of)
        assert found[column] == (pytest.approx(sum(rate for rate, _ in of)) if is_whole else None)
        if of:
            assert found.moved[column.counter] == pytest.approx(sum(rate * share * interval for rate, share in of))
    whole = found[MBM] is not None or found[LOCAL] is not None
    counted = min(known, default=0)
    assert found.counted == (None if not whole else 1.0 if counted >= 0.98 else pytest.approx(counted))
    assert found.estimated == (whole and counted < 0.98)
    assert found.counted_percent == (round(found.counted * 100, 1) if found.counted else None)


Snapshots = tuple[Snapshot, Snapshot]
CASES: dict[str, Snapshots] = {
    "waiting pod": (snapshot(100, reading(50, 7, WAITING)), snapshot(102, reading(50, 7, WAITING))),
    "no value": (snapshot(100, reading(50, 7)), snapshot(102, reading(50, 7, ERROR))),
    # The increase is that of several intervals, and its seconds are those of the last one.
    **{
        f"after {state}": (snapshot(102, reading(50, 7, state)), snapshot(104, reading(130, 9)))
        for state in (UNAVAILABLE, ERROR)
    },
    "package in which the pod never ran before": (
        snapshot(0, reading(0, 0, UNAVAILABLE, path=ENERGY)), snapshot(2, reading(8, 2, path=ENERGY)),
    ),
    "package in which the pod never ran": (
        snapshot(100, reading(0, 7, path=HERE), reading(None, 0, UNAVAILABLE, path=ENERGY)),
        snapshot(102, reading(8, 9, path=HERE), reading(None, 0, UNAVAILABLE, path=ENERGY)),
    ),
    # The kernel does not report when tasks left their class, so the old group's seconds are not valid.
    **{
        f"class change to {held}": (
            snapshot(100, reading(50, 7)), snapshot(102, reading(50, 8.2), gold(20, 1.1), held=held),
        )
        for held in (("gold",), ("", "gold"))
    },
    "after a class change": (
        snapshot(102, reading(50, 8.2), gold(20, 1.1), held=("gold",)),
        snapshot(104, reading(50, 8.2), gold(60, 3.1), held=("gold",)),
    ),
    "classes counted for different times": (
        snapshot(100, reading(0, 7), gold(0, 7)), snapshot(102, reading(40, 9), gold(40, 8.2)),
    ),
    "domain without a value": (
        snapshot(100, reading(0, 7), reading(0, 7, path=OTHER)),
        snapshot(102, reading(40, 9), reading(0, 7, UNAVAILABLE, path=OTHER)),
    ),
    "new pod": (snapshot(100, tracked=False), snapshot(102, reading(40, 1.6))),
    "very new pod": (snapshot(100, tracked=False), snapshot(102, reading(40, 0.4))),
    "pod of another time": (snapshot(100, tracked=False), snapshot(102, reading(40, 60))),
    "empty interval": (snapshot(100, reading(0, 7)), snapshot(100, reading(0, 7))),
    **{
        f"cache with {state}": (
            snapshot(100),
            snapshot(
                102, reading(30, 0, path=OCCUPANCY), reading(9, 0, path=f"{PART}/llc_occupancy"),
                reading(20, 0, state, path=OCCUPANCY.replace("00", "01")),
            ),
        )
        for state in (AVAILABLE, UNAVAILABLE)
    },
}  # fmt: skip
GROUPS: dict[str, tuple[Values | None, Values]] = {
    "traffic": ({TOTAL: 100}, {TOTAL: 300}),
    "group created again under the same identity": ({TOTAL: 300}, {TOTAL: 100}),
    "two domains": ({TOTAL: 100, OTHER: 0}, {TOTAL: 300, OTHER: 20}),
    "unavailable": ({TOTAL: 100, OTHER: 0}, {TOTAL: 300, OTHER: UNAVAILABLE}),
    "unassigned before": ({TOTAL: 100, OTHER: UNASSIGNED}, {TOTAL: 300, OTHER: 20}),
    "part of a domain": ({TOTAL: 100}, {TOTAL: 300, f"{PART}/mbm_total_bytes": 80}),
    "no file": ({TOTAL: 100}, {TOTAL: 300, OTHER: None}),
    "no value before": ({}, {TOTAL: 300}),
    "local traffic only": ({TOTAL: 100, LOCAL_BYTES: 100}, {TOTAL: UNAVAILABLE, LOCAL_BYTES: 300}),
    "cache": (None, {OCCUPANCY: 4096}),
    "unknown cache": (None, {OCCUPANCY: UNAVAILABLE}),
    # A group gets an RMID whose energy counter goes on; its traffic counts from 0.
    "new group": (None, {TOTAL: 300, ENERGY: 7.5}),
    # A package without tasks has no value, which counts as 0.
    "first task of a package": ({ENERGY: UNAVAILABLE}, {ENERGY: 10.0}),
    "package without tasks": ({ENERGY: UNAVAILABLE}, {ENERGY: UNAVAILABLE}),
    "energy": ({ENERGY: 10.0}, {ENERGY: 14.0}),
    "unreadable energy": ({ENERGY: 10.0}, {ENERGY: "Error"}),
}
"""By name, the values of a group without a pod, two seconds apart."""


def text(found: Line) -> str:
    known = {name: value if value is None else round(value, 6) for name, value in found.values.items()}
    return f"{known} moved {found.moved} counted {found.counted}"


def test_rates_in_special_intervals(golden: Golden) -> None:
    golden("\n".join(f"{name}: {text(rates(*pair))}" for name, pair in CASES.items()), "pods")
    lines = []
    for name, (before, now) in GROUPS.items():
        at = Snapshot(102, {path: slot_at(path) for path in now})
        one, new, empty = (
            of_values(before, now, at, seconds, is_new=is_new)
            for seconds, is_new in ((2, False), (2, True), (0, False))
        )
        lines.append(f"{name}: {text(one)}" + (f"; new: {text(new)}" if text(new) != text(one) else ""))
        assert (empty[MBM], added([one]).counted) == (None, one.counted)
    golden("\n".join(lines), "groups")


VALUES = st.one_of(st.none(), st.integers(0, 100))
LINES = st.builds(
    Line,
    values=st.dictionaries(st.sampled_from([*BY_KEY]), VALUES),
    moved=st.dictionaries(st.sampled_from([column.counter for column in COLUMNS]), VALUES),
    by_domain=st.dictionaries(st.sampled_from([("mbm_total_bytes", "mon_L3_00"), ("core_energy", "x")]), VALUES),
    counted=st.one_of(st.none(), st.sampled_from([0.6, 1.0])),
    uncounted=st.integers(0, 2),
)


def summed(parts: list[Any]) -> float | None:
    return None if None in parts else sum(parts)


@settings(max_examples=examples(50))
@given(st.lists(LINES, max_size=4))
def test_sum_is_unknown_where_a_part_is_unknown(parts: list[Line]) -> None:
    found = added(parts)
    assert (found.members, found.uncounted) == (len(parts), sum(one.uncounted for one in parts))
    for column in COLUMNS:
        assert found[column] == (summed([one[column] for one in parts]) if parts else None)
    for counter in {name for one in parts for name in one.moved}:
        assert found.moved[counter] == summed([one.moved.get(counter) for one in parts])
    for place in {place for one in parts for place in one.by_domain}:
        assert found.by_domain[place] == summed([one.by_domain.get(place) for one in parts])
    has_rate = any(found[column] is not None for column in (MBM, LOCAL, POWER))
    assert found.counted == (min((one.counted for one in parts if one.counted), default=None) if has_rate else None)
    assert added([]) == Line(values=dict.fromkeys(BY_KEY), members=0)


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


def test_later_one_of_a_readable_history_and_the_guard_is_shown(limited: Limited) -> None:
    for ago, source in ((720, "history"), (721, "history"), (719, "guard")):
        limited.begin()
        limited.store(720, ("MB 70 to 30",))
        step(limited, limited.now - ago)
        assert [one.source for one in limited.changes().newest()] == [source]
    Path(limited.host.context.settings.state_dir, NAME).unlink()
    limited.file.write_bytes(b"not a history" * 100)
    assert limited.texts() == []
    limited.file.unlink()
    assert limited.texts() == []


def test_change_of_another_day_has_its_date() -> None:
    noon = time.mktime((2026, 3, 2, 12, 0, 0, 0, 0, -1))
    change = ClassChange(rdt_class="", since=noon, change="MB 100 to 30 (L3 0)", source="history")
    assert since_text(change, noon + 60) == "class / since 12:00:00 (1m ago): MB 100 to 30 (L3 0)"
    assert since_text(change, noon + 86_400).startswith("class / since 2026-03-02 12:00:00 (1d ago): ")
