"""The guard on a made-up node: what it writes and reports, where it only observes, and what a failed read means."""

import json
from typing import Any

import pytest
from conftest import Host
from hosts.faults import failing
from hosts.no_answer import answer, no_answer

from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.observe.config.guard import Guard as GuardSection
from resctrl_hooks.observe.inventory.guard import guard_status
from resctrl_hooks.observe.node.guard import lease
from resctrl_hooks.observe.node.guard.actuator import Mount
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.law import EVIDENCE, REPORT
from resctrl_hooks.observe.node.guard.lease import NAME as LEASE
from resctrl_hooks.observe.node.guard.limit import Limit
from resctrl_hooks.observe.node.guard.section import OBSERVE
from resctrl_hooks.observe.node.guard.status import NAME, event_text
from resctrl_hooks.observe.node.guard.sufferers import FRESH

from .node import CALM, FULL, GB, Node

__all__ = ("answer", "no_answer")
NODES = (0, 2, 10)


def declared(node: Node) -> bool:
    return all(node.limit(name) == f"MB:0={node.most}" for name in ("", "gold", "silver", "bronze"))


def test_status_and_log_have_every_action(host: Host) -> None:
    node = Node(host)
    node.pass_time(node.guard(), FULL, 8)
    assert "guard lowered MB of class bronze on memory domain 0 from 100 to 90 (per cent): load 95%" in node.lines
    found = node.status()
    assert (host.state / NAME).stat().st_mode & 0o777 == 0o600
    assert found["actions"] == {"lower": 2}
    first, second = found["events"]
    assert (first["domain"], first["action"], first["class"]) == ("0", "lower", "bronze")
    assert [(event["old"], event["new"]) for event in (first, second)] == [(100, 90), (90, 70)]
    domain = found["domains"]["0"]
    assert domain["last"] == {name: value for name, value in second.items() if name != "domain"}
    assert domain["classes"]["bronze"]["now"] == 70
    assert found["throttledSeconds"]["bronze"] > 1


def test_observe_writes_nothing_and_says_what_it_would_do(host: Host) -> None:
    node = Node(host, mode="observe")
    node.pass_time(node.guard(), FULL, 60)
    assert node.fs.writes == []
    assert not (host.state / LEASE).exists()
    assert "guard would lower MB of class bronze on memory domain 0 from 100 to 90 (per cent): load 95%" in node.lines
    events = node.status()["events"]
    (report,) = [event_text(event, OBSERVE, "per cent") for event in events if event["action"] == REPORT]
    assert "memory domain 0 would be exhausted if lowering had no effect: load 95%" in report
    assert f"guard: {report}" in node.lines


def test_turn_of_an_rmid_costs_one_sample_and_no_write(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    node.fs.writes.clear()
    for turn in range(3):
        path = node.root / "silver/mon_data/mon_L3_00/mbm_total_bytes"
        node.count("silver", 0, max(0, int(path.read_text()) - 60_000_000_000))  # a group is removed with its count
        node.now += 1
        guard.sample(node.now)
        assert node.status()["invalidSamples"] == turn + 1
        node.pass_time(guard, {"gold": 20.0, "silver": 20.0, "bronze": 40.0}, 3)
    assert (node.fs.writes, node.limit("bronze")) == ([], "MB:0=90")


def test_load_is_a_lower_bound_beside_a_group_without_an_assigned_counter(host: Host) -> None:
    node = Node(host)
    (node.root / "info/L3_MON").mkdir()
    (node.root / "mbm_L3_assignments").write_text("mbm_total_bytes:0=e\nmbm_local_bytes:0=e\n")
    guard = node.guard()
    node.pass_time(guard, CALM, 2)
    assert node.status()["domains"]["0"]["estimated"] is False
    group = node.root / "bronze/mon_groups/pod"
    group.mkdir()
    (group / "mbm_L3_assignments").write_text("mbm_total_bytes:0=_\nmbm_local_bytes:0=_\n")
    node.pass_time(guard, FULL, 20)
    assert node.fs.writes[0] == ("bronze", "MB:0=90")
    assert node.status()["domains"]["0"]["estimated"] is True


@pytest.mark.parametrize("floor, step, least", [(25, 10, 30), (15, 10, 20), (20, 20, 20)])
def test_floor_is_rounded_as_the_kernel_rounds_and_what_is_read_back_counts(
    host: Host, floor: int, step: int, least: int
) -> None:
    node = Node(host, floor=floor)
    node.fs.step = step  # bandwidth_gran says 10
    guard = node.guard()
    for _ in range(50):
        node.pass_time(guard, {"gold": 39.0, "silver": 1.0, "bronze": 55.0})
        assert node.now < 2 or node.status()["domains"]["0"]["classes"]["bronze"]["now"] == node.mb("bronze")
    assert node.mb("bronze") == least
    assert not any("another program" in line for line in node.lines)
    assert guard.end()
    assert declared(node)


def test_guard_of_two_memories_and_of_caches_that_share_one(host: Host) -> None:
    node = Node(host, l3=(0, 1))
    topology = Topology(0b1111, [1, 2, 4, 8], l3={0: 0b11, 1: 0b1100}, nodes=[MemoryNode(0, 0b1111, {}, 1, UNKNOWN)])
    guard = node.guard(topology=topology)
    node.pass_time(guard, FULL, 6)
    assert node.fs.writes == [("bronze", "MB:0=90;1=90")], "per cent are the same on all caches of one memory"
    guard.end()
    assert node.limit("bronze") == "MB:0=100;1=100"


def test_spread_load_of_caches_declared_as_numa_nodes_is_one_load(host: Host) -> None:
    node = Node(host, l3=tuple(range(8)), amd=True)
    nodes = [MemoryNode(number, 1 << number, {}, 1, UNKNOWN) for number in range(8)]
    guard = node.guard(topology=Topology(0xFF, [], l3={number: 1 << number for number in range(8)}, nodes=nodes))
    for second in range(1, 8):
        for number in range(8):
            for name, each in (("gold", 2), ("bronze", 10)):
                node.count(name, number, second * each * GB)
        guard.sample(float(second))
    (domain,) = node.status()["domains"].values()
    assert domain["load"] == pytest.approx(0.96)
    parts = [int(part.partition("=")[2]) for part in node.limit("bronze").removeprefix("MB:").split(";")]
    assert max(parts) < 2048
    assert min(parts) >= domain["classes"]["bronze"]["floor"] // 8 > 1


def test_amd_limit_starts_at_the_measured_rate(host: Host) -> None:
    node = Node(host, amd=True)
    node.pass_time(node.guard(), FULL, 6)
    assert node.fs.writes == [("bronze", f"MB:0={int(55e9 / 125e6 * 0.8)}")]
    mount = Mount(node.context().monitor.resctrl)
    assert mount.floor_of(20, 100e9) == 160, "20 GB/s in 1/8 GB/s"
    assert mount.floor_of("2GBps", 100e9) == 16
    assert mount.floor_of(20, 0) == 1, "without a capacity per cent cannot be converted"


def test_unknown_granularity_is_one_per_cent(host: Host) -> None:
    node = Node(host)
    (node.root / "info/MB/bandwidth_gran").unlink()
    assert Mount(node.context().monitor.resctrl).scale.down(Limit(100, 20), 0.0, 1) == 99


# Where it only observes


def write(node: Node, path: str, text: str) -> None:
    (node.root / path).parent.mkdir(parents=True, exist_ok=True)
    (node.root / path).write_text(text)


@pytest.mark.parametrize(
    "path, text, l3, why",
    [
        ("schemata", "MB:0=4294967295\n", (0,), "resctrl is mounted with mba_MBps"),
        ("schemata", "L3:0=fff\n", (0,), "resctrl limits no memory bandwidth here (no MB in schemata)"),
        ("schemata", "MB_MIN:0=5\nGMB:0=8\n", (0,), "no MB in schemata"),
        ("info/MB/min_bandwidth", "x", (0,), "resctrl limits no memory bandwidth here"),
        ("schemata", "MB:0=100;1=100\n", (0, 1), "the topology is unreadable"),
    ],
)
def test_guard_that_must_not_write_observes_and_says_why(
    host: Host, path: str, text: str, l3: tuple[int, ...], why: str
) -> None:
    node = Node(host, l3=l3)
    write(node, path, text)
    guard = node.guard()
    node.pass_time(guard, FULL, 20)
    assert (guard.mode, node.fs.writes) == ("observe", [])
    assert any(f"guard only observes: {why}" in line or why in line for line in node.lines)
    assert why in node.status()["why"]


def test_arm_mount_is_only_observed_and_a_domain_without_a_capacity_never_limited(host: Host) -> None:
    node = Node(host, capacity="0")
    resctrl = node.context().monitor.resctrl
    assert Mount(resctrl, "aarch64").observe_only == "the effect of MB values is unknown on Arm (MPAM)"
    assert Mount(resctrl, "x86_64").observe_only == ""
    node.pass_time(node.guard(), FULL, 30)
    assert node.fs.writes == []
    assert any("no capacity for memory domain 0" in line for line in node.lines)


@pytest.mark.parametrize(
    "counted_in, limited, acts",
    [
        *(("L3", "", True), ("L3", "L3", True), ("MB", "", True), ("MB", "NODE", True), ("NODE", "NODE", True)),
        *(("MB", "L3", False), ("NODE", "", False), ("NODE", "L3", False), ("L3", "NODE", False), ("X", "", False)),
    ],
)
def test_guard_acts_where_mb_limits_in_the_domains_that_count(
    host: Host, counted_in: str, limited: str, *, acts: bool
) -> None:
    node = Node(host, l3=NODES, counted_in=counted_in)
    if limited:
        write(node, "info/MB/resource_schemata/MB/scope", f"{limited}\n")
    guard = node.guard(topology=Topology(0b111, [1, 2, 4], l3={0: 1, 2: 2, 10: 4}) if counted_in == "L3" else None)
    node.pass_time(guard, FULL, 6)
    assert (guard.mode, node.mb("bronze")) == (("act", 90) if acts else ("observe", 100)), node.lines
    if not acts:
        why = f"bandwidth is counted in {counted_in} domains 0, 2, 10, and MB limits {limited or 'L3'} domains"
        assert why in node.lines[0]
    assert guard.end()
    assert node.mb("bronze") == 100


def test_guard_observes_where_the_ids_differ_and_never_takes_other_resources_for_mb(host: Host) -> None:
    node = Node(host, l3=NODES, counted_in="MB")
    for file in (node.root / "schemata", *node.root.glob("*/schemata")):
        file.write_text("MB_MIN:0=5\nMB_MAX:0=7\nGMB:0=8\nMB:1=100;2=100\n")
    guard = node.guard()
    node.pass_time(guard, FULL, 8)
    assert (guard.mode, node.fs.writes) == ("observe", [])
    assert "MB domains 0, 2, 10, and MB limits MB domains 1, 2" in node.lines[0]


def test_load_at_the_memory_is_exact_and_ignores_local_bytes(host: Host) -> None:
    node = Node(host, l3=NODES, counted_in="MB")
    node.pass_time(node.guard(), {"gold": 30.0}, 3)
    found = guard_status(node.context())
    assert found is not None
    assert [(one.domain, one.l3, one.load, one.estimated) for one in found.domains] == [
        ("0", [0], pytest.approx(0.3), False),
        ("2", [2], 0.0, False),
        ("10", [10], 0.0, False),
    ]


# Reads that fail


GUARD: dict[str, tuple[Any, str]] = {
    "counters and schemata": (Filesystem, "read"),
    "classes and groups": (Filesystem, "listdir"),
    "folders": (Filesystem, "is_folder"),
    "inodes of groups": ("posix", "scandir"),
    "lease": (lease, "write_file"),
}
"""Operations of a guard that samples: each one's owner and name."""


def check_cut_is_held_then_deepened_and_restored(node: Node, guard: Guard) -> None:
    assert node.limit("bronze") == "MB:0=90"
    assert (node.host.state / LEASE).exists()
    assert not any("another program" in line for line in node.lines)
    node.pass_time(guard, FULL, 60)
    assert node.limit("bronze") == "MB:0=20"
    assert guard.end()
    assert node.limit("bronze") == "MB:0=100"
    assert not (node.host.state / LEASE).exists()


@pytest.mark.parametrize("operation", GUARD.values(), ids=GUARD)
def test_guard_holds_a_cut_while_it_cannot_read(host: Host, operation: tuple[Any, str], no_answer: OSError) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    with failing(*operation, no_answer):
        node.pass_time(guard, FULL, 2)
    check_cut_is_held_then_deepened_and_restored(node, guard)


@pytest.mark.parametrize("ending", ["", "schemata", "mbm_total_bytes"], ids=["all", "schemata", "counters"])
def test_guard_holds_a_cut_for_an_answer_without_meaning(host: Host, ending: str, answer: bytes) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    read = Filesystem.read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filesystem, "read", lambda fs, path: answer if path.endswith(ending) else read(fs, path))
        node.pass_time(guard, FULL, 2)
        if ending == "schemata":
            assert not guard.end()
    check_cut_is_held_then_deepened_and_restored(node, guard)


# Pods that suffer


BUSY = {"gold": 20.0, "silver": 5.0, "bronze": 35.0}


class Protected:
    """A node whose gold class is protected at a slowdown of 1.2."""

    def __init__(self, host: Host, **protect: Any) -> None:
        self.host = host
        self.node = Node(host)
        self.configure(**protect)

    def configure(self, *, enabled: bool = True, **protect: Any) -> None:
        guard = {"protect": {"gold": {"slowdown": 1.2}, **protect}, "throttle": {"bronze": {"floor": 20}}}
        capacity = {"capacity": {"*": 100 * GB}}
        self.host.configure(rdt={"guard": {"mode": "act", **guard}}, monitoring=capacity, slowdown={"enabled": enabled})

    def press(self, since: float, **changes: Any) -> None:
        """Write that a pod of gold is slowed in windows that began then, and end now."""
        pod = {"ratio": 1.5, "classes": ["gold"], "domains": [0], "since": since, "until": self.node.now, **changes}
        (self.host.state / SLOWDOWN_STATUS).write_text(json.dumps({"pressed": {"key": pod}}))

    def calm(self) -> None:
        """Write that no pod is slowed."""
        (self.host.state / SLOWDOWN_STATUS).write_text(json.dumps({"pressed": {}}))


@pytest.fixture
def protected(host: Host) -> Protected:
    return Protected(host)


def test_suffering_pod_lowers_a_class_below_the_high_load_once_for_its_windows(protected: Protected) -> None:
    guard = protected.node.guard()
    protected.node.pass_time(guard, BUSY, 2)
    protected.press(0.0)
    protected.node.pass_time(guard, BUSY, 20)
    assert protected.node.fs.writes == [("bronze", "MB:0=90")], "windows from before the step do not show its effect"
    line = "from 100 to 90 (per cent): load 60%, pods of class gold are slowed"
    assert any(line in one for one in protected.node.lines)
    protected.press(15.0)
    protected.node.pass_time(guard, BUSY, 5)
    assert [value for _, value in protected.node.fs.writes] == ["MB:0=90", "MB:0=70"]


def test_class_without_a_slowdown_is_protected_at_the_load(host: Host) -> None:
    protected = Protected(host, silver={})
    protected.node.pass_time(protected.node.guard(), FULL, 6)
    assert protected.node.fs.writes == [("bronze", "MB:0=90")]


@pytest.mark.parametrize(
    "changes",
    [None, {}, {"ratio": 1.19}, {"classes": ["silver"]}, {"domains": [1]}, {"until": -FRESH}],
    ids=["no pod", "sampling ended", "below its slowdown", "another class", "another domain", "an old window"],
)
def test_full_domain_with_other_evidence_changes_nothing(protected: Protected, changes: dict[str, Any] | None) -> None:
    guard = protected.node.guard()
    if changes is None:
        protected.calm()
    else:
        protected.press(0.0, **changes)
    if changes == {}:
        protected.node.pass_time(guard, BUSY, 1)
        (protected.host.state / SLOWDOWN_STATUS).unlink()
    protected.node.pass_time(guard, FULL, 30)
    assert protected.node.fs.writes == []


@pytest.mark.parametrize("field, wrong", [("ratio", "5"), ("classes", 5), ("domains", [None]), ("until", float("nan"))])
def test_misshapen_evidence_is_none_and_ends_no_guard(protected: Protected, field: str, wrong: Any) -> None:
    guard = protected.node.guard()
    protected.press(**{"since": 0.0, field: wrong})
    protected.node.pass_time(guard, BUSY, 5)
    assert protected.node.limit("bronze") == "MB:0=100"
    protected.press(protected.node.now)
    protected.node.pass_time(guard, BUSY, 5)
    assert protected.node.limit("bronze") == "MB:0=90"


def test_guard_without_the_sampling_says_so_once(protected: Protected) -> None:
    protected.node.guard()
    assert not [line for line in protected.node.lines if "slowdown.enabled" in line]
    protected.configure(enabled=False)
    protected.node.guard()
    assert len([line for line in protected.node.lines if "slowdown.enabled" in line]) == 1


def test_step_up_waits_until_its_need_could_show_and_longer_after_each_relapse(protected: Protected) -> None:
    guard, node, waits = protected.node.guard(), protected.node, list[float]()
    for _ in range(3):
        protected.press(node.now)
        while node.limit("bronze") == "MB:0=100":
            node.pass_time(guard, BUSY)
        protected.calm()
        lowered = node.now
        while node.limit("bronze") != "MB:0=100":
            node.pass_time(guard, BUSY)
        waits.append(node.now - lowered)
        node.pass_time(guard, BUSY, 35)
    assert waits[0] >= EVIDENCE
    assert waits == sorted(waits)
    assert waits[2] > waits[0], "pressure soon after a step up doubles the wait"


def test_protect_is_a_list_or_a_mapping() -> None:
    assert GuardSection.model_validate({"protect": ["gold"]}).protect == ["gold"]
    found = GuardSection.model_validate({"protect": {"gold": {"slowdown": 1.2}, "/": {}}})
    assert found.model_dump(mode="json")["protect"]["gold"]["slowdown"] == 1.2
    cases: list[dict[str, Any]] = [{"gold": {"slowdown": 1.0}}, {"gold": {"speed": 2}}, {"a/b": {}}]
    for wrong in cases:
        with pytest.raises(ValueError, match=r"protect"):
            GuardSection.model_validate({"protect": wrong})
    with pytest.raises(ValueError, match="protected and throttled"):
        GuardSection.model_validate({"protect": {"gold": {}}, "throttle": {"gold": {"floor": 20}}})
