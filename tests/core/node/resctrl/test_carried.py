"""The carried counts: any order of events against a simple truth, in memory and on disk, and the files of versions."""

import json
import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import examples
from hosts.counter_tree import ENERGY, OCCUPANCY, TOTAL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl import carried, totals_file
from resctrl_hooks.core.node.resctrl.carried import Carried
from resctrl_hooks.core.node.resctrl.counters import ERROR, UNASSIGNED, UNAVAILABLE, Raw, slot_at
from resctrl_hooks.core.node.resctrl.total import Source, Total
from resctrl_hooks.core.node.resctrl.totals_file import share_with_earlier
from resctrl_hooks.core.node.resctrl.turn_counts import MOST, Turns

KEY, OTHER = "a", "b"
LOCAL = "mon_L3_00/mbm_local_bytes"
FILES = [OCCUPANCY, TOTAL, LOCAL, ENERGY]
COUNTED = FILES[1:]
PLACES = ["", "gold", "gold/c0"]


class Scrapes:
    """Successive scrapes of one state directory."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, files: list[str]) -> None:
        self.folder, self.files = folder, files
        (self.folder / "totals").mkdir()
        self.pods: dict[str, dict[str, Any]] = {}
        self.said: list[str] = []
        self.now = 100.0
        self.wall = 1e9
        self.file = self.folder / "totals/counters"
        self.ledger: Any = SimpleNamespace(folder=str(folder), read_pod=self.pods.get)
        clock = SimpleNamespace(
            CLOCK_BOOTTIME=7, clock_gettime=lambda _: self.now, time=lambda: self.wall + self.now, sleep=time.sleep
        )
        patch.setattr(carried, "time", clock)

    def log(self, _priority: int, message: str, **_: object) -> None:
        self.said.append(message)

    def load(self, *, forget: set[str] | None = None) -> Carried:
        """Return the counts as another reader finds them; forget keys but those that are tracked."""
        node: Any = SimpleNamespace(ledger=self.ledger, boot="this", log=self.log)
        found = Carried(node)
        found.see([slot_at(path) for path in self.files])
        if forget is not None:
            found.forget(forget)
            found.save()
        return found

    def at(self, now: float, key: str = KEY, **groups: list[Raw]) -> dict[str, float]:
        """Return a key's amounts in the root class after a read of groups: identity, then its files' values."""
        self.now = now
        found = self.load()
        found.update(key, {name.replace("root", ""): (str(of[0]), of[1:]) for name, of in groups.items()})
        found.save()
        return found.of(key).total("").amounts

    def restart(self) -> None:
        """Continue as another process."""
        totals_file._SAVED.clear()

    def change_file(self, **changes: Any) -> None:
        self.file.write_text(json.dumps(json.loads(self.file.read_text()) | changes))


@pytest.fixture
def scrapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scrapes:
    return Scrapes(tmp_path, monkeypatch, [OCCUPANCY, TOTAL, LOCAL])


class Group:
    """A group as the kernel has it, and what readers have credited to its owners."""

    def __init__(self, number: int, key: str, place: str) -> None:
        self.identity, self.key, self.place, self.origin = f"g{number}", key, place, place
        self.count: dict[str, float] = dict.fromkeys(COUNTED, 0)
        self.began: dict[str, float] = dict.fromkeys(COUNTED, 0)  # the count at which the kernel's number was 0
        self.credited: dict[str, float | None] = dict.fromkeys(COUNTED, 0)
        self.valid: set[str] = set()  # the counters whose next value has been counted since the last look
        self.had: set[str] = set()  # those with a value from which they continue
        self.words: dict[str, str] = {}
        self.there, self.hidden, self.seen, self.missed = True, False, False, False
        self.former: set[str] = set()  # keys that lost it
        self.read = 0.0

    def raw(self, files: list[str]) -> list[Raw]:
        return [1 if path == OCCUPANCY else self.words.get(path, self.count[path] - self.began[path]) for path in files]

    def restart(self, path: str) -> None:
        """Let the kernel's number begin at 0, or energy at any value; what no reader saw is lost."""
        self.began[path] = self.count[path]
        self.credited[path] = None if path == ENERGY else self.count[path]
        self.valid.discard(path)
        self.had.discard(path)


class World:
    """Two keys with groups, the truth about their counts, and the carried counts of readers."""

    def __init__(self, scrapes: Scrapes) -> None:
        self.scrapes = scrapes
        self.groups: list[Group] = []
        self.amounts: dict[tuple[str, str, str], float] = {}
        self.seconds: dict[tuple[str, str, str], float] = {}

    def of(self, key: str) -> dict[str, Group]:
        return {one.place: one for one in self.groups if one.key == key and one.there and not one.hidden}

    def is_free(self, key: str, place: str) -> bool:
        return (key, place) not in {(one.key, one.place) for one in self.groups}

    def record(self, key: str) -> dict[str, Any]:
        return self.scrapes.pods.setdefault(key, {"groups": {}, "since": {}, "baselines": {}})

    def unrecord(self, key: str, place: str) -> None:
        """Let a record know nothing of a group at a place."""
        for field in ("groups", "since"):
            self.record(key)[field].pop(place, None)
        for one in self.unseen(key, place):
            one.valid = set()

    def unseen(self, key: str, origin: str) -> list[Group]:
        """Return the groups of whose begin nothing is known when the record of their first place is lost."""
        return [one for one in self.groups if one.key == key and one.origin == origin and not one.seen]

    def do(self, name: str, *given: Any) -> None:
        """Let an event happen: to a group that is there, if its first argument is one's number."""
        event = getattr(self, name)
        there = [one for one in self.groups if one.there]
        if name not in NUMBERED:
            event(*given)
        elif there:
            event(there[given[0] % len(there)], *given[1:])

    def make(self, number: int, place: str, how: int) -> None:
        """Create a group: by this project at a known time, or by another program; energy continues from another's."""
        key = KEY if number % 2 else OTHER
        if not self.is_free(key, place):
            return
        group = Group(len(self.groups), key, place)
        group.count[ENERGY] = 5.0
        group.credited[ENERGY] = 5.0 if how else None
        record = self.record(key)
        record["baselines"].pop(place, None)
        self.unrecord(key, place)
        for one in self.unseen(key, place):
            one.credited[ENERGY] = None
        group.read = self.scrapes.now
        if how:
            record["groups"][place] = "created"
            record["since"][place] = self.scrapes.now
            record["baselines"][place] = (group.identity, {ENERGY: 5.0})
            group.valid = set(COUNTED)
        self.groups.append(group)

    def count(self, group: Group, amount: int) -> None:
        for factor, path in ((1, TOTAL), (2, LOCAL), (0.25, ENERGY)):
            if group.words.get(path) != UNASSIGNED:
                group.count[path] += amount * factor

    def say(self, group: Group, path: str, word: str) -> None:
        """Let a counter have no value; an unassigned one begins at 0 when it is assigned again."""
        if not group.hidden and not (path == ENERGY and word != ERROR):
            group.words[path] = word
            self.read()
            if word == UNASSIGNED:
                group.restart(path)

    def unsay(self, group: Group) -> None:
        group.words.clear()

    def move(self, group: Group, place: str) -> None:
        """Another program, or this one, renames a group into another class."""
        if ("/" in group.place) == ("/" in place) and self.is_free(group.key, place):
            self.unrecord(group.key, place)
            group.place = place

    def confuse(self, group: Group, place: str) -> None:
        """Another program gives a group the other key's name."""
        key = KEY if group.key == OTHER else OTHER
        if group.seen and "/" not in place + group.place and self.is_free(key, place):
            self.unrecord(key, place)
            group.former.add(group.key)
            group.key, group.place = key, place

    def hide(self, group: Group) -> None:
        group.hidden = True

    def away(self, group: Group) -> None:
        """A group that was seen is nowhere, until it returns."""
        group.there = not group.seen or group.hidden

    def show(self) -> None:
        for group in self.groups:
            group.hidden, group.there = False, True

    def hotplug(self) -> None:
        """A file vanishes, or returns: its counter begins at 0. No read knows of a file that a new group lacked."""
        self.scrapes.files = FILES if self.scrapes.files != FILES else [OCCUPANCY, TOTAL, ENERGY]
        for group in self.groups:
            valid = group.valid if group.seen else {*group.valid}
            group.restart(LOCAL)
            group.valid = valid
        self.read()

    def hand(self, group: Group, place: str) -> None:
        """A group becomes the other key's, with its counts until now."""
        taker = OTHER if group.key == KEY else KEY
        others = [one for one in self.groups if one is not group and one.key in (KEY, OTHER)]
        if "/" in place + group.place or group.hidden or not group.seen:
            return
        if any(one.place == place or one.hidden for one in others):
            return
        self.read()
        carried = self.scrapes.load()
        carried.leave(group.key, [group.place])
        carried.inherit(taker, place, group.identity, group.raw(self.scrapes.files))
        carried.save()
        group.key, group.place = taker, place
        self.unrecord(taker, place)
        for path in {*COUNTED} & {*self.scrapes.files}:
            if path not in group.words:
                self.amounts.setdefault((taker, place, path), 0)
            elif group.words[path] != UNASSIGNED:
                group.credited[path] = None
                group.had.discard(path)

    def release(self, number: int) -> None:
        """A key is released, and returns soon."""
        self.scrapes.load(forget={KEY} if number % 2 else {OTHER})

    def wait(self, seconds: float) -> None:
        self.scrapes.now += seconds

    def restart(self) -> None:
        self.scrapes.restart()

    def read(self) -> None:
        """Read everything, and compare with the truth."""
        self.scrapes.now = round(self.scrapes.now + 1, 3)
        files = self.scrapes.files
        carried = self.scrapes.load()
        for group in self.groups:
            group.missed = group.missed or not group.there
        for key in (KEY, OTHER):
            found = self.of(key)
            hidden = any(one.hidden and one.there for one in self.groups if one.key == key)
            carried.update(key, {place: (one.identity, one.raw(files)) for place, one in found.items()}, hidden=hidden)
            spent: dict[tuple[str, str, str], float] = {}
            for place, group in found.items():
                for path in set(COUNTED) & set(files):
                    self.credit(group, (key, place.partition("/")[0], path), spent)
                group.seen, group.read, group.missed = True, self.scrapes.now, False
            for where, seconds in spent.items():
                self.seconds[where] = self.seconds.get(where, 0) + seconds
        carried.save()
        self.check(carried)

    def credit(self, group: Group, where: tuple[str, str, str], spent: dict[tuple[str, str, str], float]) -> None:
        path = where[2]
        if path in group.words:
            if path not in group.had:
                group.valid.discard(path)
            return
        before = group.credited[path]
        self.amounts[where] = self.amounts.get(where, 0) + (0 if before is None else group.count[path] - before)
        elapsed = self.scrapes.now - group.read if path in group.valid else 0
        spent[where] = max(spent.get(where, 0), elapsed)
        group.credited[path] = group.count[path]
        group.valid.add(path)
        group.had.add(path)

    def check(self, carried: Carried) -> None:
        for key in (KEY, OTHER):
            counts = carried.of(key)
            totals = {(key, name): of.amounts for name, of in counts.totals.items()}
            amounts = {(*where, path): one for where, of in totals.items() for path, one in of.items() if one}
            wanted = {where: one for where, one in self.amounts.items() if where[0] == key and one}
            assert amounts == pytest.approx(wanted)
            for place, group in self.of(key).items():  # a total that was seen stays visible
                name = place.partition("/")[0]
                seen = group.had | {path for path in COUNTED if (key, name, path) in self.amounts}
                assert seen & {*self.scrapes.files} <= counts.total(name).amounts.keys()
            seconds = {where: counts.total(where[1]).seconds.get(where[2], 0) for where in wanted}
            assert seconds == pytest.approx({where: self.seconds.get(where, 0) for where in wanted})
            lost = any(key in one.former or (one.key == key and one.missed) for one in self.groups)
            assert lost or not counts.ended, "a group is said to be lost that is not"
            turns = carried.turns(key)
            if turns and len(counts.counted) == 1:
                (name,) = counts.counted
                assert sum(moved for _, moved in turns) <= wanted.get((key, name, TOTAL), 0)


NUMBER = st.integers(0, 5)
NUMBERED = ("count", "say", "unsay", "hide", "away", "move", "hand", "confuse")
STEPS = st.one_of(
    st.tuples(st.just("make"), NUMBER, st.sampled_from(PLACES), st.integers(0, 1)),
    st.tuples(st.just("count"), NUMBER, st.integers(1, 100)),
    st.tuples(st.just("read")),
    st.tuples(st.just("say"), NUMBER, st.sampled_from(COUNTED), st.sampled_from([UNASSIGNED, UNAVAILABLE, ERROR])),
    st.tuples(st.sampled_from(["unsay", "hide", "away", "release"]), NUMBER),
    st.tuples(st.sampled_from(["move", "hand", "confuse"]), NUMBER, st.sampled_from(PLACES)),
    st.tuples(st.sampled_from(["show", "hotplug", "restart"])),
    st.tuples(st.just("wait"), st.sampled_from([0.001, 7.5, 100.0])),
)


@settings(max_examples=examples(60))
@example([("read",), ("confuse", 0, "gold"), ("count", 0, 9), ("read",), ("confuse", 0, ""), ("count", 0, 3)])
@example([("count", 0, 9), ("read",), ("say", 0, TOTAL, UNASSIGNED), ("unsay", 0), ("count", 0, 3)])
@example([("count", 0, 9), ("read",), ("say", 0, TOTAL, ERROR), ("move", 0, "gold")])
@example([("count", 0, 9), ("read",), ("say", 0, TOTAL, UNASSIGNED), ("move", 0, "gold")])
@example([("count", 0, 1), ("move", 0, "gold"), ("move", 0, "")])
@example([("count", 0, 9), ("read",), ("hand", 0, ""), ("read",), ("restart",)])
@given(st.lists(STEPS, max_size=40))
def test_totals_and_seconds_are_the_truth_after_any_events(steps: list[tuple[Any, ...]]) -> None:
    root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with tempfile.TemporaryDirectory(dir=root) as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Scrapes(Path(folder), patch, FILES))
        world.make(1, "", 1)
        for step in steps:
            world.do(*step)
        world.show()
        for _ in range(2):
            world.read()


@pytest.mark.parametrize("starts, reads, amounts", [
    ({ENERGY: 0.0}, [UNAVAILABLE, 1.5], [0, 1.5]),  # no task of the RMID has run in that package
    ({ENERGY: 2.0}, [UNAVAILABLE, 2.5, UNAVAILABLE], [None, 0.5, 0.5]),
    ({ENERGY: 0.0}, [ERROR, 1.0, UNAVAILABLE], [None, 1.0, 1.0]),
    ({ENERGY: 4.0}, [3.0, 4.5], [0, 1.5]),  # below the baseline: another RMID's
    ({ENERGY: 0.0}, [n / 10 for n in range(1, 99)], [n / 10 for n in range(1, 99)]),  # exact sums
    ({}, [700.0, 702.5], [0, 2.5]),
])  # fmt: skip
def test_energy_counts_from_its_start(starts: Any, reads: list[Raw], amounts: list[float | None]) -> None:
    total, source = Total(), Source("1", 10.0, starts)
    for number, (value, amount) in enumerate(zip(reads, amounts, strict=True)):
        total.add(source, [(ENERGY, value)], 11.0 + number)
        assert total.amounts.get(ENERGY) == amount


@pytest.mark.parametrize("second, waned", [([64, 9], False), ([63, 9], True), ([64, 9, "late"], True)])
def test_cache_lines_of_an_earlier_user_are_kept_until_they_wane(scrapes: Scrapes, second: Any, waned: bool) -> None:
    scrapes.now = 100
    found = scrapes.load()
    for _ in range(2):  # the second time adds nothing
        found.inherit(KEY, "", "1", [64, 1000, UNASSIGNED])
    found.save()
    assert json.loads(scrapes.file.read_text())["keys"][KEY]["inherited"] == {"": ["1", 100, {OCCUPANCY: 64}]}
    scrapes.restart()
    amounts = scrapes.at(110 if len(second) == 2 else 160, root=[1, second[0], 1009, 5])
    assert (amounts[TOTAL], amounts[LOCAL]) == (9, 5)
    assert bool(scrapes.load().of(KEY).inherited) is not waned


@pytest.mark.parametrize("jump", [0, 7200, -7200, 40 * 86400, -1e9])
def test_released_key_is_remembered_for_an_hour_whatever_the_clock_is_set_to(scrapes: Scrapes, jump: float) -> None:
    scrapes.at(100, root=[1, 0, 10, 1])
    for scrapes.now, scrapes.wall, kept in ((200, 1e9, True), (300, 1e9 + jump, True), (3801, 1e9 + jump, False)):
        scrapes.load(forget=set())
        scrapes.restart()
        assert (scrapes.load().of(KEY).total("").amounts.get(TOTAL) == 10) is kept


def test_latest_released_keys_are_remembered(scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "_REMEMBERED_KEYS", 2)
    keys = ["one", "two", "three", "lives"]
    for number, key in enumerate(keys):
        scrapes.at(100, key, root=[number, 0, 10, 1])
    for number in range(3):
        scrapes.now = 200 + number
        found = scrapes.load(forget={*keys[number + 1 :]})
    assert found.keys() == {"two", "three", "lives"}
    found.update("two", {})
    found.inherit("three", "", "x", [0, 1, 1])
    assert [found.of(key).gone for key in ("two", "three")] == [None, None]


def test_turns_are_the_counts_until_each_end_and_the_latest_are_kept() -> None:
    turns = Turns()
    assert turns.with_present(5.0, 50) == []
    for seconds, moved in ((5.0, 50), (5.0, 50), (7.0, 90)):
        turns.finish(seconds, moved)
    assert turns.with_present(7.0, 90) == [(5.0, 50.0), (2.0, 40.0)]
    assert turns.with_present(8.0, 91) == [(5.0, 50.0), (2.0, 40.0), (1.0, 1.0)]
    for number in range(8, 8 + MOST):
        turns.finish(number, number * number)
    assert (len(turns.each), turns.each[-1]) == (MOST, [1.0, 2 * (7 + MOST) - 1])


# The files of versions


@pytest.fixture
def read_once(scrapes: Scrapes) -> Scrapes:
    """Return scrapes after a first read."""
    scrapes.at(100, root=[1, 0, 10, 1])
    scrapes.restart()
    return scrapes


@pytest.mark.parametrize(
    "change",
    [{"boot": "another"}, {"format": 2}, {"keys": []}, {"layout": {}}, {"layout": ["../../../../etc/passwd", LOCAL]}],
)
def test_file_of_another_boot_or_version_is_ignored(read_once: Scrapes, change: dict[str, object]) -> None:
    assert read_once.load().keys() == {KEY}
    read_once.restart()
    read_once.change_file(**change)
    assert read_once.load().keys() == set()


def test_damaged_data_of_a_key_affects_that_key_only(read_once: Scrapes) -> None:
    read_once.at(100, OTHER, root=[2, 0, 10, 1])
    keys = json.loads(read_once.file.read_text())["keys"]
    keys[KEY]["groups"][""][2] = ["many", 1]
    read_once.change_file(keys=keys)
    assert read_once.at(110, root=[1, 0, 12, 1])[TOTAL] == 12
    assert read_once.at(110, OTHER, root=[3, 0, 1, 1])[TOTAL] == 11


def change(scrapes: Scrapes, how: str) -> None:
    """Change the file ``totals/counters``, or ``counters`` of version 0.2, which is the same file."""
    earlier, text = scrapes.folder / "counters", scrapes.file.read_text()
    content = json.loads(text)
    saved = content.pop("saved")
    assert saved
    if how == "only the earlier name":
        scrapes.file.rename(earlier)
    elif how == "damaged":
        earlier.unlink()
        earlier.write_text(text)
        scrapes.file.write_text("{")
    elif how == "without a time":
        earlier.write_text(json.dumps(content))
    elif how == "continued by 0.2":  # which writes a file of its own, without a time, to which 5 were added
        content["keys"][KEY]["groups"][""][1] = [5, 0]
        earlier.unlink()
        earlier.write_text(json.dumps(content))
        os.utime(scrapes.file, (1e9, 1e9))
        share_with_earlier(scrapes.ledger, "counters")
    if how in ("clock ahead", "without a time"):
        os.utime(earlier, (4e9, 4e9))


@pytest.mark.parametrize(
    "how", ["only the earlier name", "damaged", "clock ahead", "without a time", "continued by 0.2"]
)
def test_totals_continue_under_both_names(read_once: Scrapes, how: str) -> None:
    change(read_once, how)
    added = 5 * (how == "continued by 0.2")
    for now, value in ((110, 25), (120, 26)):
        assert read_once.at(now, root=[1, 0, value, 1])[TOTAL] == value + added
        read_once.restart()
        assert (read_once.folder / "counters").samefile(read_once.file)
    aside = read_once.folder / "totals/counters.damaged"
    said = [f"damaged totals are set aside as {aside}; counters continue from an older file"]
    assert read_once.said == (said if how == "damaged" else [])
