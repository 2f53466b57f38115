"""Reads of groups in a plain tree: whatever fails or changes between or in two reads, totals stay exact."""

import errno
import os
import posix
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from conftest import always
from hosts.counter_tree import ENERGY, OCCUPANCY, TOTAL, say, say_paths
from hosts.faults import failing

from resctrl_hooks.core.node.errors import HookError, NotMountedError, NotTrackedError
from resctrl_hooks.core.node.resctrl import counter_files, totals_file
from resctrl_hooks.core.node.resctrl.counter_totals import ended, read_counters, summed
from resctrl_hooks.core.node.resctrl.counters import Raw, Reading, Slot
from resctrl_hooks.core.node.resctrl.energy_baseline import baseline
from resctrl_hooks.core.node.resctrl.group_moves import follow, part_with, settle
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.core.node.resctrl.sources import Sources, drop_repeats
from resctrl_hooks.core.node.resctrl.total import GONE, OUT_OF_VIEW, Source

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
DOMAINS = ("mon_L3_00", "mon_L3_01")
ELSEWHERE = "mon_PERF_PKG_01/core_energy"
ERRORS = (errno.ENFILE, errno.EACCES, errno.EIO)
SYSTEM_CALLS = ("open", "read", "listdir", "stat", "lstat", "fstat", "rename", "write")


def shown(readings: list[Reading]) -> dict[str, object]:
    """Return readings by path, with the class before it where there is one: the value, or the state without one."""
    return {
        f"{'' if one.rdt_class is None else one.rdt_class + ':'}{one.domain.folder}/{one.counter.name}": (
            one.state if one.value is None else one.value
        )
        for one in readings
    }


def total(readings: list[Reading]) -> int:
    return int(sum(one.value or 0 for one in readings if one.counter.name == "mbm_total_bytes"))


class Tree:
    """A plain tree in the place of resctrl, and a key with a group of two domains in class "gold" that counts."""

    def __init__(self, root: Path) -> None:
        self.root, self.state, self.resctrl = root, root / "state", root / "resctrl"
        (self.resctrl / "mon_groups").mkdir(parents=True)
        self.monitor = self.other_monitor()
        self.true = 0

    def other_monitor(self) -> Monitor:
        """Return a monitor as of another process."""
        return Monitor(str(self.resctrl), state_dir=str(self.state))

    def make(self, rdt_class: str = "") -> Path:
        """Return the key's group in a class, made if it isn't there."""
        (self.resctrl / rdt_class / "mon_groups").mkdir(parents=True, exist_ok=True)
        self.group = self.resctrl / self.monitor.ensure_group(KEY, rdt_class).path
        return self.group

    def count(self, number: int = 50) -> None:
        """Count so many bytes, half in each domain."""
        self.true += number
        say_paths(self.group, {f"{domain}/mbm_total_bytes": self.true // 2 for domain in DOMAINS})

    def read(self, *, by_class: bool = False, key: str = KEY) -> dict[str, object]:
        return shown(self.other_monitor().read(key, by_class=by_class))

    def states(self) -> set[str]:
        return {one.state for one in self.other_monitor().read(KEY) if one.counter.name == "mbm_total_bytes"}

    def one(self) -> int:
        """Return the total by a read of the key."""
        return total(self.other_monitor().read(KEY))

    def all(self) -> int:
        """Return the total by a read of everything."""
        return total(self.other_monitor().read_all()[KEY])

    def lost(self) -> set[str]:
        return set(ended(self.monitor, KEY))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def counting(tree: Tree) -> Tree:
    tree.make("gold")
    say_paths(tree.resctrl, {f"{domain}/mbm_total_bytes": 1 for domain in DOMAINS})
    tree.count()
    assert tree.one() == tree.true
    return tree


def test_classes_are_summed_and_a_missing_part_is_marked(tree: Tree) -> None:
    with pytest.raises(NotTrackedError):
        tree.read()
    root, gold = tree.make(), tree.make("gold")
    say(tree.resctrl / "mon_groups" / "other", mbm_total_bytes=7)
    say(root, llc_occupancy=1, mbm_total_bytes=10)
    say(gold, llc_occupancy=2, mbm_total_bytes=20)
    assert tree.read() == {OCCUPANCY: 3, TOTAL: 30}
    assert list(tree.monitor.read_all()) == [KEY]
    say(gold, llc_occupancy="Unavailable", mbm_total_bytes="Unassigned")
    assert tree.read() == {OCCUPANCY: "Unavailable", TOTAL: 30}
    assert tree.states() == {"Unassigned"}
    by_class = {f":{OCCUPANCY}": 1, f":{TOTAL}": 10, f"gold:{OCCUPANCY}": "Unavailable", f"gold:{TOTAL}": 20}
    assert tree.read(by_class=True) == by_class
    shutil.rmtree(tree.resctrl / "gold")
    assert tree.read() == {OCCUPANCY: 1, TOTAL: 30}
    shutil.rmtree(root)
    assert tree.read() == {TOTAL: 30}
    shutil.rmtree(tree.resctrl)
    with pytest.raises(NotMountedError):
        tree.read()


def test_baseline_is_the_value_of_energy_counters_at_creation(tmp_path: Path) -> None:
    assert baseline(str(tmp_path))[1] == {}
    say(tmp_path, mbm_total_bytes=7)
    values = {0: (5.5, "Unavailable"), 1: ("nan", "inf")}
    for package, (energy, activity) in values.items():
        folder = f"mon_PERF_PKG_0{package}"
        say_paths(tmp_path, {f"{folder}/core_energy": energy, f"{folder}/activity": activity})
    identity, found = baseline(str(tmp_path))
    assert found == {ENERGY: 5.5, "mon_PERF_PKG_00/activity": 0}
    assert identity == counter_files.read_group(str(tmp_path), [])[0]
    with pytest.raises(FileNotFoundError):
        baseline(str(tmp_path / "gone"))


@pytest.mark.parametrize("handed", [False, True])
def test_energy_in_an_unused_package_counts_from_zero(tree: Tree, handed: bool) -> None:
    group = tree.make()
    # A plain tree has no counters at creation: the kernel's value at that time goes into the record.
    say_paths(group, {ENERGY: "Unavailable"})
    with tree.monitor.hold(KEY) as locked:
        locked.record["baselines"] = {"": baseline(str(group))}
        locked.save()
    say_paths(group, {ENERGY: 10.0, ELSEWHERE: "Unavailable"})
    assert tree.read() == {ENERGY: 10.0, ELSEWHERE: 0}
    key = "taker" if handed else KEY
    if handed:
        assert settle(
            tree.other_monitor(), (KEY, ""), [""], (key, ""), lambda: bool(group.rename(group.with_name(key)))
        )
        with tree.monitor.hold(key) as locked:
            locked.record["groups"] = {"": "created"}
            locked.save()
    say_paths(group.with_name(key), {ENERGY: 12.0, ELSEWHERE: 7.5})
    assert tree.read(key=key) == {ENERGY: 2.0 if handed else 12.0, ELSEWHERE: 7.5}


class Failures:
    """The system calls of this process, of which one fails: that with the number ``at``."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at = self.errno = -1
        self.number = count(1)
        calls = {name: self.wrapped(getattr(posix, name)) for name in SYSTEM_CALLS}
        for name, call in calls.items():
            patch.setattr(posix, name, call)
        patch.setattr(counter_files._read, "__defaults__", (calls["open"], calls["read"], posix.close))

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(self.number) == self.at:
                raise OSError(self.errno, os.strerror(self.errno))
            return function(*args, **options)

        return call

    def set(self, at: int, number: int = 0) -> None:
        self.at, self.errno, self.number = at, number, count(1)


@pytest.mark.parametrize("whole", [True, False])
def test_total_is_exact_after_each_failed_call(counting: Tree, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    read = counting.all if whole else counting.one
    last = read()
    failures = Failures(monkeypatch)
    read()
    calls = next(failures.number)
    assert calls > 20
    for at in range(1, calls):
        counting.count()
        failures.set(at, ERRORS[at % len(ERRORS)])
        with suppress(HookError, OSError):
            assert last <= read() <= counting.true, at
        failures.set(-1)
        last = read()
        assert last == counting.true, at
    assert not counting.lost()


def refusing(name: str, end: str, number: int) -> Any:
    """Let a system call fail for paths with this end."""
    error = OSError(number, os.strerror(number))
    return failing(posix, name, error, when=lambda path, *_, **__: str(path).endswith(end))


@pytest.mark.parametrize("name, end, states", [
    ("open", f"mon_groups/{KEY}", {"Error"}),
    ("open", f"{DOMAINS[0]}/mbm_total_bytes", {"Error", "available"}),
    ("listdir", "mon_data/mon_L3_01", {"available"}),
    ("listdir", "mon_data", {"available"}),
])  # fmt: skip
def test_unreadable_file_keeps_its_last_values(counting: Tree, name: str, end: str, states: set[str]) -> None:
    with refusing(name, end, errno.EMFILE), pytest.MonkeyPatch.context() as patch:
        patch.setattr(counter_files._read, "__defaults__", (posix.open, posix.read, posix.close))
        for _ in range(3):
            assert counting.one() == counting.all() == counting.true
        assert counting.states() == states
        if name == "listdir":
            shutil.rmtree(counting.state)
            totals_file._SAVED.clear()
            counting.monitor.ensure_group(KEY, "gold")
            with pytest.raises(HookError, match="cannot list the counters"):
                counting.one()
    counting.count()
    assert counting.one() == counting.true
    assert not counting.lost()


def test_unseen_sources_are_bounded_and_those_out_of_view_stay() -> None:
    sources = Sources()

    def judge(known: Source | None, _place: str, identity: str) -> Source:
        return known or Source(identity)

    sources.observe({"hidden": ("hidden", [1])}, judge, hidden=False)
    sources.observe({}, judge, hidden=True)
    for number in range(40):
        sources.observe({"": (str(number), [1])}, judge, hidden=True)
        for source in sources.unseen.values():
            source.state = OUT_OF_VIEW if source.identity == "hidden" else GONE
    assert len(sources.unseen) <= 18, "16 that ended, and those out of view: one for long, and the last one"
    assert "hidden" in sources.unseen


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("old, new", [("gold", ""), ("", "gold")])
def test_group_renamed_during_a_read_is_counted_once(counting: Tree, old: str, new: str, listed: bool) -> None:
    there = {"gold": counting.group, "": counting.resctrl / "mon_groups" / KEY}
    if not old:
        counting.group = counting.group.rename(there[old])
        counting.one()
    looks: list[str] = []

    def read_one(folder: str, slots: list[Slot]) -> tuple[str, list[Raw]]:
        looks.append(folder)
        if len(looks) == (2 if not listed and old else 1):
            counting.group = counting.group.rename(there[new])
        return counter_files.read_group(folder, slots)

    found = read_counters(counting.other_monitor(), None if listed else [KEY], read_one=read_one).readings[KEY]
    assert total(summed(found)) == counting.one() == counting.true
    counting.count()
    assert counting.one() == counting.true
    assert not counting.lost()
    repeated: dict[str, tuple[str, list[Raw]]] = {"": ("a", [1]), "gold": ("a", [2]), "silver": ("b", [3])}
    drop_repeats(repeated)
    assert repeated == {"gold": ("a", [2]), "silver": ("b", [3])}


def test_change_of_one_group_forgets_none_that_it_does_not_look_at(counting: Tree) -> None:
    other = counting.resctrl / "silver/mon_groups" / KEY  # another program's, of which the record does not know
    say(other, mbm_total_bytes=6)
    assert counting.all() == counting.true + 6
    assert part_with(counting.monitor, KEY, ["gold"], lambda: shutil.rmtree(counting.group))
    assert not counting.lost()
    say(other, mbm_total_bytes=8)
    assert counting.all() == counting.true + 8


# Remounts, after which groups get the same identities


class Mounts:
    """Mounts of resctrl one after another; the key's group in each may be this project's or another program's."""

    def __init__(self, counting: Tree, patch: pytest.MonkeyPatch, origin: str, **since: float) -> None:
        self.tree = counting
        self.number = 1
        real = counter_files.read_group
        self.read_one = lambda folder, slots: ("same", real(folder, slots)[1])
        patch.setattr("resctrl_hooks.core.node.resctrl.carried.witnesses", self.witnesses)
        shutil.rmtree(counting.state)
        with counting.monitor.hold(KEY) as locked:
            locked.record.update({"groups": {"gold": origin}, "since": since})
            locked.save()

    def witnesses(self, _root: str, before: list[str]) -> tuple[list[str], bool]:
        return [str(self.number)], before in ([], [str(self.number)])

    def again(self) -> None:
        self.number += 1
        time.sleep(0.002)  # a mount takes longer than the unit of recorded times
        shutil.rmtree(self.tree.group)
        self.tree.true = 0

    def total(self, path: str = TOTAL) -> Any:
        found = read_counters(self.tree.other_monitor(), [KEY], read_one=self.read_one).readings[KEY]
        return shown(summed(found))[path]


@pytest.mark.parametrize("origin, second, counted", [
    *(("created", second, 50 + second) for second in (20, 50, 90)),
    ("shared", 20, 50 + 20), ("shared", 50, 50), ("shared", 90, 90),  # less than before: it began again, else the same
])  # fmt: skip
def test_group_after_a_remount_is_never_counted_twice(
    counting: Tree, monkeypatch: pytest.MonkeyPatch, origin: str, second: int, counted: int
) -> None:
    mounts = Mounts(counting, monkeypatch, origin, gold=0.0)
    assert mounts.total() == 25
    mounts.number += origin == "shared"  # a changed time of the root alone is no remount
    mounts.again()
    if origin == "created":
        counting.make("gold")
    else:
        counting.group.mkdir()
    counting.count(second)
    assert mounts.total() == counted // 2
    assert counting.lost() == {KEY}


def test_energy_after_a_remount_counts_from_its_first_value(counting: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    say_paths(counting.resctrl, {ENERGY: 1.0})
    mounts = Mounts(counting, monkeypatch, "shared")
    for value, counted in ((100.0, 0), (103.0, 3.0), (5000.0, 3.0), (5002.5, 5.5)):
        if value == 5000.0:
            mounts.again()
        say_paths(counting.group, {ENERGY: value})
        assert mounts.total(ENERGY) == counted


def test_group_that_cannot_be_read_or_renamed_is_not_changed(counting: Tree) -> None:
    monitor, change = counting.other_monitor(), always(value=False)
    with refusing("open", f"mon_groups/{KEY}", errno.ENFILE):
        assert not follow(monitor, KEY, ["gold"], "gold", pytest.fail)
        assert not part_with(monitor, KEY, ["gold"], pytest.fail)
        assert not settle(monitor, (KEY, "gold"), ["gold"], ("taker", ""), pytest.fail)
    assert not settle(monitor, (KEY, "gold"), ["gold"], ("taker", ""), change), "after the counts were saved"
    counting.count()
    assert counting.one() == counting.true
