"""Placement on a made-up host: who gets which CPUs, who follows, and what is mended after kills at any moment."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from conftest import BOOT, UID, Host, always, crio_annotations, state
from machines import machine, write_sysfs

from resctrl_hooks.cli import main
from resctrl_hooks.config.check import check_text
from resctrl_hooks.inventory.details import details_of
from resctrl_hooks.node import hook, kubelet, placement, placement_effect
from resctrl_hooks.node.cgroup import CgroupError
from resctrl_hooks.node.cpusets import parse_list
from resctrl_hooks.node.errors import DeadlineError
from resctrl_hooks.node.files import format_json
from resctrl_hooks.node.oci import Bundle, State, parse_state, read_bundle
from resctrl_hooks.node.placement_book import Book, note_untold, take_untold
from resctrl_hooks.node.placement_request import request_of
from resctrl_hooks.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, PlacementError, Usage, effective
from resctrl_hooks.node.process import Cgroup, cgroups_of
from resctrl_hooks.node.reconcile import Options, reconcile
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.workload import Workload, derive

if TYPE_CHECKING:
    from collections.abc import Callable

CPUS = "cpus.placement.resctrl-hooks.io"
NRI = "resource-policy.nri.io"
MACHINE = machine(2, 1, 2, 4, 2)  # l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31


class Node:
    """A host with cgroups and a machine, whose containers come and go."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.sys = write_sysfs(MACHINE, host.root / "sys")
        self.configure()
        self.pids: dict[str, int] = {}
        self.last_pid = 1000

    def configure(self, *, monitoring: bool = False, **section: Any) -> None:
        values = {"enabled": True, "allow": {"shop": ["*"]}, "kubeletPath": str(self.host.root / "kubelet")}
        self.host.configure(
            sysPath=self.sys,
            monitoring={"enabled": monitoring},
            placement=values | section,
            runtimeRoots={"crun": str(self.host.root / "crun")},
        )

    def folder(self, name: str) -> Path:
        return self.host.cgroup / f"kubepods/pod{UID}/crio-{_id(name)}"

    def state(self, name: str, milli: int = 0, status: str = "created", **annotations: str) -> dict[str, Any]:
        cpu = {"shares": milli * 1024 // 1000} if milli else {}
        config = {"linux": {"resources": {"cpu": cpu}}}
        notes = crio_annotations() | {"io.kubernetes.container.name": name} | annotations
        bundle = self.host.bundle(config, f"bundle-{name}")
        return state(id=_id(name), pid=self.pids.get(name, 0), bundle=bundle, status=status, annotations=notes)

    def process(self, name: str) -> None:
        self.last_pid += 1
        self.pids[name] = self.last_pid
        folder = self.folder(name)
        self.host.process(self.last_pid, f"/{folder.relative_to(self.host.cgroup)}", start=self.last_pid)
        (folder / "cpuset.cpus").touch()
        (folder / "cpuset.mems").touch()

    def start(self, name: str, milli: int = 0, **annotations: str) -> str:
        self.process(name)
        outcome = self.host.call(self.state(name, milli, **annotations))
        assert outcome.code == 0
        return outcome.log

    def die(self, name: str) -> None:
        self.host.end_process(self.pids.pop(name))

    def stop(self, name: str) -> None:
        self.die(name)
        assert self.host.call(self.state(name, status="stopped")).code == 0

    def cpus(self, name: str) -> str:
        return (self.folder(name) / "cpuset.cpus").read_text()

    def assert_sound(self) -> None:
        """Files are as the book has them, nobody has another's CPUs, everybody has some."""
        book = Book(self.host.node())
        assert set(book.entries) == {_id(name) for name in self.pids}
        usage = book.usage()
        owned = 0
        for name in self.pids:
            entry = book.entries[_id(name)]
            assert not entry.decision.owned & owned
            owned |= entry.decision.owned
        for name in self.pids:
            entry = book.entries[_id(name)]
            runs = parse_list(self.cpus(name))
            assert runs
            assert runs == effective(entry.decision, usage) == entry.applied
            assert not runs & owned & ~entry.decision.owned


def _id(name: str) -> str:
    return name.encode().hex().ljust(64, "0")


@pytest.fixture
def node(host: Host) -> Node:
    return Node(host)


def test_off_by_default(host: Host) -> None:
    assert not host.node().settings.placement


def test_a_shared_container_and_others_that_follow(node: Node) -> None:
    log = node.start("a", 500)
    assert node.cpus("a") == "0-3,16-19"
    assert (node.folder("a") / "cpuset.mems").read_text() == "0"
    assert "it shares l3-0, the tightest part with 500m of 8000m free" in log
    node.start("b", 2000, **{CPUS: "exclusive"})
    assert node.cpus("b") == "0,16"  # beside the pod's other container
    assert node.cpus("a") == "1-3,17-19"
    node.stop("b")
    assert node.cpus("a") == "0-3,16-19"
    node.stop("a")
    assert Book(node.host.node()).entries == {}
    assert node.host.records() == []


def test_the_decision_is_in_the_containers_own_record(node: Node) -> None:
    node.start("b", 2000, **{CPUS: "exclusive"})
    record = node.host.node().ledger.read_member(UID, _id("b"))
    assert record is not None
    (step,) = record["steps"]
    assert step["needs"]["decision"]["owned"] == "0,16"
    assert step["needs"]["request"]["kind"] == EXCLUSIVE


def test_a_container_that_crashes_in_a_loop_always_gets_its_cpus(node: Node) -> None:
    for attempt in range(20):  # poststop never comes
        node.start(f"x{attempt}", 12000, **{CPUS: "exclusive"})
        assert parse_list(node.cpus(f"x{attempt}")).bit_count() == 12
        node.die(f"x{attempt}")


def test_another_pods_dead_give_their_cpus_back_when_they_are_wanted(node: Node) -> None:
    other = {"io.kubernetes.pod.uid": UID}
    node.start("dead", 30000, **{CPUS: "exclusive"}, **other)
    node.die("dead")
    node.start("new", 30000, **{CPUS: "exclusive"})
    assert parse_list(node.cpus("new")).bit_count() == 30


def test_what_the_runtime_chose_stays(node: Node) -> None:
    node.process("a")
    made = node.state("a")
    node.host.bundle({"linux": {"resources": {"cpu": {"cpus": "3"}}}}, "bundle-a")
    assert "whoever made the container chose its CPUs" in node.host.call(made).log
    assert node.cpus("a") == ""


@pytest.mark.parametrize(
    "file, policy, pins",
    [
        ("cpu_manager_state", "static", True),
        ("cpu_manager_state", "none", False),
        ("memory_manager_state", "Static", True),
        ("memory_manager_state", "None", False),
    ],
)
def test_never_against_the_kubelet(node: Node, file: str, policy: str, pins: bool) -> None:
    folder = node.host.root / "kubelet"
    folder.mkdir()
    (folder / file).write_text(f'{{"policyName": "{policy}", "checksum": 1}}')
    log = node.start("a", 500)
    assert ("so placement does nothing here" in log) is pins
    assert (node.cpus("a") == "") is pins
    assert bool(kubelet.static_managers(node.host.node().settings)) is pins


def test_a_refusal_refuses_only_if_the_section_says_so(node: Node) -> None:
    node.configure(allow={}, failurePolicy="fail")
    node.process("a")
    outcome = node.host.call(node.state("a", 1000, **{CPUS: "exclusive"}))
    assert outcome.code == 79
    assert "namespace shop may not have exclusive CPUs" in outcome.stderr
    assert Book(node.host.node()).entries == {}


def test_a_cpuset_that_can_not_be_written_changes_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start("a", 500)
    before = node.cpus("a")
    node.process("b")
    (node.folder("b") / "cpuset.cpus").unlink()
    log = node.host.call(node.state("b", 2000, **{CPUS: "exclusive"})).log
    assert "the cpuset controller is not enabled" in log
    assert (node.host.state / "wake").exists()
    assert node.cpus("a") == before
    assert set(Book(node.host.node()).entries) == {_id("a")}
    del monkeypatch


def test_a_cgroup_above_that_has_fewer(node: Node) -> None:
    node.process("b")
    (node.folder("b") / "cpuset.cpus.effective").write_text("1-3")
    log = node.host.call(node.state("b", 1000, **{CPUS: "exclusive"})).log
    assert "the kernel gives the container CPUs 1-3, not 0,16; a cgroup above it" in log
    (entry,) = Book(node.host.node()).entries.values()
    assert (entry.decision.kind, entry.decision.owned, node.cpus("b")) == (SHARED, 0, "0-31")
    assert (node.folder("b") / "cpuset.mems").read_text() == "0-1"


def test_a_cgroup_above_that_has_fewer_refuses_where_failures_do(node: Node) -> None:
    node.configure(failurePolicy="fail")
    node.process("b")
    (node.folder("b") / "cpuset.cpus.effective").write_text("1-3")
    outcome = node.host.call(node.state("b", 1000, **{CPUS: "exclusive"}))
    assert outcome.code == 79
    assert Book(node.host.node()).entries == {}


def test_mend_puts_back_what_somebody_undid(node: Node) -> None:
    node.start("a", 500)
    (node.folder("a") / "cpuset.cpus").write_text("")
    real = node.host.node()
    assert placement.mend(real, set(real.ledger.containers())) == 1
    node.assert_sound()
    assert placement.mend(real, set(real.ledger.containers())) == 0


def test_mend_makes_a_lost_or_damaged_book_anew(node: Node) -> None:
    node.start("a", 500)
    node.start("b", 2000, **{CPUS: "exclusive"})
    for damage in ("", "1\n", f"1\t{BOOT}\t0\t\t\nx\ty\n"):
        (node.host.state / "placement").write_text(damage)
        real = node.host.node()
        assert placement.mend(real, set(real.ledger.containers())) == 2
        node.assert_sound()


@pytest.mark.parametrize("damage", [None, "", "1\n", f"2\t{BOOT}\t0\t\t\n\tshared\tx\t1\t0\t0\t0\t5\t1\n"])
def test_a_hook_without_a_book_goes_by_the_records(node: Node, damage: str | None) -> None:
    node.start("a", 500)
    node.start("b", 2000, **{CPUS: "exclusive"})
    node.start("gone", 2000, **{CPUS: "exclusive"})
    node.die("gone")
    book = node.host.state / "placement"
    if damage is None:
        book.unlink()
    else:
        book.write_text(damage)
    node.start("c", 2000, **{CPUS: "exclusive"})
    assert node.cpus("b") == "0,16"
    assert node.cpus("c") == "1,17"
    assert node.cpus("a") == "2-3,18-19"
    node.assert_sound()


def test_a_line_of_the_book_that_can_not_be_read_is_said(node: Node) -> None:
    node.start("a", 500)
    path = node.host.state / "placement"
    path.write_text(path.read_text().replace(f"\t{node.pids['a']}\t", "\tx\t", 1))
    real = node.host.node()
    with pytest.raises(PlacementError, match="book of placements is damaged"):
        placement.mend(real, set(real.ledger.containers()))


def test_the_book_keeps_every_container_with_its_place(node: Node) -> None:
    for number in range(6):
        node.start(f"s{number}", 100 * number, **{"io.kubernetes.container.name": f"s{number}"})
    node.start("b", 2500, **{CPUS: "mixed:2"})
    first, second = Book(node.host.node()), Book(node.host.node())
    assert len(first.places) < len(second.entries) == 7
    for id_, entry in second.entries.items():  # one by one, and all at once
        found = first.find(id_)
        assert found is not None
        for name in ("id", "key", "pid", "start", "folder", "unit", "unit_folder", "applied"):
            assert getattr(found, name) == getattr(entry, name)
        assert found.decision.as_record() == entry.decision.as_record()
    assert first.usage().load(MACHINE.online) == second.usage().load(MACHINE.online) == (2000, 7)
    assert second.usage(UID).near(UID) == second.usage().near(UID) | parse_list("0-3,16-19")
    assert second.usage(UID).load(MACHINE.online) == (2000, 7)
    assert not first.remove("nobody")
    for id_ in second.entries:
        assert first.remove(id_)
    assert first.usage().load(MACHINE.online) == (0, 0)
    assert first.usage().common == MACHINE.online


# Whom no hook has placed


def runs(node: Node, name: str, milli: int = 0, **annotations: str) -> dict[str, Any]:
    """A container that runs, as its runtime knows it, without that any hook was called."""
    node.process(name)
    told = node.state(name, milli, **annotations)
    bundle = Path(told["bundle"]) / "config.json"
    bundle.write_text(json.dumps(json.loads(bundle.read_text()) | {"annotations": told["annotations"]}))
    folder = node.host.root / "crun" / _id(name)
    folder.mkdir(parents=True)
    pid = node.pids[name]
    status = {"pid": pid, "process-start-time": pid, "bundle": told["bundle"]}
    (folder / "status").write_text(json.dumps(status))
    return told


def test_reconcile_places_whom_no_hook_has_seen(node: Node) -> None:
    node.configure()
    node.start("hooked", 500)
    runs(node, "late", 2000, **{CPUS: "exclusive"})
    runs(node, "sandbox", 0, **{"io.kubernetes.cri-o.ContainerType": "sandbox"})
    del node.pids["sandbox"]
    dry = reconcile(node.host.node(), Options(dry_run=True))
    assert (dry.placed, node.cpus("late")) == ([_id("late")], "")
    report = reconcile(node.host.node())
    assert report.problems == []
    assert not report.failures
    assert report.placed == [_id("late")]
    assert report.as_dict()["placed"] == [_id("late")]
    assert "containers placed that ran unplaced" in report.as_text()
    assert (node.cpus("late"), node.cpus("hooked")) == ("0,16", "1-3,17-19")
    node.assert_sound()
    assert reconcile(node.host.node()).placed == []
    node.stop("late")
    assert node.cpus("hooked") == "0-3,16-19"
    assert node.host.node().ledger.containers() == [_id("hooked")]


def test_a_container_that_was_recorded_before_placement_was_on(node: Node) -> None:
    node.host.configure(sysPath=node.sys, runtimeRoots={"crun": str(node.host.root / "crun")})
    told = runs(node, "early", 500)
    assert node.host.call(told).code == 0
    node.configure(monitoring=True)
    assert reconcile(node.host.node()).placed == [_id("early")]
    record = node.host.node().ledger.read_member(UID, _id("early"))
    assert record is not None
    assert [step["feature"] for step in record["steps"]] == ["monitoring", "placement"]
    assert node.cpus("early") == "0-3,16-19"
    assert reconcile(node.host.node()).placed == []


def test_the_group_comes_before_the_place(node: Node) -> None:
    node.configure(monitoring=True)
    runs(node, "late", 500)
    report = reconcile(node.host.node())
    assert (report.adopted, report.placed) == ([_id("late")], [_id("late")])
    record = node.host.node().ledger.read_member(UID, _id("late"))
    assert record is not None
    assert [step["feature"] for step in record["steps"]] == ["monitoring", "placement"]


def test_whom_a_hook_would_leave_out_reconcile_leaves_out(node: Node) -> None:
    node.configure(namespaces=["other"])
    runs(node, "late", 500)
    assert reconcile(node.host.node()).placed == []
    assert node.cpus("late") == ""


def test_who_runs_can_not_be_refused_any_more(node: Node) -> None:
    node.configure(failurePolicy="fail", allow={})
    runs(node, "late", 2000, **{CPUS: "exclusive"})
    assert reconcile(node.host.node()).placed == [_id("late")]
    assert node.cpus("late") == "0-3,16-19"


def test_reconcile_does_not_work_against_the_kubelet(node: Node) -> None:
    runs(node, "late", 500)
    folder = node.host.root / "kubelet"
    folder.mkdir()
    (folder / "cpu_manager_state").write_text('{"policyName": "static"}')
    report = reconcile(node.host.node())
    assert report.placed == []
    assert "placement does nothing here" in report.failures["placement"]
    assert node.cpus("late") == ""


# Who can't have what it asks for


@pytest.mark.parametrize(
    "section, annotations, words",
    [
        ({"allow": {}}, {CPUS: "exclusive"}, "namespace shop may not have exclusive CPUs"),
        ({}, {CPUS: "mine"}, "can't be 'mine'"),
        (
            {"policy": "pools", "pools": [{"name": "db", "cpus": "0-3"}]},
            {"pool.placement.resctrl-hooks.io": "gone"},
            "there is no pool 'gone'",
        ),
        ({"policy": "/nowhere.py"}, {}, "policy /nowhere.py can't be used"),
    ],
)
def test_who_can_not_be_placed_as_it_asks_shares(
    node: Node, section: dict[str, Any], annotations: dict[str, str], words: str
) -> None:
    node.start("own", 2000, **{CPUS: "exclusive"})
    node.configure(**section)
    log = node.start("odd", 500, **annotations)
    assert words in log
    assert "shares CPUs instead of what it asks for" in log
    assert parse_list(node.cpus("odd"))
    assert not parse_list(node.cpus("odd")) & parse_list(node.cpus("own"))
    node.assert_sound()
    node.configure(failurePolicy="fail", **section)
    node.process("refused")
    outcome = node.host.call(node.state("refused", 500, **annotations))
    assert (outcome.code, words in outcome.stderr) == (79, True)


# CPUs that go offline


def take_offline(node: Node, cpus: str) -> None:
    write_sysfs(machine(2, 1, 2, 4, 2, offline=parse_list(cpus)), node.host.root / "sys")


def test_no_cpu_is_left_to_share(node: Node) -> None:
    node.start("a", 500)
    node.start("own", 2000, **{CPUS: "exclusive"})
    assert node.cpus("own") == "0,16"
    take_offline(node, "1-15,17-31")
    report = reconcile(node.host.node())
    assert "no CPU is left to share, so 1 containers run on CPUs that others own" in report.failures["placement"]
    assert not report.ok
    assert (node.cpus("a"), node.cpus("own")) == ("0,16", "0,16")
    log = node.start("b", 500)
    assert "no CPU is left to share: all are offline, isolated, reserved or somebody's own" in log
    take_offline(node, "31")
    assert reconcile(node.host.node()).ok
    assert (node.cpus("a"), node.cpus("own")) == ("1-3,17-19", "0,16")
    node.assert_sound()


def test_reserved_cpus_are_shared_before_others_own(node: Node) -> None:
    node.configure(reservedCpus="31")
    node.start("a", 500)
    node.start("own", 2000, **{CPUS: "exclusive"})
    take_offline(node, "1-15,17-30")
    assert "so 1 containers run on reserved CPUs" in reconcile(node.host.node()).failures["placement"]
    assert (node.cpus("a"), node.cpus("own")) == ("31", "0,16")


def test_who_has_lost_all_of_its_own_cpus_gets_others(node: Node) -> None:
    node.start("a", 500)
    node.start("own", 2000, **{CPUS: "exclusive"})
    take_offline(node, "0,16")
    assert reconcile(node.host.node()).ok
    assert node.cpus("own") == "1,17"
    assert node.cpus("a") == "2-3,18-19"
    node.assert_sound()


def test_mend_places_who_was_not(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(placement, "lock", _late)
        node.start("a", 500)
    assert node.cpus("a") == ""
    real = node.host.node()
    assert placement.mend(real, set(real.ledger.containers())) == 1
    node.assert_sound()


def _late(*_: object) -> None:
    raise DeadlineError("the hook's deadline passed")


class Killed(BaseException):
    """A kill -9: nothing of the hook runs after it."""


class Killer:
    """Kills the hook before or after one of its next writes, if it is armed with how many of these to let pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed = 0
        for place, name in (
            (placement_effect, "write_value"),
            (placement, "record_decision"),
            (Book, "save"),
            (Book, "written"),
        ):
            monkeypatch.setattr(place, name, self._around(getattr(place, name)))

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> None:
            self._pass()
            real(*given)
            self._pass()

        return called

    def _pass(self) -> None:
        self.armed -= 1
        if not self.armed:
            raise Killed


@pytest.mark.parametrize("seed", range(3))
def test_fifty_containers_at_random_with_kills_in_between(
    node: Node, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    killer = Killer(monkeypatch)
    started = 0
    while started < 50 or node.pids:
        killer.armed = chance.randrange(1, 20) if chance.random() < 0.4 else 0
        try:
            if started < 50 and chance.random() < 0.6:
                started += 1
                kind = chance.choice(["shared", "shared", "exclusive", "mixed"])
                name = f"c{started}"
                node.process(name)
                call(node, node.state(name, chance.randrange(0, 4000), **{CPUS: kind}))
            elif node.pids:
                name = chance.choice(sorted(node.pids))
                node.die(name)
                if chance.random() < 0.7:
                    call(node, node.state(name, status="stopped"))
        except Killed:
            pass
        if chance.random() < 0.15:
            killer.armed = 0
            assert reconcile(node.host.node()).problems == []
            node.assert_sound()
            real = node.host.node()
            assert placement.mend(real, set(real.ledger.containers())) == 0
    killer.armed = 0
    reconcile(node.host.node())
    assert Book(node.host.node()).entries == {}


def call(node: Node, given: dict[str, Any]) -> None:
    """As `Host.call`, but what kills the hook is not caught on the way."""
    parsed, real = parse_state(format_json(given)), node.host.node()
    if parsed.stage == hook.POSTSTOP:
        hook.poststop(parsed, real)
    else:
        cgroups = cgroups_of(real.proc, parsed.pid)
        workload = derive(parsed, read_bundle(parsed.bundle), cgroups, real.settings.cgroup_path)
        hook.create_runtime(workload, real)


# Requests


def workload(qos: str, shares: int, annotations: dict[str, str]) -> Workload:
    cgroup = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}[qos]
    told = State("c" * 64, "created", 0, "/b", crio_annotations() | annotations)
    resources = {"cpu": {"shares": shares}, "memory": {"limit": 1 << 30}}
    path = f"/kubepods{cgroup}/pod{UID}/crio-{'c' * 64}"
    return derive(told, Bundle({"linux": {"resources": resources}}), [Cgroup("", path)], "/cg")


@pytest.mark.parametrize(
    "qos, shares, annotations, kind, exclusive",
    [
        ("Guaranteed", 2048, {}, EXCLUSIVE, 2),
        ("Guaranteed", 2560, {}, SHARED, 0),
        ("Guaranteed", 512, {}, SHARED, 0),
        ("Burstable", 2048, {}, SHARED, 0),
        ("Guaranteed", 2048, {f"prefer-shared-cpus.{NRI}/pod": "true"}, SHARED, 0),
        ("Guaranteed", 2048, {f"prefer-shared-cpus.{NRI}/container.c0": "true"}, SHARED, 0),
        ("Guaranteed", 2048, {f"prefer-shared-cpus.{NRI}/container.c1": "true"}, EXCLUSIVE, 2),
        ("Guaranteed", 2560, {f"prefer-shared-cpus.{NRI}": "false"}, MIXED, 2),
        ("Burstable", 2048, {CPUS: "exclusive"}, EXCLUSIVE, 2),
        ("BestEffort", 2, {CPUS: "exclusive"}, EXCLUSIVE, 1),
        ("BestEffort", 2, {CPUS: "exclusive:3"}, EXCLUSIVE, 3),
        ("Burstable", 2560, {f"{CPUS}/c0": "mixed"}, MIXED, 2),
        ("Burstable", 2560, {CPUS: "reserved"}, RESERVED, 0),
        ("Burstable", 2560, {f"prefer-reserved-cpus.{NRI}": "true"}, RESERVED, 0),
    ],
)
def test_what_a_container_asks_for(
    qos: str, shares: int, annotations: dict[str, str], kind: str, exclusive: int
) -> None:
    settings = Settings({"placement": {"allow": {"shop": ["exclusive", "reserved"]}}})
    request = request_of(workload(qos, shares, annotations), settings)
    assert (request.kind, request.exclusive, request.memory) == (kind, exclusive, 1 << 30)


@pytest.mark.parametrize(
    "annotations, words",
    [
        ({CPUS: "exclusive"}, "may not have exclusive CPUs"),
        ({CPUS: "reserved"}, "may not have reserved CPUs"),
        ({"pool.placement.resctrl-hooks.io": "db"}, "may not have pool 'db'"),
        ({CPUS: "mine"}, "can't be 'mine'"),
        ({CPUS: "exclusive:-1"}, "can't be"),
        ({CPUS: "exclusive:²"}, "can't be"),
        ({CPUS: "mixed:①"}, "can't be"),
        ({CPUS: "exclusive:٣"}, "can't be"),
        ({"pool.placement.resctrl-hooks.io": "x" * 254}, "longer than any pool's name"),
    ],
)
def test_what_it_may_not_have(annotations: dict[str, str], words: str) -> None:
    with pytest.raises(PlacementError, match=words):
        request_of(workload("Burstable", 1024, annotations), Settings({"placement": {}}))


def test_a_guaranteed_pod_that_may_not_own_cpus_shares_them() -> None:
    assert request_of(workload("Guaranteed", 2048, {}), Settings({})).kind == SHARED


def test_isolated_cpus_and_reserved_namespaces() -> None:
    settings = Settings({"placement": {"allow": {"shop": ["*"]}}})
    wanted = request_of(workload("Guaranteed", 2048, {f"prefer-isolated-cpus.{NRI}": "true"}), settings)
    assert wanted.isolated
    settings = Settings({"placement": {"reservedNamespaces": ["sh*"]}})
    assert request_of(workload("Guaranteed", 2048, {}), settings).kind == RESERVED


@pytest.mark.parametrize(
    "text, error",
    [
        ("placement: {policy: best}", "there is no policy 'best'"),
        ("placement: {policy: pools}", "needs pools"),
        ("placement: {reservedCpus: all}", "is no list of CPUs"),
        ("placement: {reservedCpus: '0-3', pools: [{name: a, cpus: '3-4'}]}", "pool a has CPUs of another pool"),
        ("placement: {pools: [{name: a, cpus: '3'}, {name: a, cpus: '4'}]}", "another class 'a'"),
    ],
)
def test_what_config_check_says(text: str, error: str) -> None:
    assert error in " ".join(str(problem) for problem in check_text(text.encode(), "config.yaml").errors)


def test_a_policy_of_the_operators(node: Node) -> None:
    file = node.host.root / "mine.py"
    file.write_text(
        "from .policy import Decision\n"
        "def choose(topology, usage, request):\n"
        "    return Decision('shared', 'mine', cpus=0b1000, why='I say so')\n"
    )
    node.configure(policy=str(file))
    node.start("a")
    assert node.cpus("a") == "3"


def ran_unseen(node: Node, name: str, milli: int = 0, **annotations: str) -> None:
    """A container that runs although no hook has seen it, as crun keeps its state."""
    node.process(name)
    given = node.state(name, milli, **annotations)
    config = Path(given["bundle"]) / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"annotations": given["annotations"]}))
    folder = node.host.root / "crun" / _id(name)
    folder.mkdir(parents=True)
    pid = node.pids[name]
    status = {"pid": pid, "process-start-time": pid, "bundle": given["bundle"]}
    (folder / "status").write_text(json.dumps(status))


def test_what_one_container_asks_for_stops_reconcile_for_nobody_else(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("dead", 1000)
    node.die("dead")
    ran_unseen(node, "odd", 500, **{CPUS: "exclusive:²"})
    ran_unseen(node, "late", 500)
    reconcile(node.host.node())
    assert node.cpus("odd") == node.cpus("late") == "0-3,16-19"
    assert _id("dead") not in Book(node.host.node()).entries
    ran_unseen(node, "broken")
    ran_unseen(node, "last")
    real = placement.steps_for

    def faulty(workload: Workload, *rest: Any, **named: Any) -> Any:
        if workload.id == _id("broken"):
            raise KeyError("nothing")
        return real(workload, *rest, **named)

    monkeypatch.setattr("resctrl_hooks.node.placement_mend.steps_for", faulty)
    report = reconcile(node.host.node())
    assert report.failures == {_id("broken"): "a fault of resctrl-hook itself: KeyError: 'nothing'; please report it"}
    assert node.cpus("last") == "0-3,16-19"


def with_units(node: Node, count: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str], float]]:
    """Containers in scopes of their own, of which some hook had no time to tell; what systemd is told, in time."""
    told: list[tuple[str, dict[str, str], float]] = []
    for number in range(count):
        node.start(f"s{number}", 10)
    real = node.host.node()
    book = Book(real)
    for entry in book.entries.values():
        entry.unit = f"crio-{entry.id}.scope"
    book.save()
    book.written()
    note_untold(real)
    monkeypatch.setattr("resctrl_hooks.node.units.available", always(value=True))
    monkeypatch.setattr("resctrl_hooks.node.units.set_properties", lambda *given: told.append(given))
    return told


def test_hooks_get_the_lock_while_reconcile_tells_systemd(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    told = with_units(node, 4, monkeypatch)
    monkeypatch.setattr(placement_effect, "_SHARE_AT_A_TIME", 0)
    free = []

    def breathe(_: float) -> None:
        with node.host.node().ledger.lock_named("placement", 0):
            free.append(len(told))
        # A hook has it, and gives somebody else CPUs: what it wrote is what is told.
        (node.folder("s3") / "cpuset.cpus").write_text("5")

    monkeypatch.setattr("resctrl_hooks.node.placement_effect.time.sleep", breathe)
    real = node.host.node()
    placement.mend(real, set(real.ledger.containers()))
    assert free == [1, 2, 3]
    cpus = {unit: properties["AllowedCPUs"] for unit, properties, _ in told}
    assert [cpus[f"crio-{_id(f's{number}')}.scope"] for number in (0, 3)] == ["0-3,16-19", "5"]
    assert {seconds for *_, seconds in told} == {real.settings.deadline / 2}
    assert not take_untold(real)


def test_who_was_not_told_is_told_the_next_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    told = with_units(node, 2, monkeypatch)
    real = node.host.node()
    known = set(real.ledger.containers())

    def too_late(*_: object) -> None:
        raise DeadlineError("no time")

    with monkeypatch.context() as patch:
        patch.setattr("resctrl_hooks.node.units.set_properties", too_late)
        with pytest.raises(PlacementError, match="systemd can't be told of all CPUs: no time"):
            placement.mend(real, known)
    assert placement.mend(real, known) == 0
    assert len(told) == 2


@pytest.mark.parametrize("name", ["placement", "placement.writing", "placement.untold", "topology"])
def test_a_file_of_placement_that_can_not_be_used_is_no_fault(node: Node, name: str) -> None:
    node.start("a", 500)
    file = node.host.state / name
    file.unlink(missing_ok=True)
    file.mkdir()
    report = reconcile(node.host.node())
    assert f"{file} can't be used" in report.failures["placement"]
    assert report.reasons == ["ledger"]
    outcome = node.host.call(node.state("a", status="stopped"))
    assert outcome.code == 0
    assert "fault" not in outcome.log


def test_a_container_that_made_cgroups_below_its_own_is_placed_in_its_own(node: Node) -> None:
    ran_unseen(node, "late", 500)
    pid = node.pids["late"]
    node.host.process(pid, f"/kubepods/pod{UID}/crio-{_id('late')}/init.scope", start=pid)
    reconcile(node.host.node())
    assert node.cpus("late") == "0-3,16-19"
    (node.host.state / "placement").unlink()
    (node.folder("late") / "cpuset.cpus").write_text("")
    reconcile(node.host.node())  # from the record now
    assert node.cpus("late") == "0-3,16-19"
    assert list((node.folder("late") / "init.scope").iterdir()) == []


def test_a_record_that_can_not_be_read_stops_reconcile_for_nobody_else(node: Node) -> None:
    node.start("broken", 500)
    node.start("good", 500)
    record = node.host.state / "pods" / UID / f"c-{_id('broken')}"
    record.unlink()
    record.mkdir()
    ran_unseen(node, "late", 500)
    report = reconcile(node.host.node())
    assert any("can't be used (EINVAL)" in problem for problem in report.problems)
    assert node.cpus("late") == "0-3,16-19"


def test_cpus_that_go_offline(node: Node) -> None:
    node.start("a", 500)
    write_sysfs(machine(2, 1, 2, 4, 2, offline=0b1), node.host.root / "sys")
    real = node.host.node()
    placement.mend(real, set(real.ledger.containers()))
    assert node.cpus("a") == "1-3,16-19"
    assert Usage(Book(real).topology, []).common == MACHINE.online & ~1
    assert issubclass(CgroupError, Exception)


def test_explain_says_which_pool_and_which_came_next(node: Node) -> None:
    node.start("a", 500)
    node.process("b")
    (node.host.state / "topology").unlink()
    before = (node.host.state / "placement").read_bytes()
    given = format_json(node.state("b", 2000, **{CPUS: "exclusive"}))
    done = CliRunner().invoke(main, ["--config", str(node.host.config), "explain"], input=given)
    assert done.exit_code == 0, done.output
    assert (
        "exclusive in l3-0, CPUs 0,16, memory nodes 0; CPUs 0,16 of its own: l3-0 has whole cores free" in done.output
    )
    assert "next best: l3-1 (8000m free)" in done.output
    assert (node.host.state / "placement").read_bytes() == before
    assert not (node.host.state / "topology").exists()
    assert node.cpus("b") == ""


def test_show_has_what_was_decided(node: Node) -> None:
    node.start("b", 2000, **{CPUS: "exclusive"})
    (node.folder("b") / "cpuset.cpus.effective").write_text("0,16\n")
    record = node.host.node().ledger.read_member(UID, _id("b"))
    assert record is not None
    shown = details_of(record)["placement"]
    assert (shown["kind"], shown["owned"], shown["effective"]) == ("exclusive", "0,16", "0,16")
    assert "of its own" in shown["why"]


def test_list_has_a_column_only_where_somebody_is_placed(node: Node) -> None:
    def listed(*words: str) -> str:
        done = CliRunner().invoke(main, ["--config", str(node.host.config), "list", *words], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.output

    assert "PLACED" not in listed()
    node.start("a", 500, **{"io.kubernetes.container.name": "web"})
    node.start("b", 2000, **{CPUS: "exclusive", "io.kubernetes.container.name": "db"})
    (node.folder("a") / "cpuset.cpus.effective").write_text("1-3,17-19\n")
    (node.folder("b") / "cpuset.cpus.effective").write_text("0,16\n")
    text = listed("--all")
    assert re.search(r"PLACED +CPUS +STATE", text)
    assert re.search(r"shop/web-0 .* exclusive l3-0, shared l3-0 +0-3,16-19 ", text)
    assert re.search(r"  web .* shared l3-0 +1-3,17-19 ", text)
    assert re.search(r"  db .* exclusive l3-0 +0,16 ", text)
    (pod,) = json.loads(listed("--json"))["pods"]
    assert {one["name"]: one["details"]["placement"]["effective"] for one in pod["containers"]} == {
        "web": "1-3,17-19",
        "db": "0,16",
    }


def test_list_finds_the_cpus_of_a_scope_above(node: Node) -> None:
    node.start("b", 2000, **{CPUS: "exclusive"})
    (node.folder("b").parent / "cpuset.cpus.effective").write_text("0,16\n")
    record = node.host.node().ledger.read_member(UID, _id("b"))
    assert record is not None
    assert details_of(record)["placement"]["effective"] == "0,16"
