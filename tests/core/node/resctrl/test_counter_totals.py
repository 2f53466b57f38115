"""Counters that never go back, whatever becomes of the groups that count."""

import shutil
import time
from pathlib import Path

import pytest
from hosts.counter_tree import ENERGY, OCCUPANCY, TOTAL, remake, say, say_paths

from resctrl_hooks.core.node.errors import NotMountedError, NotTrackedError
from resctrl_hooks.core.node.host.files import parse_json
from resctrl_hooks.core.node.log import WARNING
from resctrl_hooks.core.node.resctrl.counters import Reading
from resctrl_hooks.core.node.resctrl.energy_baseline import baseline
from resctrl_hooks.core.node.resctrl.group_moves import settle
from resctrl_hooks.core.node.resctrl.monitor import Monitor

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
ELSEWHERE = "mon_PERF_PKG_01/core_energy"


class Tree:
    """A plain tree in the place of resctrl, and a monitor on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        self.resctrl = root / "resctrl"
        (self.resctrl / "mon_groups").mkdir(parents=True)
        self.said: list[str] = []
        self.monitor = self.other_monitor()

    def other_monitor(self) -> Monitor:
        """Return a monitor as of another process."""
        return Monitor(str(self.resctrl), state_dir=str(self.state), log=self.log)

    def log(self, priority: int, message: str, **fields: str | int) -> None:
        """Keep warnings and errors."""
        if priority <= WARNING:
            self.said.append(message)

    def group(self, rdt_class: str = "", key: str = KEY) -> Path:
        """Return the key's group in a class, made if it isn't there."""
        if rdt_class:
            (self.resctrl / rdt_class / "mon_groups").mkdir(parents=True, exist_ok=True)
        return Path(self.monitor.ensure_group(key, rdt_class).path)

    def read(self, *, by_class: bool = False) -> dict[str, object]:
        """Return `Monitor.read`'s result by path: the value, or the state without a value."""
        return shown(self.other_monitor().read(KEY, by_class=by_class))

    def states(self) -> dict[str, str]:
        """Return the states, by path."""
        readings = self.other_monitor().read(KEY)
        return {f"{reading.domain.folder}/{reading.counter.name}": reading.state for reading in readings}


def shown(readings: list[Reading]) -> dict[str, object]:
    """Readings by path, with the class before it where there is one."""
    return {
        f"{f'{reading.rdt_class}:' if reading.rdt_class is not None else ''}{reading.domain.folder}"
        f"/{reading.counter.name}": reading.state if reading.value is None else reading.value
        for reading in readings
    }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_reading_equals_file(tree: Tree) -> None:
    say(tree.group(), llc_occupancy=65536, mbm_total_bytes=1000)
    assert tree.read() == {OCCUPANCY: 65536, TOTAL: 1000}
    say(tree.group(), llc_occupancy=0, mbm_total_bytes=1500)
    assert tree.read() == {OCCUPANCY: 0, TOTAL: 1500}


def test_two_classes_of_pod_are_summed(tree: Tree) -> None:
    say(tree.group(), llc_occupancy=1, mbm_total_bytes=10)
    say(tree.group("gold"), llc_occupancy=2, mbm_total_bytes=20)
    assert tree.read() == {OCCUPANCY: 3, TOTAL: 30}


def test_sum_with_missing_part_is_marked(tree: Tree) -> None:
    say(tree.group(), llc_occupancy=1, mbm_total_bytes=10)
    say(tree.group("gold"), llc_occupancy="Unavailable", mbm_total_bytes="Unassigned")
    assert tree.read() == {OCCUPANCY: "Unavailable", TOTAL: 10}
    assert tree.states() == {OCCUPANCY: "Unavailable", TOTAL: "Unassigned"}
    assert tree.read(by_class=True) == {
        f":{OCCUPANCY}": 1,
        f":{TOTAL}": 10,
        f"gold:{OCCUPANCY}": "Unavailable",
        f"gold:{TOTAL}": "Unassigned",
    }


@pytest.mark.parametrize("word", ["Unassigned", "Unavailable", "Error"])
def test_uncounted_total_stays_visible(tree: Tree, word: str) -> None:
    group = tree.group()
    say(group, llc_occupancy=1, mbm_total_bytes=word)
    assert tree.read() == {OCCUPANCY: 1, TOTAL: word}, "it never counted"
    say(group, mbm_total_bytes=10)
    tree.read()
    say(group, llc_occupancy=word, mbm_total_bytes=word)
    for _ in range(2):
        assert tree.read() == {OCCUPANCY: word, TOTAL: 10}
        assert tree.states() == {OCCUPANCY: word, TOTAL: word}
    say(group, llc_occupancy=1, mbm_total_bytes=0 if word == "Unassigned" else 10)
    assert tree.read() == {OCCUPANCY: 1, TOTAL: 10}
    assert tree.states() == {OCCUPANCY: "available", TOTAL: "available"}
    say(group, mbm_total_bytes=word)
    remake(group, tree.root / "aside")
    say(group, mbm_total_bytes=word)
    assert tree.read()[TOTAL] == 10


def test_removed_group_keeps_its_counts(tree: Tree) -> None:
    say(tree.group(), llc_occupancy=9, mbm_total_bytes=10)
    say(tree.group("gold"), llc_occupancy=9, mbm_total_bytes=20)
    tree.read()
    shutil.rmtree(tree.group())
    assert tree.read() == {OCCUPANCY: 9, TOTAL: 30}
    shutil.rmtree(tree.resctrl / "gold")
    assert tree.read() == {TOTAL: 30}


def with_baseline(tree: Tree, energy: float | str) -> Path:
    """Return the key's group, whose energy counter said this at its creation."""
    (tree.resctrl / "info" / "PERF_PKG_MON").mkdir(parents=True)
    with tree.monitor.hold(KEY) as locked:
        locked.ensure_group()
        # A plain tree has no counters at creation: the kernel's value at that time goes into the record.
        group = tree.resctrl / "mon_groups" / KEY
        say_paths(group, {ENERGY: energy})
        locked.record["baselines"] = {"": baseline(str(group))}
        locked.save()
    return group


def test_energy_after_move_to_unused_package_counts_from_zero(tree: Tree) -> None:
    group = with_baseline(tree, "Unavailable")
    say_paths(group, {ENERGY: 10.0, ELSEWHERE: "Unavailable"})
    assert tree.read() == {ENERGY: 10.0, ELSEWHERE: 0}
    say_paths(group, {ENERGY: 11.0, ELSEWHERE: 13.3})
    assert tree.read() == {ENERGY: 11.0, ELSEWHERE: 13.3}


def test_energy_seconds_include_time_before_first_task(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: clock[0])
    group = with_baseline(tree, "Unavailable")
    for value in ("Unavailable", "Unavailable", 8.0):
        clock[0] += 5
        say_paths(group, {ENERGY: value})
        (reading,) = tree.monitor.read(KEY)
    assert (reading.value, reading.seconds) == (8.0, 15.0)


def test_energy_after_handover_in_unused_package_counts_from_zero(tree: Tree) -> None:
    group = with_baseline(tree, "Unavailable")
    say_paths(group, {ENERGY: 10.0, ELSEWHERE: "Unavailable"})
    new = tree.resctrl / "mon_groups" / "taker"

    def rename() -> bool:
        group.rename(new)
        return True

    assert settle(tree.monitor, (KEY, ""), [""], ("taker", ""), rename)
    with tree.monitor.hold("taker") as locked:
        locked.record["groups"] = {"": "created"}
        locked.save()
    say_paths(new, {ENERGY: 12.0, ELSEWHERE: 7.5})
    found = {reading.domain.id: reading.value for reading in tree.monitor.read("taker")}
    assert found == {0: 2.0, 1: 7.5}


@pytest.mark.parametrize("word", ["Unavailable", "Error"])
def test_baseline_without_value_gives_no_total(tree: Tree, word: str) -> None:
    group = with_baseline(tree, 5000.0)
    say_paths(group, {ENERGY: word})
    assert tree.read() == {ENERGY: word}
    shutil.rmtree(group)  # before it ever said a number
    assert tree.read() == {}
    say_paths(tree.group(), {ENERGY: 700.0})
    assert tree.read() == {ENERGY: 0.0}


def test_energy_without_baseline_counts_from_zero_where_rmid_never_ran(tree: Tree) -> None:
    say_paths(tree.group(), {ENERGY: "Unavailable"})
    assert tree.read() == {ENERGY: 0}
    say_paths(tree.group(), {ENERGY: 700.0})
    assert tree.read() == {ENERGY: 700.0}


def test_released_key_is_forgotten_after_a_while(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    say(tree.group(), mbm_total_bytes=100)
    tree.read()
    shutil.rmtree(tree.group())
    tree.monitor.remove(KEY)
    tree.monitor.read_all()
    uptime = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: uptime(clock) + 4000)
    tree.monitor.read_all()
    assert parse_json((tree.state / "totals/counters").read_bytes())["keys"] == {}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]"])
def test_damaged_file_is_set_aside(tree: Tree, damage: bytes) -> None:
    say(tree.group(), mbm_total_bytes=10)
    tree.read()
    (tree.state / "totals/counters").write_bytes(damage)
    assert tree.read() == {TOTAL: 10}
    aside = tree.state / "totals/counters.damaged"
    assert aside.read_bytes() == damage
    assert tree.read() == {TOTAL: 10}
    assert tree.said == [f"damaged totals are set aside as {aside}; counters begin again"]
    assert parse_json((tree.state / "totals/counters").read_bytes())["keys"]


def test_untracked_and_missing_keys_have_typed_errors(tree: Tree) -> None:
    with pytest.raises(NotTrackedError):
        tree.read()
    tree.group()
    shutil.rmtree(tree.resctrl)
    with pytest.raises(NotMountedError):
        tree.read()


def test_foreign_groups_are_not_read(tree: Tree) -> None:
    say(tree.group(), mbm_total_bytes=1)
    say(tree.resctrl / "mon_groups" / "other", mbm_total_bytes=7)
    assert list(tree.monitor.read_all()) == [KEY]
