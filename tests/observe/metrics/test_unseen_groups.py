"""Totals of classes and of the node while groups move between classes, and while something cannot be read."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.core.node.resctrl import counter_files
from resctrl_hooks.observe.metrics.class_totals import ClassTotals
from resctrl_hooks.observe.metrics.classes import class_totals
from resctrl_hooks.observe.node.snapshot import snapshot as snapshots
from resctrl_hooks.observe.node.snapshot.snapshot import take

ROOT, GOLD = "", "gold"
TOTAL = "mon_L3_00/mbm_total_bytes"
PATHS = X, ENERGY = "mon_L3_00/x", "mon_PERF_PKG_00/core_energy"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """A pod in each of two classes, a foreign group in the first, and ungrouped tasks, in a plain tree."""
    with plain_host(tmp_path, "mon_groups/theirs", "gold/mon_groups", "info", "mon_data") as found:
        found.group(0, "web", rdt_class=ROOT)
        found.group(1, "db", rdt_class=GOLD)
        write(found, {("", KEYS[0]): 100, ("", "theirs"): 50, ("gold", KEYS[1]): 1000})
        assert shown(found) == {"node": 1180, ROOT: 170, GOLD: 1010, "ungrouped": 20, "ungrouped gold": 10}
        yield found


def write(host: MonitoredHost, groups: dict[tuple[str, str], int], ungrouped: tuple[int, int] = (20, 10)) -> None:
    """Set the groups' counts. As in the kernel, a class's own file is the sum with its groups."""
    for (rdt_class, name), value in groups.items():
        say(host.resctrl / rdt_class / "mon_groups" / name, mbm_total_bytes=value)
    for rdt_class, rest in zip((ROOT, GOLD), ungrouped, strict=True):
        grouped = sum(value for (of, _), value in groups.items() if of == rdt_class)
        say(host.resctrl / rdt_class, mbm_total_bytes=grouped + rest)


def shown(host: MonitoredHost) -> dict[str, float]:
    """Return the totals after another snapshot."""
    with class_totals(host.context, take(host.context)) as totals:
        return {
            "node": totals.node[TOTAL],
            ROOT: totals.of(ROOT).total[TOTAL],
            GOLD: totals.of(GOLD).total[TOTAL],
            "ungrouped": totals.of(ROOT).ungrouped[TOTAL],
            "ungrouped gold": totals.of(GOLD).ungrouped[TOTAL],
        }


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return what makes reads of folders with this end fail."""
    refused: list[str] = []
    real = counter_files.read_group

    def read_group(folder: str, slots: object) -> object:
        if any(folder.endswith(one) for one in refused):
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), folder)
        return real(folder, slots)  # type: ignore[arg-type]

    def refuse(end: str) -> None:
        refused[:] = [end] if end else []

    monkeypatch.setattr(snapshots, "read_group", read_group)
    monkeypatch.setattr("resctrl_hooks.core.node.resctrl.counter_totals.read_counters.__kwdefaults__", {
        "by_class": True, "began": None, "read_one": read_group,
    })  # fmt: skip
    yield refuse
    refused.clear()


def test_group_that_moves_to_another_class_is_counted_once(host: MonitoredHost) -> None:
    (host.resctrl / "gold/mon_groups" / KEYS[1]).rename(host.resctrl / "mon_groups" / KEYS[1])
    write(host, {("", KEYS[0]): 100, ("", "theirs"): 50, ("", KEYS[1]): 1003})
    assert shown(host) == {"node": 1183, ROOT: 173, GOLD: 1010, "ungrouped": 20, "ungrouped gold": 10}
    (host.resctrl / "mon_groups/theirs").rename(host.resctrl / "gold/mon_groups/theirs")
    write(host, {("", KEYS[0]): 100, ("gold", "theirs"): 57, ("", KEYS[1]): 1003})
    assert shown(host) == {"node": 1190, ROOT: 173, GOLD: 1017, "ungrouped": 20, "ungrouped gold": 10}


@pytest.mark.parametrize("end", [f"mon_groups/{KEYS[0]}", "mon_groups/theirs", "resctrl", "gold"])
def test_group_or_class_that_cannot_be_read_adds_nothing(
    host: MonitoredHost, refuse: Callable[[str], None], end: str
) -> None:
    before = shown(host)
    refuse(end)
    for _ in range(2):
        assert shown(host) == before
        snapshot = take(host.context)
        assert not snapshot.is_whole
        rdt_class = GOLD if end == "gold" else ROOT
        assert isinstance(snapshot.classes[rdt_class].whole[TOTAL], str)
        assert not snapshot.foreign.keys() - {("", "theirs")}
    refuse("")
    assert shown(host) == before
    write(host, {("", KEYS[0]): 101, ("", "theirs"): 51, ("gold", KEYS[1]): 1001}, ungrouped=(23, 13))
    after = shown(host)
    assert (after["node"], after[ROOT], after[GOLD]) <= (1189, 175, 1014)
    assert (after[ROOT], after[GOLD]) >= (172, 1011), "the ungrouped tasks count from the next value"


def test_group_renamed_into_a_class_during_a_snapshot_is_no_ungrouped_task(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = counter_files.read_group
    old, new = host.resctrl / "gold/mon_groups" / KEYS[1], host.resctrl / "mon_groups" / KEYS[1]

    def read_group(folder: str, slots: object) -> object:
        if folder == str(host.resctrl) and old.exists():
            old.rename(new)
            write(host, {("", KEYS[0]): 100, ("", "theirs"): 50, ("", KEYS[1]): 1000})
        return real(folder, slots)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshots, "read_group", read_group)
    for _ in range(2):
        assert shown(host) == {"node": 1180, ROOT: 170, GOLD: 1010, "ungrouped": 20, "ungrouped gold": 10}


def test_pods_group_that_only_the_snapshot_can_read_is_not_foreign(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(folder: str, slots: object) -> object:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), folder)

    monkeypatch.setattr("resctrl_hooks.core.node.resctrl.counter_totals.read_counters.__kwdefaults__", {
        "by_class": True, "began": None, "read_one": none,
    })  # fmt: skip
    assert take(host.context).foreign.keys() == {("", "theirs")}


def test_unseen_groups_of_a_whole_snapshot_are_bounded(host: MonitoredHost) -> None:
    host.context.ledger.prepare()
    totals = ClassTotals(host.context.ledger, "boot")
    groups = {str(number): {X: 5} for number in range(100)}
    totals.of(ROOT, "1:1").add(groups, {}, PATHS)
    totals.of(ROOT, "1:1").add({}, {}, PATHS)
    totals.save({ROOT}, is_whole=False)
    totals = ClassTotals(host.context.ledger, "boot")
    totals.of(ROOT, "1:1").add(groups, {}, PATHS)
    assert totals.node == {X: 500}
    totals.of(ROOT, "1:1").add({"99": {X: 6}}, {}, PATHS)
    totals.save({ROOT})
    totals = ClassTotals(host.context.ledger, "boot")
    totals.of(ROOT, "1:1").add({"98": {X: 6}, "99": {X: 6}}, {}, PATHS)
    assert totals.node == {X: 502}


def test_class_counts_no_energy_of_other_groups_after_a_remount(host: MonitoredHost) -> None:
    host.context.ledger.prepare()
    totals = ClassTotals(host.context.ledger, "boot")
    assert not totals.see_mount(["1"])
    totals.of(ROOT, "1:1").add({"a": {X: 5, ENERGY: 10.0}}, {X: 3, ENERGY: 7.0}, PATHS)
    assert totals.see_mount(["2"])
    before = totals.node
    totals.of(ROOT, "1:1").add({"a": {X: 2, ENERGY: 5000.0}}, {X: 3, ENERGY: 900.0}, PATHS, is_doubtful=True)
    assert totals.node == {X: before[X] + 2, ENERGY: before[ENERGY]}
    totals.of(ROOT, "1:1").add({"a": {X: 2, ENERGY: 5001.0}}, {X: 3, ENERGY: 902.0}, PATHS)
    assert totals.node == {X: before[X] + 2, ENERGY: before[ENERGY] + 3}
