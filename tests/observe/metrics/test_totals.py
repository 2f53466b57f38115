"""Totals of pods, classes, ungrouped tasks and the node: true and never smaller, in any order of events and scrapes."""

import errno
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from conftest import always, examples
from hosts.counter_tree import say, say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from observe.metrics.conftest import parse
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl import counter_files
from resctrl_hooks.core.node.resctrl.counter_totals import read_counters
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.core.node.resctrl.energy_baseline import baseline
from resctrl_hooks.observe.metrics import classes
from resctrl_hooks.observe.metrics.class_totals import ClassTotal, ClassTotals
from resctrl_hooks.observe.metrics.classes import class_totals
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.metrics.former import with_former_names
from resctrl_hooks.observe.node.snapshot import snapshot as snapshots
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Snapshot, take

ROOT, GOLD = "", "gold"
PATHS = X, ENERGY = "mon_L3_00/x", "mon_PERF_PKG_00/core_energy"
TOTAL = "mon_L3_00/mbm_total_bytes"
POD, CLASS = "l3_mbm_total_bytes_total", "resctrl_class_l3_mbm_total_bytes_total"
UNGROUPED, FOREIGN = CLASS.replace("class", "ungrouped"), CLASS.replace("class", "foreign")
NODE = "resctrl_domain_mbm_bytes_total"
NEW, FORMER = "resctrl_counted_seconds_total", "resctrl_counter_seconds_total"
NAMES = (*KEYS[:3], "kepler", "a\udcff\n")
"""The groups: three pods, and two of another program."""
CLASSES = st.sampled_from([ROOT, GOLD])
Values = dict[tuple[str, ...], float]


class Counted(RuleBasedStateMachine):
    """A node whose true counts are known, with an exporter that is scraped and replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.root = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="rh")))
        capacity = {"monitoring": {"capacity": {"*": 1e9}}}
        self.host = self.stack.enter_context(plain_host(self.root, "gold/mon_groups", "info", **capacity))
        self.groups: dict[str, tuple[str, int]] = {}
        self.idle = {ROOT: 0, GOLD: 0}
        self.true: dict[str, int] = dict.fromkeys((*NAMES, ROOT, GOLD, "rest", "rest gold"), 0)
        self.said: Values = {}
        self.asides = itertools.count()
        self.hidden = ""
        self.begin_exporter()

    def teardown(self) -> None:
        self.stack.close()

    @rule()
    def begin_exporter(self) -> None:
        """Replace the exporter."""
        self.collector = NodeCollector(MonitoredHost(self.root, str(self.host.resctrl)).context, self.fail)

    def fail(self, problem: HookError) -> None:
        raise AssertionError(problem)

    def folder(self, name: str) -> Path:
        return Path(self.host.resctrl, self.groups[name][0], "mon_groups", name)

    def write(self) -> None:
        """Write the files: as in the kernel, a class's own one is the sum with its groups'."""
        for rdt_class, rest in self.idle.items():
            of = {name: value for name, (where, value) in self.groups.items() if where == rdt_class}
            for name, value in of.items():
                say(self.folder(name), mbm_total_bytes=value, llc_occupancy=value % 1000)
            whole = sum(of.values()) + rest
            occupied = sum(value % 1000 for value in of.values()) + rest % 1000
            say(self.host.resctrl / rdt_class, mbm_total_bytes=whole, llc_occupancy=occupied)

    @initialize(of=st.dictionaries(st.sampled_from(NAMES), CLASSES))
    def begin(self, of: dict[str, str]) -> None:
        self.write()
        for name, rdt_class in of.items():
            self.begin_group(name, rdt_class)

    @rule(name=st.sampled_from(NAMES), rdt_class=CLASSES)
    def begin_group(self, name: str, rdt_class: str) -> None:
        if name not in self.groups:
            self.groups[name] = rdt_class, 0
            if name in KEYS:
                self.host.group(KEYS.index(name), f"pod-{name[0]}", rdt_class=rdt_class)
            else:
                self.folder(name).mkdir(exist_ok=True)
            (self.folder(name) / "tasks").touch()
            self.write()

    @rule(name=st.sampled_from(NAMES), more=st.integers(1, 10_000))
    def count(self, name: str, more: int) -> None:
        if name in self.groups:
            rdt_class, value = self.groups[name]
            self.groups[name] = rdt_class, value + more
            self.true[name] += more
            self.true[rdt_class] += more
            self.write()

    @rule(rdt_class=CLASSES, more=st.integers(1, 10_000))
    def count_ungrouped(self, rdt_class: str, more: int) -> None:
        self.idle[rdt_class] += more
        self.true[f"rest {rdt_class}".strip()] += more
        self.true[rdt_class] += more
        self.write()

    @rule(name=st.sampled_from(NAMES))
    def end_group(self, name: str) -> None:
        """End a group whose last bytes were seen: those of the last interval are lost with it."""
        if name in self.groups:
            self.scrape()
            self.folder(name).rename(self.root / f"aside-{next(self.asides)}")
            del self.groups[name]
            if name in KEYS:
                self.host.context.monitor.remove(name)
                self.true[name] = 0
            self.said = {key: value for key, value in self.said.items() if name not in key}
            self.write()

    @rule(name=st.sampled_from(NAMES), rdt_class=CLASSES)
    def move_group(self, name: str, rdt_class: str) -> None:
        """Another program renames a group into another class."""
        if name in self.groups and self.groups[name][0] != rdt_class:
            self.scrape()
            old = self.folder(name)
            self.groups[name] = rdt_class, self.groups[name][1]
            old.rename(self.folder(name))
            self.said = {key: value for key, value in self.said.items() if name not in key or key[0] != FOREIGN}
            self.write()

    @rule(name=st.sampled_from([*NAMES, ROOT, GOLD]))
    def scrape_while_a_folder_cannot_be_read(self, name: str) -> None:
        """Nothing falls; and what counts on afterwards is complete."""
        self.scrape()
        if name in (ROOT, GOLD) or name in self.groups:
            hidden = self.folder(name) if name in self.groups else self.host.resctrl / name
            with unreadable(str(hidden)), class_totals(self.host.context, take(self.host.context)) as totals:
                assert [totals.of(of).total.get(TOTAL, 0) for of in (ROOT, GOLD)] == [self.true[ROOT], self.true[GOLD]]
            self.scrape()  # ungrouped tasks count on from here

    @rule()
    def scrape(self) -> None:
        """Compare each sample of both formats with the truth and with the last scrape."""
        registry = registry_of(self.collector)
        found = values_of(parse(with_former_names(openmetrics(registry)).decode()))  # type: ignore[no-untyped-call]
        assert {key for key in values_of(parse_classic(generate_latest(registry).decode())) if key[0] == CLASS} == {
            key for key in found if key[0] == CLASS
        }
        fallen = {key: (self.said[key], found.get(key)) for key in self.said if found.get(key, 0) < self.said[key]}
        assert not fallen
        self.said = {key: value for key, value in found.items() if key[0].endswith(("bytes_total", "_runs_total"))}
        for name, (rdt_class, value) in self.groups.items():
            if name in KEYS:
                assert sum(one for key, one in found.items() if key[0] == POD and name in key) == self.true[name]
            else:
                assert found[FOREIGN, rdt_class, "a\\xff\\x0a" if name == NAMES[-1] else name] == value
        for rdt_class, rest in ((ROOT, "rest"), (GOLD, "rest gold")):
            assert (found[CLASS, rdt_class], found[UNGROUPED, rdt_class]) == (self.true[rdt_class], self.true[rest])
        assert found.get((NODE,), 0) == self.true[ROOT] + self.true[GOLD]
        former = {(NEW, *key[1:]): value for key, value in found.items() if key[0] == FORMER}
        assert former == {key: value for key, value in found.items() if key[0] == NEW}


def values_of(families: Any) -> Values:
    """Return the samples by name, class, and pod or group."""
    labels = ("rdt_class", "pod_uid", "group", "stage", "counter")
    return {
        (one.name, *(one.labels[name] for name in labels if name in one.labels)): one.value
        for family in families
        for one in family.samples
    }


@contextmanager
def unreadable(folder: str) -> Iterator[None]:
    """A context in which a folder's counters cannot be read."""
    real = counter_files.read_group

    def read_group(given: str, slots: Any) -> Any:
        if given == folder:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), given)
        return real(given, slots)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "read_group", read_group)
        patch.setattr(read_counters, "__kwdefaults__", {"by_class": True, "began": None, "read_one": read_group})
        yield


Counted.TestCase.settings = settings(
    max_examples=examples(20), stateful_step_count=15, suppress_health_check=[*HealthCheck], phases=[Phase.generate]
)
TestCounted = Counted.TestCase


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in the root class, one in gold, a foreign group, and tasks in no group, in a plain tree."""
    with plain_host(tmp_path, "mon_groups/kepler", "gold/mon_groups", "info") as found:
        for number, rdt_class in enumerate((ROOT, ROOT, GOLD)):
            found.group(number, "web", rdt_class=rdt_class)
        count(found)
        yield found


def count(host: MonitoredHost, pods: tuple[int, ...] = (100, 200), kepler: int = 50, ungrouped: int = 25) -> None:
    """Set each group's counts. As in the kernel, a class's own file is the sum with its groups."""
    values = {f"mon_groups/{key}": value for key, value in zip(KEYS, pods, strict=False)}
    values |= {"mon_groups/kepler": kepler, "": sum(pods) + kepler + ungrouped}
    for name, value in {**values, f"gold/mon_groups/{KEYS[2]}": 1000, "gold": 1005}.items():
        say(host.resctrl / name, llc_occupancy=value, mbm_total_bytes=value)


def of_classes(host: MonitoredHost, *options: str) -> Values:
    kinds = tuple(f"resctrl_{kind}_l3" for kind in ("class", "ungrouped", "foreign"))
    return {key: value for key, value in values_of_text(host, *options).items() if key[0].startswith(kinds)}


def values_of_text(host: MonitoredHost, *options: str) -> Values:
    done = host.run("metrics", *options)
    assert done.exit_code == 0, done.output
    return values_of(parse(done.stdout))


def test_classes_are_complete_or_absent_and_their_remainder_never_decreases(host: MonitoredHost) -> None:
    """The groups are read before their class, so a part of the rest may be theirs; the next time it is less."""
    host.configure(monitoring={"capacity": {"*": 1e9}})
    assert values_of_text(host)[NODE,] == 1380
    say(host.resctrl, mbm_total_bytes=375 + 40)
    assert of_classes(host)[UNGROUPED, ROOT] == 65
    count(host, pods=(130, 210), ungrouped=30)
    found = of_classes(host)
    assert (found[UNGROUPED, ROOT], found[CLASS, ROOT]) == (65, 375 + 40 + 40)
    assert of_classes(host, "-n", "none") == found
    names = {name for name, *_ in of_classes(host, "--counter", "llc*")}
    assert names == {f"resctrl_{kind}_l3_llc_occupancy_bytes" for kind in ("class", "ungrouped", "foreign")}
    say(host.resctrl / "mon_groups/kepler", mbm_total_bytes="Unavailable")
    found = values_of_text(host)
    assert not {(NODE,), (CLASS, ROOT)} & found.keys()
    assert found["resctrl_class_uncounted_groups", ROOT, "mbm_total_bytes"] == 1
    count(host, pods=(150, 210), ungrouped=30)
    assert values_of_text(host)[CLASS, ROOT] == 375 + 40 + 40 + 20


def test_totals_continue_in_another_process_and_end_at_reboot_or_with_their_class(host: MonitoredHost) -> None:
    ledger = host.context.ledger
    ledger.prepare()
    first = ClassTotals(ledger, "boot")
    first.of(ROOT, "1:1").add({"a": {X: 5}}, {X: 2}, PATHS)
    first.of("gone", "2:2").add({}, {X: 2}, PATHS)
    first.save({ROOT})
    second = ClassTotals(ledger, "boot")
    second.of(ROOT, "1:1").add({"b": {X: 1}}, {X: 3}, PATHS)
    assert (second.of(ROOT).total, second.node, second.of("gone").total) == ({X: 9}, {X: 11}, {})
    assert ClassTotals(ledger, "next boot").of(ROOT).total == {}
    second.of(ROOT, "1:9").add({}, {X: 1}, PATHS)
    assert (second.of(ROOT).total, second.of(ROOT).ungrouped, second.node) == ({X: 1}, {X: 1}, {X: 12})
    total = ClassTotal("1:1")
    total.add({"a": {X: 5}}, {}, PATHS)
    assert [total.begins(*asked) for asked in (("a", [X]), ("a", [X, ENERGY]), ("b", [X]))] == [False, True, True]


READS: dict[str, tuple[list[Any], dict[str, float], dict[str, float]]] = {
    "energy of an RMID's previous user belongs to no pod": (
        [({"a": {X: 5, ENERGY: 70}},), ({"a": {X: 5, ENERGY: 71}, "b": {X: 3, ENERGY: 900}},),
         ({"b": {X: 3, ENERGY: 902}},)], {X: 8, ENERGY: 73}, {}),
    "energy of a new group counts from a known start": (
        [({},), ({"a": {ENERGY: 30}, "b": {ENERGY: 900}}, {}, {"a": {ENERGY: 0}, "b": {}})], {ENERGY: 30}, {}),
    "energy of a foreign group counts from its first run": (
        [({},), ({"a": {ENERGY: "Unavailable"}, "b": {ENERGY: "Error"}},), ({"a": {ENERGY: 30}, "b": {ENERGY: 900}},)],
        {ENERGY: 30}, {}),
    "an unassigned counter begins at zero": (
        [({"a": {X: 50}},), ({"a": {X: "Unassigned"}},), ({"a": {X: 60}},)], {X: 110}, {}),
    # While a group has no value, the class's remainder is unknown too.
    "a late counter causes no jump": ([({"a": {}},), ({"a": {}}, {X: 1000}), ({"a": {}}, {X: 1001})], {X: 1}, {X: 1}),
    # AMD: a counter that is assigned again begins at 0.
    "ungrouped tasks continue after missing values": (
        [({"a": {X: 5}}, {X: 100}), ({"a": {}},), ({"a": {X: 5}}, {X: 3}), ({"a": {X: 5}}, {X: 10})],
        {X: 112}, {X: 107}),
}  # fmt: skip


@pytest.mark.parametrize("reads, total, ungrouped", READS.values(), ids=READS)
def test_class_adds_what_its_groups_and_ungrouped_tasks_count(
    reads: list[Any], total: dict[str, float], ungrouped: dict[str, float]
) -> None:
    found = ClassTotal("1:1")
    for groups, *more in reads:
        found.add(groups, more[0] if more else {}, PATHS, *more[1:])
    assert (found.total, found.ungrouped) == (total, ungrouped)


def test_only_energy_has_start_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group gets an RMID whose energy counter goes on; its traffic counts from 0."""
    monkeypatch.setattr(classes, "_starts", always({}))
    totals, node = Mock(), cast("Any", None)
    totals.see_mount.return_value = totals.begins.return_value = False
    totals.of.return_value = totals
    slots = {path: slot_at(path) for path in ("mon_L3_00/llc_occupancy", TOTAL, ENERGY)}
    classes._add(node, Snapshot(5.0, slots, classes={"": ClassCounts("1", {}, {}, {"g": {}}, {})}), totals)
    assert totals.begins.call_args.args == ("g", [ENERGY])
    assert (totals.add.call_args.args[2], totals.when) == ([TOTAL, ENERGY], 5.0)


def test_older_snapshot_adds_nothing(host: MonitoredHost) -> None:
    """Two exporters read at the same time: the one that read first may be the second to add."""
    older = take(host.context)
    del older.classes[GOLD]  # as if it was created then
    count(host, pods=(110, 200))
    newer = take(host.context)
    for snapshot in (newer, older, newer):
        with class_totals(host.context, snapshot) as totals:
            assert {name: totals.of(name).total[TOTAL] for name in newer.classes} == {ROOT: 385, GOLD: 1005}
            assert totals.node[TOTAL] == 1390


def test_energy_before_first_scrape_is_in_pod_and_class(host: MonitoredHost) -> None:
    (host.resctrl / "info/PERF_PKG_MON").mkdir(parents=True)
    say_paths(host.resctrl, {ENERGY: 100.0})
    folders = (*(f"mon_groups/{key}" for key in KEYS[:2]), "mon_groups/kepler", "gold", f"gold/mon_groups/{KEYS[2]}")
    for folder in folders:
        say_paths(host.resctrl / folder, {ENERGY: "Unavailable"})
    assert host.run("metrics").exit_code == 0
    with host.context.monitor.hold(KEYS[3]) as locked:
        group = Path(locked.ensure_group("").path)
        say_paths(group, {ENERGY: "Unavailable"})
        locked.record["baselines"] = {"": baseline(str(group))}
        locked.save()
    say_paths(group, {ENERGY: 24.5})
    say_paths(host.resctrl, {ENERGY: 124.5})
    name = "perf_core_energy_joules_total"
    found = values_of_text(host)
    assert found[name, "", KEYS[3]] == 24.5
    assert (found[f"resctrl_class_{name}", ""], found[f"resctrl_ungrouped_{name}", ""]) == (124.5, 100)


def test_group_renamed_during_a_snapshot_is_not_ungrouped(host: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    before = of_classes(host)
    real = counter_files.read_group
    old, new = host.resctrl / "gold/mon_groups" / KEYS[2], host.resctrl / "mon_groups" / KEYS[2]

    def read_group(folder: str, slots: Any) -> object:
        if folder == str(host.resctrl) and old.exists():
            old.rename(new)
            say(host.resctrl, mbm_total_bytes=1375)
            say(host.resctrl / "gold", mbm_total_bytes=5)
        return real(folder, slots)

    monkeypatch.setattr(snapshots, "read_group", read_group)
    for _ in range(2):
        with class_totals(host.context, take(host.context)) as totals:
            found = [totals.of(name).ungrouped[TOTAL] for name in (ROOT, GOLD)]
        assert found == [before[UNGROUPED, ROOT], before[UNGROUPED, GOLD]]


def test_pods_group_that_only_the_snapshot_reads_is_own(host: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(folder: str, _: object) -> object:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), folder)

    monkeypatch.setattr(read_counters, "__kwdefaults__", {"by_class": True, "began": None, "read_one": none})
    assert take(host.context).foreign.keys() == {("", "kepler")}


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
