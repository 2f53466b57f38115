"""Placement on a made-up host: who gets which CPUs, who follows, and what is mended after kills at any moment."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from conftest import BOOT, UID, Host, crio_annotations, state
from machines import machine, write_sysfs

from resctrl_hooks.cli import main
from resctrl_hooks.config.check import check_text
from resctrl_hooks.inventory.details import details_of
from resctrl_hooks.node import cgroup, hook, kubelet, placement, placement_effect
from resctrl_hooks.node.cgroup import CgroupError
from resctrl_hooks.node.cpusets import parse_list
from resctrl_hooks.node.errors import DeadlineError
from resctrl_hooks.node.files import format_json
from resctrl_hooks.node.oci import Bundle, State, parse_state, read_bundle
from resctrl_hooks.node.placement_book import Book
from resctrl_hooks.node.placement_request import request_of
from resctrl_hooks.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, PlacementError, Usage, effective
from resctrl_hooks.node.process import Cgroup, cgroups_of
from resctrl_hooks.node.reconcile import reconcile
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.workload import Workload, derive

if TYPE_CHECKING:
    from pathlib import Path

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

    def configure(self, **section: Any) -> None:
        values = {"enabled": True, "allow": {"shop": ["*"]}, "kubeletPath": str(self.host.root / "kubelet")}
        self.host.configure(sysPath=self.sys, monitoring={"enabled": False}, placement=values | section)

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
    assert node.cpus("a") == before
    assert set(Book(node.host.node()).entries) == {_id("a")}
    del monkeypatch


def test_a_cgroup_above_that_has_fewer(node: Node) -> None:
    node.process("b")
    (node.folder("b") / "cpuset.cpus.effective").write_text("1-3")
    log = node.host.call(node.state("b", 1000, **{CPUS: "exclusive"})).log
    assert "the kernel gives the container CPUs 1-3, not 0,16; a cgroup above it" in log
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
    (node.host.state / "placement").unlink()
    node.start("c", 2000, **{CPUS: "exclusive"})  # takes what is b's, for all it can know
    real = node.host.node()
    placement.mend(real, set(real.ledger.containers()))
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


@pytest.mark.parametrize("seed", range(3))
def test_fifty_containers_at_random_with_kills_in_between(
    node: Node, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    real_write = cgroup.write_value
    armed = [0]

    def write(folder: str, name: str, value: str) -> None:
        armed[0] -= 1
        if not armed[0]:
            raise Killed
        real_write(folder, name, value)
        if armed[0] == 1 and chance.random() < 0.5:
            armed[0] = 0
            raise Killed

    monkeypatch.setattr(placement_effect, "write_value", write)
    started = 0
    while started < 50 or node.pids:
        armed[0] = chance.randrange(1, 8) if chance.random() < 0.3 else 0
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
            armed[0] = 0
            assert reconcile(node.host.node()).problems == []
            node.assert_sound()
            real = node.host.node()
            assert placement.mend(real, set(real.ledger.containers())) == 0
    armed[0] = 0
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
