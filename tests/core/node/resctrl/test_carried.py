"""Counter data carried over the ends of groups: counts, and the seconds of counting."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from conftest import always
from hosts.counter_tree import ENERGY, OCCUPANCY, TOTAL

from resctrl_hooks.core.node.resctrl import totals_file
from resctrl_hooks.core.node.resctrl.carried import Carried
from resctrl_hooks.core.node.resctrl.counters import ERROR, UNASSIGNED, UNAVAILABLE, slot_at
from resctrl_hooks.core.node.resctrl.totals_file import share_with_earlier

if TYPE_CHECKING:
    from resctrl_hooks.core.node.resctrl.counters import Raw

KEY, OTHER = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "4f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
LOCAL = "mon_L3_00/mbm_local_bytes"
FILES = [OCCUPANCY, TOTAL, LOCAL]


class Scrapes:
    """Successive scrapes: each loads the file, counts its values at a time, and saves."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.said: list[str] = []
        self.now = 0.0
        self.files = FILES
        Path(folder, "totals").mkdir()
        self._ledger: Any = SimpleNamespace(folder=str(folder), read_pod=self.pods.get)
        clock = SimpleNamespace(CLOCK_BOOTTIME=7, clock_gettime=lambda _: self.now, time=lambda: 1e9 + self.now)
        monkeypatch.setattr("resctrl_hooks.core.node.resctrl.carried.time", clock)

    def log(self, priority: int, message: str, **fields: str | int) -> None:
        self.said.append(message)

    def load(self, now: float, boot: str = "this") -> Kept:
        self.now = now
        node: Any = SimpleNamespace(ledger=self._ledger, boot=boot, log=self.log)
        carried = Kept(node)
        carried.see([slot_at(path) for path in self.files])
        return carried

    def at(self, now: float, key: str = KEY, **groups: list[Raw]) -> Kept:
        """Return a scrape with these groups of a key: by source, their files' values.

        "root" is the root class, "root__one" another group of it.

        The first of the numbers is the group's identity.
        """
        carried = self.load(now)
        found = {
            name.replace("root", "").replace("__", "/"): (str(numbers[0]), numbers[1:])
            for name, numbers in groups.items()
        }
        carried.update(key, found)
        carried.save()
        return carried

    def kept(self) -> Any:
        """Return the key's record."""
        return json.loads(Path(self._ledger.folder, "totals/counters").read_text())["keys"][KEY]


class Kept(Carried):
    """The file's content, with the amounts and seconds of one key and class."""

    def total(self, key: str, rdt_class: str, path: str) -> int | float | None:
        return self.of(key).total(rdt_class).amounts.get(path)

    def seconds(self, key: str, rdt_class: str) -> dict[str, float]:
        """Return the seconds of each counter."""
        seconds = self.of(key).total(rdt_class).seconds
        return {path: round(seconds.get(path, 0), 3) for path in (*self._layout, *seconds)}


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
    another = scrapes.at(210, root=[2, 64, 50, 1])  # one value above that of the first group, one below
    assert another.seconds(KEY, "") == {TOTAL: 45, LOCAL: 45}
    assert (another.total(KEY, "", TOTAL), another.total(KEY, "", LOCAL)) == (70, 3)
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
    assert (moved.seconds(KEY, ""), moved.seconds(KEY, "gold")) == ({TOTAL: 0, LOCAL: 0}, {TOTAL: 30, LOCAL: 30})
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
    scrapes.at(120, root=[1, 0, 20, 8])
    scrapes.files = [OCCUPANCY, TOTAL]  # as after a CPU hotplug
    without = scrapes.at(130, root=[1, 0, 30])
    assert without.seconds(KEY, "") == {TOTAL: 30, LOCAL: 20}
    assert without.total(KEY, "", LOCAL) == 8
    scrapes.files = FILES
    again = scrapes.at(140, root=[1, 0, UNASSIGNED, 3])
    assert again.total(KEY, "", LOCAL) == 8 + 3
    assert again.seconds(KEY, "") == {TOTAL: 30, LOCAL: 20}  # not while the file was away
    assert scrapes.at(150, root=[1, 0, 50, 4]).seconds(KEY, "") == {TOTAL: 30, LOCAL: 30}
    assert scrapes.at(160, root=[1, 0, 51, 4]).seconds(KEY, "") == {TOTAL: 40, LOCAL: 40}


def test_counts_stay_their_own_when_an_earlier_file_returns_before_a_restart(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 7])
    scrapes.files = [OCCUPANCY, LOCAL]  # the first domain is offline
    scrapes.at(110, root=[1, 0, 70])
    scrapes.files = FILES
    totals_file._SAVED.clear()  # as in another process
    again = scrapes.at(120, root=[1, 0, 3, 75])
    assert (again.total(KEY, "", TOTAL), again.total(KEY, "", LOCAL)) == (10 + 3, 75)


def test_energy_counts_from_baseline_at_creation(scrapes: Scrapes) -> None:
    scrapes.files = [TOTAL, ENERGY]
    scrapes.pods[KEY] = {"baselines": {"": ("1", {ENERGY: 2.5})}}
    assert scrapes.at(100, root=[1, 10, 4.0]).total(KEY, "", ENERGY) == 1.5
    scrapes.pods[OTHER] = {"baselines": {"": ("another", {ENERGY: 2.5})}}
    scrapes.at(100, OTHER, root=[2, 10, 4.0])
    later = scrapes.at(110, OTHER, root=[2, 11, 5.0])
    assert (later.total(OTHER, "", ENERGY), later.total(OTHER, "", TOTAL)) == (1.0, 11)


def test_energy_of_a_group_renamed_before_its_first_read_counts_from_its_baseline(scrapes: Scrapes) -> None:
    scrapes.files = [TOTAL, ENERGY]
    scrapes.pods[KEY] = {"since": {"": 90}, "baselines": {"": ("1", {ENERGY: 2.5})}}
    assert scrapes.at(100, gold=[1, 10, 4.0]).total(KEY, "gold", ENERGY) == 1.5


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


def test_receiver_of_group_counts_from_its_current_value(scrapes: Scrapes) -> None:
    scrapes.at(90, root=[1, 0, 1, 4])  # a group of its own before
    carried = scrapes.load(100)
    for _ in range(2):  # the second time adds nothing
        carried.inherit(KEY, "", "2", [64, 1000, UNASSIGNED])
        assert carried.seconds(KEY, "") == {TOTAL: 0, LOCAL: 0}
    carried.save()
    assert carried.total(KEY, "", TOTAL) == 1
    assert scrapes.kept()["inherited"] == {"": ["2", 100, {OCCUPANCY: 64}]}
    counted = scrapes.at(110, root=[2, 64, 1010, 5])
    assert (counted.total(KEY, "", TOTAL), counted.total(KEY, "", LOCAL)) == (1 + 10, 4 + 5)
    assert counted.seconds(KEY, "") == {TOTAL: 10, LOCAL: 0}
    assert counted.of(KEY).inherited
    assert not scrapes.at(120, root=[2, 63, 1010, 5]).of(KEY).inherited  # its own lines by now


@pytest.mark.parametrize("said", [None, ERROR, UNAVAILABLE])
def test_missing_inherited_value_does_not_count_for_next(scrapes: Scrapes, said: Raw) -> None:
    carried = scrapes.load(100)
    carried.inherit(KEY, "", "2", [said, 1000, said])
    carried.save()
    assert scrapes.kept()["inherited"][""][2] == {}
    scrapes.at(110, root=[2, 64, 1000, 500])
    assert scrapes.at(120, root=[2, 64, 1000, 520]).total(KEY, "", LOCAL) == 20


def test_released_key_is_remembered_for_an_hour(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    for now, kept in ((200, True), (3800, True), (3801, False)):
        carried = scrapes.load(now)
        carried.forget(set())
        carried.save()
        assert (carried.total(KEY, "", TOTAL) == 10) is kept, now


@pytest.mark.parametrize("jump", [7200, -7200, 40 * 86400, -1e9])
def test_released_key_is_remembered_whatever_the_clock_is_set_to(
    scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    for now, offset, kept in ((200, 0.0, True), (300, jump, True), (3800, 0.0, True), (3801, jump, False)):
        carried = scrapes.load(now)
        monkeypatch.setattr("resctrl_hooks.core.node.resctrl.carried.time.time", always(1e9 + now + offset))
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
        assert carried.of(KEY).gone == 1e9 + 110
        carried.save()
        again()
    carried = scrapes.load(160)
    carried.inherit(KEY, "", "2", [0, 1, 1])
    assert carried.of(KEY).gone is None
    carried.update(KEY, {})
    assert carried.of(KEY).gone is None


def test_latest_released_keys_are_remembered(scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.core.node.resctrl.carried._REMEMBERED_KEYS", 2)
    keys = ["one", "two", "three", "lives"]
    for number, key in enumerate(keys):
        scrapes.at(100, key, root=[number, 0, 10, 1])
    for number in range(3):
        carried = scrapes.load(200 + number)
        carried.forget({*keys[number + 1 :]})
        carried.save()
    assert carried.keys() == {"two", "three", "lives"}


@pytest.mark.parametrize(
    "change",
    [{"boot": "another"}, {"format": 2}, {"keys": []}, {"layout": {}}, {"layout": ["../../../../etc/passwd", LOCAL]}],
)
def test_file_of_another_boot_or_version_is_ignored(scrapes: Scrapes, change: dict[str, object]) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    file = Path(scrapes._ledger.folder, "totals/counters")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert scrapes.load(110).keys() == set()


def test_group_without_files_is_not_seen(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    files, scrapes.files = scrapes.files, []
    assert not scrapes.load(110).seen
    scrapes.files = files
    assert scrapes.load(110).seen


def test_totals_of_previous_version_are_adopted(scrapes: Scrapes) -> None:
    """Version 0.2 had the file one folder higher."""
    scrapes.at(100, root=[1, 0, 10, 1])
    file = Path(scrapes._ledger.folder, "totals/counters")
    file.rename(Path(scrapes._ledger.folder, "counters"))
    assert scrapes.load(110).total(KEY, "", TOTAL) == 10
    assert scrapes.at(120, root=[1, 0, 25, 2]).total(KEY, "", TOTAL) == 25
    assert file.exists()


def test_further_group_of_a_class_counts_for_the_key(scrapes: Scrapes) -> None:
    """The class's groups count at the same time, so its seconds are those of one."""
    scrapes.pods[KEY] = {"since": {"": 90.0}}
    first = scrapes.at(100, root=[1, 64, 10, 1], root__two=[2, 0, 5, UNASSIGNED])
    assert first.total(KEY, "", TOTAL) == 15
    assert scrapes.kept()["groups"].keys() == {""}  # an older version would show another class
    later = scrapes.at(110, root=[1, 64, 11, 2], root__two=[2, 0, 7, 3])
    assert (later.total(KEY, "", TOTAL), later.total(KEY, "", LOCAL)) == (18, 5)
    assert later.seconds(KEY, "") == {TOTAL: 20, LOCAL: 20}
    alone = scrapes.at(120, root__two=[2, 0, 8, 3])
    assert (alone.total(KEY, "", TOTAL), alone.seconds(KEY, "")[TOTAL]) == (19, 30)
    again = scrapes.at(130, root__two=[2, 0, 9, 3])
    assert (again.total(KEY, "", TOTAL), again.seconds(KEY, "")[TOTAL]) == (20, 40)


def test_damaged_data_of_a_key_affects_that_key_only(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    scrapes.at(100, OTHER, root=[2, 0, 10, 1])
    file = Path(scrapes._ledger.folder, "totals/counters")
    kept = json.loads(file.read_text())
    kept["keys"][KEY]["groups"][""][2] = ["many", 1]
    file.write_text(json.dumps(kept))
    assert scrapes.at(110, root=[1, 0, 12, 1]).total(KEY, "", TOTAL) == 12
    assert scrapes.at(110, OTHER, root=[3, 0, 1, 1]).total(OTHER, "", TOTAL) == 11


def test_damaged_file_gives_way_to_the_earlier_versions(scrapes: Scrapes) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    folder = Path(scrapes._ledger.folder)
    text = (folder / "counters").read_text()
    (folder / "counters").unlink()
    (folder / "counters").write_text(text)
    (folder / "totals/counters").write_text("{")
    assert scrapes.at(110, root=[2, 0, 1, 1]).total(KEY, "", TOTAL) == 11
    aside = folder / "totals/counters.damaged"
    assert scrapes.said == [f"damaged totals are set aside as {aside}; counters continue from an older file"]


def test_file_has_the_name_of_the_earlier_version_too(scrapes: Scrapes) -> None:
    folder = Path(scrapes._ledger.folder)
    for now, value in ((100, 10), (110, 20)):
        scrapes.at(now, root=[1, 0, value, 1])
        assert folder.joinpath("counters").samefile(folder / "totals/counters")
    assert sorted(path.name for path in folder.iterdir()) == ["counters", "totals"]


def test_newer_file_of_the_earlier_version_is_continued(scrapes: Scrapes) -> None:
    folder = Path(scrapes._ledger.folder)
    scrapes.at(100, root=[1, 0, 10, 1])
    kept = json.loads((folder / "counters").read_text())
    kept["keys"][KEY]["groups"][""] = ["1", [5, 0], [30, 1]]
    kept.pop("saved", None)  # which that version does not write
    (folder / "counters").unlink()
    (folder / "counters").write_text(json.dumps(kept))
    os.utime(folder / "totals/counters", (1e9, 1e9))
    share_with_earlier(scrapes._ledger, "counters")
    assert scrapes.load(105).total(KEY, "", TOTAL) == 35
    assert scrapes.at(110, root=[1, 0, 31, 1]).total(KEY, "", TOTAL) == 36
    assert folder.joinpath("counters").samefile(folder / "totals/counters")


@pytest.mark.parametrize("version", ["this", "0.2 with two names"])
def test_clock_that_is_set_back_leaves_the_last_totals_under_both_names(scrapes: Scrapes, version: str) -> None:
    folder = Path(scrapes._ledger.folder)
    scrapes.at(100, root=[1, 0, 10, 1])
    if version != "this":
        kept = json.loads((folder / "counters").read_text())
        kept.pop("saved", None)
        (folder / "counters").write_text(json.dumps(kept))  # the same file as the other one
    os.utime(folder / "counters", (4e9, 4e9))  # the clock was ahead
    totals_file._SAVED.clear()  # another process
    assert scrapes.at(110, root=[1, 0, 25, 1]).total(KEY, "", TOTAL) == 25
    assert folder.joinpath("counters").samefile(folder / "totals/counters")
    totals_file._SAVED.clear()
    assert scrapes.load(120).total(KEY, "", TOTAL) == 25


def test_file_that_only_a_reader_without_permission_could_save_is_the_newest_whatever_the_clock_says(
    scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot give its file the earlier version's name."""
    folder = Path(scrapes._ledger.folder)
    scrapes.at(100, root=[1, 0, 10, 1])
    os.utime(folder / "counters", (4e9, 4e9))
    with monkeypatch.context() as denied:
        denied.setattr(totals_file, "share_with_earlier", lambda *_, **__: None)
        totals_file._SAVED.clear()
        scrapes.at(110, root=[1, 0, 25, 1])
    assert not folder.joinpath("counters").samefile(folder / "totals/counters")
    totals_file._SAVED.clear()
    assert scrapes.load(120).total(KEY, "", TOTAL) == 25
    share_with_earlier(scrapes._ledger, "counters")
    assert folder.joinpath("counters").samefile(folder / "totals/counters")
