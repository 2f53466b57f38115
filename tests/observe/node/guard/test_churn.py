"""Pods that end all the time: their bytes count although the class's file loses them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import Host

from resctrl_hooks.core.node.resctrl.bandwidth import Bandwidth
from resctrl_hooks.observe.node.guard.churn import FOR_EACH_LEFT, MOST_FILES, Groups
from resctrl_hooks.observe.node.guard.load import Reader, traffic
from resctrl_hooks.observe.node.guard.status import NAME

from .node import GB, Node


class Churn:
    """A node whose class bronze has one pod at a time, which moves some GB/s and ends after some seconds."""

    def __init__(self, host: Host, rate: float, period: int) -> None:
        self.node = Node(host)
        self.period = period
        self.rate = rate
        self.born = 0
        self.groups: dict[str, float] = {}
        self.total = {"gold": 0.0}

    @property
    def folder(self) -> Path:
        """The folder of bronze's mon_groups."""
        return self.node.root / "bronze/mon_groups"

    def second(self) -> None:
        """Let a second pass: the pod ends if it is old enough, another one begins, and all counters move on."""
        if self.node.now % self.period == 0:
            for name in self.groups:
                os.rename(self.folder / name, self.node.host.root / f"ended-{name}")  # kernfs reuses no inode soon
            self.groups = {f"pod{self.born}": 0.0}
            self.born += 1
        self.node.now += 1
        for name in self.groups:
            self.groups[name] += self.rate * GB
            self.count(f"bronze/mon_groups/{name}", self.groups[name])
        self.count("bronze", sum(self.groups.values()))
        self.total["gold"] += 15 * GB
        self.count("gold", self.total["gold"])

    def count(self, path: str, value: float) -> None:
        """Set a folder's counters."""
        self.node.count(path, 0, int(value))


@pytest.mark.parametrize("period", [1, 2, 3])
def test_guard_acts_on_a_class_whose_pods_end_all_the_time(host: Host, period: int) -> None:
    churn = Churn(host, 80, period)
    guard = churn.node.guard()
    rates: list[float] = []
    for _ in range(120):
        churn.second()
        guard.sample(churn.node.now)
        if (host.state / NAME).exists():
            status = json.loads((host.state / NAME).read_text())
            rates.append(status["domains"]["0"]["classes"]["bronze"]["rate"])
    assert status["invalidSamples"] <= 1  # the first pod's end, before which no group is read
    assert churn.node.limit("bronze") == "MB:0=20"
    assert all(rate == pytest.approx(80 * GB, rel=0.2) for rate in rates[5:])


def values(reader: Reader, names: list[str], time: float = 0) -> dict[str, int | None]:
    """Return each class's total, None where it jumped."""
    found = reader.read(names, time)
    return {name: None if name in found.jumped else of[0][0] for name, of in found.counts.items()}


@pytest.fixture
def node(host: Host) -> Node:
    """A node with a group of 70 bytes in bronze, in a reader that has seen it."""
    made = Node(host)
    made.count("bronze/mon_groups/a", 0, 70)
    made.count("bronze", 0, 100)
    made.count("silver", 0, 0)
    return made


@pytest.fixture
def reader(node: Node) -> Reader:
    """Return a reader after its first read."""
    found = Reader(node.context().monitor.resctrl, Bandwidth("L3", [0]))
    assert values(found, ["bronze", "silver"]) == {"bronze": 100, "silver": 0}
    (node.root / "bronze/mon_groups/first").mkdir()
    assert values(found, ["bronze", "silver"]) == {"bronze": 100, "silver": 0}
    (node.root / "bronze/mon_groups/first").rmdir()  # from now on groups are read
    values(found, ["bronze", "silver"])
    return found


def test_vanished_group_counts_with_its_last_value(node: Node, reader: Reader) -> None:
    shutil.rmtree(node.root / "bronze/mon_groups/a")
    node.count("bronze", 0, 45)  # 30 of its own tasks and 15 more
    assert values(reader, ["bronze", "silver"]) == {"bronze": 115, "silver": 0}


def test_group_that_changes_its_class_takes_its_bytes_along(node: Node, reader: Reader) -> None:
    os.rename(node.root / "bronze/mon_groups/a", node.root / "silver/mon_groups/a")
    node.count("bronze", 0, 30)
    node.count("silver", 0, 75)  # 5 since then
    assert values(reader, ["bronze", "silver"]) == {"bronze": 100, "silver": 5}


def test_renamed_group_is_the_same_group(node: Node, reader: Reader) -> None:
    os.rename(node.root / "bronze/mon_groups/a", node.root / "bronze/mon_groups/b")
    node.count("bronze", 0, 110)
    assert values(reader, ["bronze", "silver"])["bronze"] == 110


def test_class_that_gets_a_group_which_was_never_read_has_jumped_once(node: Node, reader: Reader) -> None:
    node.count("bronze/mon_groups/late", 0, "Unassigned")
    values(reader, ["bronze", "silver"])
    os.rename(node.root / "bronze/mon_groups/late", node.root / "silver/mon_groups/late")
    assert values(reader, ["bronze", "silver"]) == {"bronze": 100, "silver": None}
    assert values(reader, ["bronze", "silver"]) == {"bronze": 100, "silver": 0}


def test_groups_that_change_again_and_again_make_a_look_and_the_next_unknown(
    node: Node, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        change_groups(node, patch, times=100)
        assert values(reader, ["bronze", "silver"]) == {"bronze": None, "silver": 0}
    assert values(reader, ["bronze", "silver"])["bronze"] is None
    assert values(reader, ["bronze", "silver"])["bronze"] == 100


def test_look_during_which_groups_change_is_repeated(
    node: Node, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        change_groups(node, patch, times=1)
        assert values(reader, ["bronze", "silver"]) == {"bronze": 100, "silver": 0}
    assert values(reader, ["bronze", "silver"]) == {"bronze": 100, "silver": 0}


def change_groups(node: Node, patch: pytest.MonkeyPatch, times: int) -> None:
    """Let a group come after so many of the next listings of groups."""
    present = Groups.present
    left = [*range(times)]

    def changing(self: Groups, classes: list[str]) -> dict[int, tuple[str, str]]:
        found = present(self, classes)
        if left:
            node.count(f"bronze/mon_groups/new{left.pop()}", 0, 0)
        return found

    patch.setattr(Groups, "present", changing)


def test_groups_are_read_only_after_one_left_their_class(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        node.count(f"bronze/mon_groups/p{number}", 0, number)
    reader = Reader(node.context().monitor.resctrl, Bandwidth("L3", [0]))
    read: list[str] = []

    def noted(folder: str) -> dict[int, tuple[int | None, int | None]]:
        read.append(folder)
        return {0: (1, 1)}

    monkeypatch.setattr(reader._groups, "_read", noted)
    values(reader, ["bronze", "silver"])
    values(reader, ["bronze", "silver"])
    assert read == []
    shutil.rmtree(node.root / "bronze/mon_groups/p0")
    node.count("silver/mon_groups/x", 0, 0)
    values(reader, ["bronze", "silver"])
    assert len(read) == len(set(read)) == FOR_EACH_LEFT
    for _ in range(40):
        values(reader, ["bronze", "silver"])
    assert len(set(read)) == 100  # 99 that are left, and the one of the fixture
    read.clear()
    values(reader, ["bronze", "silver"])
    assert read == []


@pytest.mark.parametrize("l3", [2, 16])
@pytest.mark.parametrize("pods, life", [(110, 110), (240, 120), (240, 240), (1, 2), (240, 60)], ids=str)
def test_rate_of_a_class_with_many_pods_that_end_is_within_a_tenth(pods: int, life: int, l3: int) -> None:
    """Each pod moves 1 in a sample; their ends are spread over time. One pod of two samples loses at most its last."""
    born = {number: -(number * life // pods) for number in range(pods)}  # by inode
    totals = dict.fromkeys(born, 0)
    reads: list[int] = []

    def read(folder: str) -> dict[int, tuple[int | None, int | None]]:
        reads[-1] += 1
        return {0: (totals[int(folder.rpartition("/")[2])], 0)}

    groups = Groups(None, read, l3)  # type: ignore[arg-type]  # only the folder's name is asked for
    groups._resctrl = Folders()  # type: ignore[assignment]
    rates, before = [], 0
    for now in range(3 * life + 60):
        for inode in [one for one, since in born.items() if now - since >= life]:
            del born[inode], totals[inode]
            number = inode + 1000
            born[number], totals[number] = now, 0
        for inode in totals:
            totals[inode] += 1
        reads.append(0)
        groups.follow({inode: ("bronze", str(inode)) for inode in born})
        total = sum(totals.values()) + groups.left.get("bronze", {}).get(0, (0, 0))[0]
        rates.append(total - before)
        before = total
    settled = rates[life + 30 :]
    assert sum(settled) / len(settled) >= (0.9 if pods > 1 else 0.5) * pods
    assert max(settled) <= pods
    assert max(reads) <= MOST_FILES // (2 * l3)


class Folders:
    """resctrl's names of folders."""

    @staticmethod
    def group_folder(_: str, name: str) -> str:
        """Return the name."""
        return name


def test_traffic_of_a_churning_class_is_known_in_each_interval(node: Node, reader: Reader) -> None:
    before = reader.read(["bronze"], 1.0)
    shutil.rmtree(node.root / "bronze/mon_groups/a")
    node.count("bronze/mon_groups/b", 0, 20)
    node.count("bronze", 0, 50)
    (found,) = traffic(before, reader.read(["bronze"], 2.0), [(0,)])
    assert (found.rate, found.estimated) == (20.0, False)
