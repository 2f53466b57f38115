"""Counter data carried over the ends of groups: counts, and the seconds of counting."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hosts.counter_tree import ENERGY, OCCUPANCY, TOTAL

from resctrl_hooks.node.resctrl.carried import Carried
from resctrl_hooks.node.resctrl.counters import ERROR, UNASSIGNED, UNAVAILABLE, slot_at

if TYPE_CHECKING:
    from resctrl_hooks.node.resctrl.counters import Raw

KEY, OTHER = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "4f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
LOCAL = "mon_L3_00/mbm_local_bytes"
FILES = [OCCUPANCY, TOTAL, LOCAL]


class Scrapes:
    """Successive scrapes: each loads the file, counts its values at a time, and saves."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.now = 0.0
        self.files = FILES
        Path(folder, "totals").mkdir()
        self._ledger: Any = SimpleNamespace(folder=str(folder), read_pod=self.pods.get)
        clock = SimpleNamespace(CLOCK_BOOTTIME=7, clock_gettime=lambda _: self.now, time=lambda: 1e9 + self.now)
        monkeypatch.setattr("resctrl_hooks.node.resctrl.carried.time", clock)

    def load(self, now: float, boot: str = "this") -> Carried:
        self.now = now
        carried = Carried(self._ledger, boot)
        carried.see([slot_at(path) for path in self.files])
        return carried

    def at(self, now: float, key: str = KEY, **groups: list[Raw]) -> Carried:
        """Return a scrape with these groups of a key: by class ("root" is the root class), their files' values.

        The first of the numbers is the group's identity.
        """
        carried = self.load(now)
        found = {name.replace("root", ""): (str(numbers[0]), numbers[1:]) for name, numbers in groups.items()}
        carried.update(key, found)
        carried.save()
        return carried


@pytest.fixture
def scrapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scrapes:
    return Scrapes(tmp_path, monkeypatch)


def test_group_counts_since_creation_and_continues_after_recreation(scrapes: Scrapes) -> None:
    scrapes.pods[KEY] = {"since": {"": 90.0}}
    assert scrapes.at(100, root=[1, 64, 10, 1]).seconds(KEY, "") == {TOTAL: 10, LOCAL: 10}
    assert scrapes.at(130.0004, root=[1, 64, 20, 2]).seconds(KEY, "") == {TOTAL: 40, LOCAL: 40}
    ended = scrapes.at(200)
    assert ended.seconds(KEY, "") == {TOTAL: 40, LOCAL: 40}
    assert ended.total(KEY, "", TOTAL) == 20
    scrapes.pods[KEY] = {"since": {"": 205.0}}
    another = scrapes.at(210, root=[2, 64, 5, 1])
    assert another.seconds(KEY, "") == {TOTAL: 45, LOCAL: 45}
    assert (another.total(KEY, "", TOTAL), another.total(KEY, "", LOCAL)) == (25, 3)
    assert another.total(KEY, "", OCCUPANCY) is None
    assert another.total(KEY, "gold", TOTAL) is None


def test_group_of_unknown_age_counts_from_now(scrapes: Scrapes) -> None:
    assert scrapes.at(100, root=[1, 0, 10, 1]).seconds(KEY, "") == {TOTAL: 0, LOCAL: 0}
    scrapes.pods[KEY] = {"since": {"gold": 500.0}}  # in the future: a clock that went back
    assert scrapes.at(110, gold=[2, 0, 10, 1]).seconds(KEY, "gold") == {TOTAL: 0, LOCAL: 0}


def test_moved_group_counts_separately_in_each_class(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    moved = scrapes.at(130, gold=[1, 0, 15, 1])
    assert (moved.total(KEY, "", TOTAL), moved.total(KEY, "gold", TOTAL)) == (10, 5)
    assert (moved.seconds(KEY, ""), moved.seconds(KEY, "gold")) == ({}, {TOTAL: 30, LOCAL: 30})
    assert scrapes.at(140, gold=[1, 0, 18, 1]).total(KEY, "gold", TOTAL) == 8


def test_uncounted_time_is_excluded(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 5, 5])
    assert scrapes.at(110, root=[1, 0, UNASSIGNED, 6]).seconds(KEY, "") == {TOTAL: 0, LOCAL: 10}
    assert scrapes.at(120, root=[1, 0, 7, 7]).seconds(KEY, "") == {TOTAL: 0, LOCAL: 20}
    counted = scrapes.at(130, root=[1, 0, 9, 8])
    assert counted.seconds(KEY, "") == {TOTAL: 10, LOCAL: 30}
    assert counted.total(KEY, "", TOTAL) == 14
    ended = scrapes.at(140)
    assert ended.seconds(KEY, "") == {TOTAL: 10, LOCAL: 30}
    scrapes.pods[KEY] = {"since": {"": 140}}
    assert scrapes.at(150, root=[2, 0, 1, 1]).seconds(KEY, "") == {TOTAL: 20, LOCAL: 40}


def test_removed_files_end_and_new_files_begin(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 7])
    scrapes.at(120, root=[1, 0, UNASSIGNED, 8])
    scrapes.files = [OCCUPANCY, TOTAL]  # as after a CPU hotplug
    without = scrapes.at(130, root=[1, 0, UNASSIGNED])
    assert without.seconds(KEY, "") == {TOTAL: 0}
    assert without.total(KEY, "", LOCAL) == 8
    assert without.keys[KEY]["spent"] == {"": {LOCAL: 20}}
    scrapes.files = [OCCUPANCY, TOTAL, LOCAL]
    again = scrapes.at(140, root=[1, 0, UNASSIGNED, 3])
    assert again.total(KEY, "", LOCAL) == 8 + 3
    assert again.seconds(KEY, "") == {TOTAL: 0, LOCAL: 20}  # not while the file was away
    assert scrapes.at(150, root=[1, 0, UNASSIGNED, 4]).seconds(KEY, "") == {TOTAL: 0, LOCAL: 30}


def test_energy_counts_from_baseline_at_creation(scrapes: Scrapes) -> None:
    scrapes.files = [TOTAL, ENERGY]
    scrapes.pods[KEY] = {"baselines": {"": ("1", {ENERGY: 2.5})}}
    assert scrapes.at(100, root=[1, 10, 4.0]).total(KEY, "", ENERGY) == 1.5
    scrapes.pods[OTHER] = {"baselines": {"": ("another", {ENERGY: 2.5})}}
    scrapes.at(100, OTHER, root=[1, 10, 4.0])
    later = scrapes.at(110, OTHER, root=[1, 11, 5.0])
    assert (later.total(OTHER, "", ENERGY), later.total(OTHER, "", TOTAL)) == (1.0, 11)


@pytest.mark.parametrize("baseline", [5000.0, None])
def test_energy_start_survives_class_change_before_first_value(scrapes: Scrapes, baseline: float | None) -> None:
    scrapes.files = [TOTAL, ENERGY]
    scrapes.pods[KEY] = {"baselines": {"": ("1", {} if baseline is None else {ENERGY: baseline})}}
    scrapes.at(100, root=[1, 10, ERROR])
    moved = scrapes.at(110, gold=[1, 15, ERROR])
    assert moved.total(KEY, "gold", ENERGY) is None
    first = scrapes.at(120, gold=[1, 20, 5001.0])
    assert first.total(KEY, "gold", ENERGY) == (0 if baseline is None else 1)
    later = scrapes.at(130, gold=[1, 20, 5003.0])
    assert later.total(KEY, "gold", ENERGY) == (2 if baseline is None else 3)
    assert (later.total(KEY, "", ENERGY), later.total(KEY, "", TOTAL)) == (None, 10)
    assert later.total(KEY, "gold", TOTAL) == 10


@pytest.mark.parametrize("rdt_class", ["", "gold"])
def test_first_energy_value_below_baseline_is_a_new_start(scrapes: Scrapes, rdt_class: str) -> None:
    scrapes.files = [TOTAL, ENERGY]
    scrapes.pods[KEY] = {"baselines": {"": ("1", {ENERGY: 5000.0})}}
    scrapes.at(100, root=[1, 10, ERROR])
    for now, value, total in ((110, 3.0, 0), (120, 4.5, 1.5)):
        groups: dict[str, list[Raw]] = {rdt_class or "root": [1, 10, value]}
        assert scrapes.at(now, KEY, **groups).total(KEY, rdt_class, ENERGY) == total


def test_late_energy_counts_from_first_value(scrapes: Scrapes) -> None:
    scrapes.files = [TOTAL]
    scrapes.at(100, root=[1, 10])
    scrapes.files = [TOTAL, ENERGY]
    scrapes.at(110, root=[1, 20, 4.0])
    later = scrapes.at(120, root=[1, 30, 6.0])
    assert (later.total(KEY, "", ENERGY), later.total(KEY, "", TOTAL)) == (2.0, 30)


def test_receiver_of_group_counts_from_its_current_value(scrapes: Scrapes) -> None:
    scrapes.at(90, root=[1, 0, 1, 4])  # a group of its own before
    carried = scrapes.load(100)
    for _ in range(2):  # the second time adds nothing
        carried.inherit(KEY, "", "2", [64, 1000, UNASSIGNED])
        assert carried.seconds(KEY, "") == {TOTAL: 0, LOCAL: 0}
    carried.save()
    assert carried.total(KEY, "", TOTAL) == 1
    assert carried.keys[KEY]["inherited"] == {"": ["2", 100, {OCCUPANCY: 64}]}
    counted = scrapes.at(110, root=[2, 64, 1010, 5])
    assert (counted.total(KEY, "", TOTAL), counted.total(KEY, "", LOCAL)) == (1 + 10, 4 + 5)
    assert counted.seconds(KEY, "") == {TOTAL: 10, LOCAL: 0}
    assert "inherited" in counted.keys[KEY]
    assert "inherited" not in scrapes.at(120, root=[2, 63, 1010, 5]).keys[KEY]  # its own lines by now


@pytest.mark.parametrize("said", [None, ERROR, UNAVAILABLE])
def test_missing_inherited_value_does_not_count_for_next(scrapes: Scrapes, said: Raw) -> None:
    carried = scrapes.load(100)
    carried.inherit(KEY, "", "2", [said, 1000, said])
    carried.save()
    assert carried.keys[KEY]["inherited"][""][2] == {}
    scrapes.at(110, root=[2, 64, 1000, 500])
    assert scrapes.at(120, root=[2, 64, 1000, 520]).total(KEY, "", LOCAL) == 20


def test_released_key_is_remembered_for_an_hour(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    for now, kept in ((200, True), (3800, True), (3801, False)):
        carried = scrapes.load(now)
        carried.forget(set())
        carried.save()
        assert (carried.total(KEY, "", TOTAL) == 10) is kept, now


def test_returning_key_is_not_gone(scrapes: Scrapes) -> None:
    for again in (
        lambda: scrapes.at(150, root=[2, 0, 5, 5]),
        lambda: scrapes.load(150).inherit(KEY, "", "2", [0, 1, 1]),
    ):
        scrapes.at(100, root=[1, 0, 10, 1])
        carried = scrapes.load(110)
        carried.forget(set())
        assert carried.keys[KEY]["gone"] == 1e9 + 110
        carried.save()
        again()
    carried = scrapes.load(160)
    carried.inherit(KEY, "", "2", [0, 1, 1])
    assert "gone" not in carried.keys[KEY]
    carried.update(KEY, {})
    assert "gone" not in carried.keys[KEY]


def test_latest_released_keys_are_remembered(scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.node.resctrl.carried._REMEMBERED_KEYS", 2)
    keys = ["one", "two", "three", "lives"]
    for number, key in enumerate(keys):
        scrapes.at(100, key, root=[number, 0, 10, 1])
    for number in range(3):
        carried = scrapes.load(200 + number)
        carried.forget({*keys[number + 1 :]})
        carried.save()
    assert carried.keys.keys() == {"two", "three", "lives"}


@pytest.mark.parametrize("change", [{"boot": "another"}, {"format": 2}, {"keys": []}, {"layout": {}}])
def test_file_of_another_boot_or_version_is_ignored(scrapes: Scrapes, change: dict[str, object]) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    file = Path(scrapes._ledger.folder, "totals/counters")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert scrapes.load(110).keys == {}


def test_group_without_files_is_not_seen(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    files, scrapes.files = scrapes.files, []
    assert not scrapes.load(110).seen
    scrapes.files = files
    assert scrapes.load(110).seen


def test_unaffected_counters_keep_their_time(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 7])
    scrapes.at(120, root=[1, 0, 20, 8])
    scrapes.files = [OCCUPANCY, TOTAL]
    assert scrapes.at(130, root=[1, 0, 30]).seconds(KEY, "") == {TOTAL: 30}
    scrapes.files = FILES
    assert scrapes.at(140, root=[1, 0, 40, 3]).seconds(KEY, "") == {TOTAL: 40, LOCAL: 20}
    assert scrapes.at(150, root=[1, 0, 50, 4]).seconds(KEY, "") == {TOTAL: 50, LOCAL: 30}


def test_totals_of_previous_version_are_adopted(scrapes: Scrapes) -> None:
    """Version 0.2 had the file one folder higher."""
    scrapes.at(100, root=[1, 0, 10, 1])
    file = Path(scrapes._ledger.folder, "totals/counters")
    kept = scrapes.load(110).keys
    assert kept
    file.rename(Path(scrapes._ledger.folder, "counters"))
    assert scrapes.load(110).keys == kept
    scrapes.at(120, root=[1, 0, 20, 2])
    assert file.exists()


def test_totals_with_path_outside_are_ignored(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    file = Path(scrapes._ledger.folder, "totals/counters")
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"layout": ["../../../../etc/passwd", *kept["layout"][1:]]}))
    assert scrapes.load(110).keys == {}
