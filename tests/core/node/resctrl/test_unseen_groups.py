"""Groups that one read does not see: each event between two reads, and each error in one, keeps the totals exact."""

from __future__ import annotations

import errno
import json
import os
import posix
import shutil
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hosts.counter_tree import ENERGY, TOTAL, remake, say, say_paths

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.flags import set_flag
from resctrl_hooks.core.node.ledger import RUNTIMES
from resctrl_hooks.core.node.resctrl import counter_files
from resctrl_hooks.core.node.resctrl.counter_totals import ended, read_counters, summed
from resctrl_hooks.core.node.resctrl.group_moves import follow, part_with, settle
from resctrl_hooks.core.node.resctrl.mounts import witnesses

from .test_counter_totals import KEY, Tree, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resctrl_hooks.core.node.resctrl.counters import Raw, Slot

DOMAINS = ("mon_L3_00", "mon_L3_01")
OTHER_ERRORS = (errno.ENFILE, errno.EMFILE, errno.ENOMEM, errno.EACCES, errno.EIO, errno.EINTR)
SYSTEM_CALLS = ("open", "read", "listdir", "stat", "lstat", "fstat", "rename", "write")


class Counting:
    """A key's group with two domains in class "gold", and its true count."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        self.group = self.tree.group("gold")
        self.true = 0
        say(self.tree.resctrl, llc_occupancy=1, mbm_total_bytes=1)
        say_paths(self.tree.resctrl, {f"{DOMAINS[1]}/mbm_total_bytes": 1})

    def count(self, number: int = 50) -> None:
        """Count so many bytes, half in each domain."""
        self.true += number
        for domain in DOMAINS:
            say_paths(self.group, {f"{domain}/mbm_total_bytes": self.true // 2})

    def total(self) -> int:
        readings = self.tree.other_monitor().read(KEY)
        return int(sum(one.value or 0 for one in readings if one.counter.name == "mbm_total_bytes"))

    def total_of_all(self) -> int:
        readings = self.tree.other_monitor().read_all()[KEY]
        return int(sum(one.value or 0 for one in readings if one.counter.name == "mbm_total_bytes"))


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    found = Counting(tmp_path)
    found.count()
    assert found.total() == found.true
    return found


class Failures:
    """The system calls of this process, of which one fails: that with the number ``at``."""

    def __init__(self) -> None:
        self.at = self.errno = -1
        self.number = 0

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.number += 1
            if self.number == self.at:
                raise OSError(self.errno, os.strerror(self.errno))
            return function(*args, **options)

        return call


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[Failures]:
    found = Failures()
    calls = {name: found.wrapped(getattr(posix, name)) for name in SYSTEM_CALLS}
    for name, call in calls.items():
        monkeypatch.setattr(posix, name, call)
    monkeypatch.setattr(counter_files._read, "__defaults__", (calls["open"], calls["read"], posix.close))
    yield found
    found.at = -1


@pytest.mark.parametrize("number", OTHER_ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("whole", [True, False])
def test_total_is_exact_after_any_failed_system_call_of_a_read(
    counting: Counting, failures: Failures, number: int, whole: bool
) -> None:
    read = counting.total_of_all if whole else counting.total
    last = read()
    failures.number = 0
    read()
    calls = failures.number
    assert calls > 20
    for at in range(1, calls + 1):
        counting.count()
        failures.at, failures.errno, failures.number = at, number, 0
        with suppress(HookError, OSError):
            found = read()
            assert last <= found <= counting.true, at
        failures.at = -1
        last = read()
        assert last == counting.true, at
    assert not ended(counting.tree.monitor, KEY)


def failing(name: str, end: str, number: int) -> Any:
    """Return a `posix` of which one call fails for paths with this end."""
    real = getattr(posix, name)

    def call(path: str, *args: Any, **options: Any) -> Any:
        if str(path).endswith(end):
            raise OSError(number, os.strerror(number), path)
        return real(path, *args, **options)

    return SimpleNamespace(**{**vars(posix), name: call})


@pytest.mark.parametrize("number", OTHER_ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize(
    "name, end", [("open", f"mon_groups/{KEY}"), ("listdir", "mon_data/mon_L3_01"), ("listdir", "mon_data")]
)
def test_folder_that_cannot_be_read_keeps_its_last_values(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, name: str, end: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(counter_files, "posix", failing(name, end, number))
        for _ in range(3):
            assert counting.total() == counting.total_of_all() == counting.true
        if name == "open":
            assert {*counting.tree.states().values()} == {"Error"}
    counting.count()
    assert counting.total() == counting.true
    assert not ended(counting.tree.monitor, KEY)


def test_counter_file_that_cannot_be_read_is_an_error(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = failing("open", f"{DOMAINS[0]}/mbm_total_bytes", errno.EMFILE)
    with monkeypatch.context() as patch:
        patch.setattr(counter_files._read, "__defaults__", (refused.open, posix.read, posix.close))
        assert counting.tree.states()[TOTAL] == "Error"
        assert counting.total() == counting.true


def test_unknown_files_that_cannot_be_listed_fail_the_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(tmp_path)
    counting.count()
    with monkeypatch.context() as patch:
        patch.setattr(counter_files, "posix", failing("listdir", "mon_data/mon_L3_01", errno.ENFILE))
        with pytest.raises(HookError, match="cannot list the counters"):
            counting.total()
    assert counting.total() == counting.true


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("old, new", [("gold", ""), ("", "gold")])
def test_group_renamed_between_the_looks_of_a_read_is_counted_once(
    counting: Counting, old: str, new: str, listed: bool
) -> None:
    there = {"gold": counting.group, "": counting.tree.resctrl / "mon_groups" / KEY}
    if not old:
        counting.group.rename(there[old])
        counting.group = there[old]
        counting.total()
    looks: list[str] = []

    def read_one(folder: str, slots: list[Slot]) -> tuple[str, list[Raw]]:
        looks.append(folder)
        if len(looks) == (2 if not listed and old else 1):
            counting.group.rename(there[new])
            counting.group = there[new]
        return counter_files.read_group(folder, slots)

    found = read_counters(counting.tree.other_monitor(), None if listed else [KEY], read_one=read_one).readings[KEY]
    assert sum(one.value or 0 for one in summed(found) if one.counter.name == "mbm_total_bytes") == counting.true
    assert counting.total() == counting.true
    counting.count()
    assert counting.total() == counting.true
    assert not ended(counting.tree.monitor, KEY)


@pytest.mark.parametrize("reads", [1, 3])
def test_group_that_was_gone_continues_when_it_returns(counting: Counting, reads: int) -> None:
    aside = counting.tree.root / "aside"
    counting.group.rename(aside)
    for _ in range(reads):
        assert counting.total_of_all() == counting.true
    assert ended(counting.tree.monitor, KEY).keys() == {KEY}
    aside.rename(counting.group)
    counting.count()
    assert counting.total() == counting.true
    assert not ended(counting.tree.monitor, KEY), "nothing was lost"


def test_another_group_beside_one_out_of_view_starts_at_zero(counting: Counting) -> None:
    before = counting.true
    aside = counting.tree.root / "aside"
    remake(counting.group, aside)
    counting.true = 0
    counting.count(20)
    assert counting.total() == before + 20
    shutil.rmtree(counting.group)
    aside.rename(counting.group)
    counting.true = before
    counting.count(10)
    assert counting.total() == before + 20 + 10


@pytest.mark.parametrize("whole", [True, False])
def test_shared_group_of_a_returning_key_is_counted_once(tmp_path: Path, whole: bool) -> None:
    counting = Counting(tmp_path)
    counting.tree.monitor.remove(KEY)
    counting.group = counting.tree.resctrl / "mon_groups" / KEY
    counting.group.mkdir()
    for _ in range(3):
        assert counting.tree.monitor.ensure_group(KEY).origin == "shared"
        counting.count()
        assert counting.total() == counting.true
        counting.tree.monitor.remove(KEY)
        counting.tree.monitor.read_all()


def test_group_of_a_returning_key_that_is_not_there_at_once_is_counted_once(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.tree.monitor.remove(KEY)
    aside = counting.tree.root / "aside"
    counting.group = counting.tree.resctrl / "mon_groups" / KEY
    counting.group.mkdir()
    counting.tree.monitor.ensure_group(KEY)
    counting.count()
    assert counting.total() == counting.true
    counting.tree.monitor.remove(KEY)
    counting.tree.monitor.read_all()
    counting.group.rename(aside)
    counting.tree.monitor.ensure_group(KEY, "gold")
    assert counting.total_of_all() == counting.true
    assert not ended(counting.tree.monitor, KEY)
    aside.rename(counting.group)
    counting.count()
    assert counting.total_of_all() == counting.true


def test_change_of_one_group_forgets_none_that_it_does_not_look_at(counting: Counting) -> None:
    other = counting.tree.resctrl / "silver/mon_groups"
    other.mkdir(parents=True)
    (other / KEY).mkdir()  # another program's, of which the record does not know
    say(other / KEY, mbm_total_bytes=6)
    assert counting.total_of_all() == counting.true + 6
    assert part_with(counting.tree.monitor, KEY, ["gold"], lambda: shutil.rmtree(counting.group))
    assert not ended(counting.tree.monitor, KEY)
    say(other / KEY, mbm_total_bytes=8)
    assert counting.total_of_all() == counting.true + 8


def test_group_renamed_to_another_key_is_not_counted_again(counting: Counting) -> None:
    other = counting.tree.resctrl / "gold/mon_groups/other"
    counting.group.rename(other)
    counting.tree.monitor.ensure_group("other", "gold")
    counting.group = other
    counting.true += 10
    say(other, mbm_total_bytes=counting.true // 2)
    found = shown(counting.tree.other_monitor().read("other"))
    assert found[TOTAL] == 5


@pytest.mark.parametrize("whole, back_in", [(True, "gold"), (True, "silver"), (False, "silver")])
def test_group_that_comes_back_from_another_key_counts_nothing_of_the_time_there(
    counting: Counting, whole: bool, back_in: str
) -> None:
    other = counting.tree.resctrl / "gold/mon_groups/other"
    counting.group.rename(other)
    counting.tree.monitor.ensure_group("other", "gold")
    for number in (0, 100):
        say_paths(other, {f"{domain}/mbm_total_bytes": counting.true // 2 + number for domain in DOMAINS})
        if whole:
            assert counting.total_of_all() == counting.true
        else:
            counting.tree.other_monitor().read("other")
    counting.group = counting.tree.resctrl / back_in / "mon_groups" / KEY
    counting.group.parent.mkdir(parents=True, exist_ok=True)
    other.rename(counting.group)
    say_paths(counting.group, {f"{domain}/mbm_total_bytes": counting.true // 2 + 103 for domain in DOMAINS})
    assert counting.total_of_all() == counting.true + 2 * 3


@pytest.mark.parametrize("number", [10, 40])
def test_many_groups_out_of_view_are_counted_once(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monitor = counting.tree.monitor
    set_flag(monitor.ledger, RUNTIMES, on=True)
    with monitor.hold(KEY) as locked:
        for name in [f"container-{place}" for place in range(number)]:
            locked.add_member(name, {"runtimeGroup": True})
            group = counting.tree.resctrl / "gold/mon_groups" / name
            group.mkdir()
            say(group, mbm_total_bytes=100)
            counting.true += 100
    assert counting.total_of_all() == counting.true
    with monkeypatch.context() as patch:
        patch.setattr(counter_files, "posix", failing("open", "", errno.ENFILE))
        assert counting.total_of_all() == counting.true
    assert counting.total_of_all() == counting.true


class Mounts:
    """Mounts of resctrl one after another, in which groups get the same identities."""

    def __init__(self, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counting = counting
        self.number = 1
        real = counter_files.read_group
        self.read_one = lambda folder, slots: ("same", real(folder, slots)[1])
        monkeypatch.setattr("resctrl_hooks.core.node.resctrl.carried.witnesses", self.witnesses)

    def witnesses(self, root: str, before: list[str]) -> tuple[list[str], bool]:
        return [str(self.number)], before in ([], [str(self.number)])

    def again(self) -> None:
        """Mount again: the groups are removed, and the next ones count from 0."""
        self.number += 1
        time.sleep(0.002)  # a mount takes longer than the unit of recorded times
        shutil.rmtree(self.counting.group)
        self.counting.true = 0

    def total(self, path: str = TOTAL) -> object:
        found = read_counters(self.counting.tree.other_monitor(), [KEY], read_one=self.read_one).readings[KEY]
        return shown(summed(found))[path]


@pytest.fixture
def mounts(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> Mounts:
    shutil.rmtree(counting.tree.state)
    found = Mounts(counting, monkeypatch)
    with counting.tree.monitor.hold(KEY) as locked:
        locked.record.update({"groups": {"gold": "created"}, "since": {"gold": 0.0}})
        locked.save()
    assert found.total() == counting.true // 2
    return found


@pytest.mark.parametrize("second", [20, 50, 90])
def test_own_group_after_a_remount_starts_at_zero(mounts: Mounts, second: int) -> None:
    mounts.again()
    mounts.counting.tree.group("gold")
    mounts.counting.count(second)
    assert mounts.total() == (50 + second) // 2
    assert ended(mounts.counting.tree.monitor, KEY).keys() == {KEY}


@pytest.mark.parametrize("second, counted", [(20, 50 + 20), (50, 50), (90, 90)])
def test_others_group_after_a_remount_is_never_counted_twice(mounts: Mounts, second: int, counted: int) -> None:
    with mounts.counting.tree.monitor.hold(KEY) as locked:
        locked.record.update({"groups": {"gold": "shared"}, "since": {}})
        locked.save()
    mounts.again()
    mounts.counting.group.mkdir()
    mounts.counting.count(second)
    assert mounts.total() == counted // 2
    assert ended(mounts.counting.tree.monitor, KEY).keys() == {KEY}


def test_energy_of_anothers_group_after_a_remount_counts_from_its_first_value(mounts: Mounts) -> None:
    say_paths(mounts.counting.tree.resctrl, {ENERGY: 1.0})
    with mounts.counting.tree.monitor.hold(KEY) as locked:
        locked.record.update({"groups": {"gold": "shared"}, "since": {}})
        locked.save()
    for value, counted in ((100.0, 0), (103.0, 3.0)):
        say_paths(mounts.counting.group, {ENERGY: value})
        assert mounts.total(ENERGY) == counted
    mounts.again()
    mounts.counting.group.mkdir()
    for value, counted in ((5000.0, 3.0), (5002.5, 5.5)):
        say_paths(mounts.counting.group, {ENERGY: value})
        assert mounts.total(ENERGY) == counted


def test_changed_time_of_the_root_alone_is_no_remount(mounts: Mounts) -> None:
    mounts.number += 1  # the same group
    mounts.counting.count(10)
    assert mounts.total() == mounts.counting.true // 2
    assert not ended(mounts.counting.tree.monitor, KEY)


def test_group_out_of_view_has_its_last_values_where_earlier_versions_look(counting: Counting) -> None:
    def fails(_folder: str, _slots: object) -> tuple[str, list[Raw]]:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    counting.count()
    read_counters(counting.tree.other_monitor(), read_one=fails)
    state = json.loads((counting.tree.state / "totals/counters").read_text())["keys"][KEY]
    ((source, (_, identity, offsets, lasts)),) = state["others"].items()
    # Version b4d185de continues each of these from its last values, whatever its name, if the identity is seen again.
    assert (source, offsets, lasts) == (f"gold/~{identity}", [-25, -25], [25, 25])
    assert identity == counter_files.identity_of(counting.group.stat())
    assert counting.total() == counting.true
    assert "others" not in json.loads((counting.tree.state / "totals/counters").read_text())["keys"][KEY]


def test_mount_is_known_by_any_of_its_folders(tmp_path: Path) -> None:
    for name in ("info", "mon_data"):
        (tmp_path / name).mkdir()
    first, is_same = witnesses(str(tmp_path), [])
    assert is_same
    assert witnesses(str(tmp_path), first) == (first, True)
    tmp_path.chmod(0o700)
    changed, is_same = witnesses(str(tmp_path), first)
    assert is_same
    assert changed != first
    for name in ("info", "mon_data", "."):
        (tmp_path / name).chmod(0o755)
    assert not witnesses(str(tmp_path), changed)[1]


def test_group_that_this_project_renames_continues_in_its_new_class(counting: Counting) -> None:
    new = counting.tree.resctrl / "mon_groups" / KEY

    def rename() -> bool:
        counting.group.rename(new)
        counting.group = new
        return True

    counting.count()  # not read yet: it still counts for the old class
    assert follow(counting.tree.monitor, KEY, ["gold"], "gold", rename)
    counting.count(10)
    found = shown(counting.tree.other_monitor().read(KEY, by_class=True))
    assert (found[f"gold:{TOTAL}"], found[f":{TOTAL}"]) == (50, 5)


def test_removal_after_a_last_read_is_no_loss(counting: Counting) -> None:
    counting.count()
    assert part_with(counting.tree.monitor, KEY, ["gold"], lambda: shutil.rmtree(counting.group))
    assert counting.total_of_all() == counting.true
    assert not ended(counting.tree.monitor, KEY)


def test_removal_of_one_group_keeps_the_keys_others(counting: Counting) -> None:
    other = counting.tree.group()
    say_paths(other, {f"{domain}/mbm_total_bytes": 3 for domain in DOMAINS})
    assert counting.total_of_all() == counting.true + 6
    assert part_with(counting.tree.monitor, KEY, ["gold"], lambda: shutil.rmtree(counting.group))
    assert not ended(counting.tree.monitor, KEY)
    assert counting.total() == counting.true + 6


@pytest.mark.parametrize("root_counts", [True, False])
def test_taker_counts_nothing_of_the_giver_which_lost_another_group(counting: Counting, root_counts: bool) -> None:
    if not root_counts:
        shutil.rmtree(counting.tree.resctrl / "mon_data")
    shutil.rmtree(counting.tree.group())  # by another program; the record has it
    taken = counting.group.with_name("taker")

    def rename() -> bool:
        counting.group.rename(taken)
        return True

    assert settle(counting.tree.other_monitor(), (KEY, "gold"), ["", "gold"], ("taker", "gold"), rename)
    with counting.tree.monitor.hold("taker") as locked:
        locked.record["groups"] = {"gold": "created"}
        locked.save()
    assert shown(counting.tree.other_monitor().read("taker"))[TOTAL] == 0
    assert counting.total() == counting.true


@pytest.mark.parametrize("act", ["settle", "follow", "part_with"])
def test_group_that_cannot_be_read_is_not_changed(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    def change() -> bool:
        pytest.fail("changed")

    with monkeypatch.context() as patch:
        patch.setattr(counter_files, "posix", failing("open", f"mon_groups/{KEY}", errno.ENFILE))
        monitor = counting.tree.other_monitor()
        if act == "settle":
            assert not settle(monitor, (KEY, "gold"), ["gold"], ("taker", ""), change)
        elif act == "follow":
            assert not follow(monitor, KEY, ["gold"], "gold", change)
        else:
            assert not part_with(monitor, KEY, ["gold"], lambda: pytest.fail("changed"))
    counting.count()
    assert counting.total() == counting.true


def test_handover_that_fails_after_its_counts_were_saved_counts_nothing_twice(counting: Counting) -> None:
    assert not settle(counting.tree.monitor, (KEY, "gold"), ["gold"], ("taker", ""), lambda: False)
    counting.count()
    assert counting.total() == counting.true
