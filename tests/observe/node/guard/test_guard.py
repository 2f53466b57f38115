"""The guard on a made-up node: what it writes and reports, where it only observes, also on shared cores."""

import json
import posix
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Host
from golden import Golden
from hosts.faults import failing
from hosts.no_answer import answer, no_answer

from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.observe.node.guard import lease
from resctrl_hooks.observe.node.guard.actuator import Mount, classes_beside
from resctrl_hooks.observe.node.guard.guard import Guard
from resctrl_hooks.observe.node.guard.harm import PAUSE
from resctrl_hooks.observe.node.guard.law import EVIDENCE
from resctrl_hooks.observe.node.guard.lease import NAME as LEASE
from resctrl_hooks.observe.node.guard.status import NAME, event_text
from resctrl_hooks.observe.node.guard.sufferers import FRESH

from .node import CALM, FULL, GB, Node

__all__ = ("answer", "no_answer")
NODES = (0, 2, 10)

NOTHING: Any = {}


class Scene(NamedTuple):
    """A node, files in its resctrl (None: removed), and what its classes move for how long."""

    node: dict[str, Any] = NOTHING
    files: dict[str, str | None] = NOTHING
    topology: Topology | None = None
    rates: dict[str, float] = FULL
    seconds: int = 6
    step: int = 10
    """To whose multiples the kernel rounds per cent; bandwidth_gran says 10."""


def memory_nodes(*cpus: int) -> list[MemoryNode]:
    return [MemoryNode(number, of, {}, 1, UNKNOWN) for number, of in enumerate(cpus)]


APART = Topology(0b111, [1, 2, 4], l3={0: 1, 2: 2, 10: 4})
SHARED = Topology(0b1111, [1, 2, 4, 8], l3={0: 0b11, 1: 0b1100}, nodes=memory_nodes(0b1111))
OTHER_MB = "MB_MIN:0=5\nMB_MAX:0=7\nGMB:0=8\nMB:1=100;2=100\n"
SLOW = {"gold": 39.0, "silver": 1.0, "bronze": 55.0}
SCENES = {
    "full": Scene(seconds=8),
    "observing": Scene({"mode": "observe"}, seconds=60),
    **{
        f"floor of {floor}, rounded to {step}": Scene({"floor": floor}, rates=SLOW, seconds=50, step=step)
        for floor, step in ((25, 10), (15, 10), (20, 20))
    },
    "two caches of one memory": Scene({"l3": (0, 1)}, topology=SHARED),
    "AMD": Scene({"amd": True}, step=1),
    "unknown granularity": Scene(files={"info/MB/bandwidth_gran": None}, step=1),
    "mba_MBps": Scene(files={"schemata": "MB:0=4294967295\n"}, seconds=20),
    "no MB": Scene(files={"schemata": "L3:0=fff\n"}, seconds=20),
    "other limits of bandwidth": Scene(files={"schemata": "MB_MIN:0=5\nGMB:0=8\n"}, seconds=20),
    "damaged info": Scene(files={"info/MB/min_bandwidth": "x"}, seconds=20),
    "unreadable topology": Scene({"l3": (0, 1)}, {"schemata": "MB:0=100;1=100\n"}, seconds=20),
    "no capacity": Scene({"capacity": "0"}, seconds=30),
    **{
        f"counted in {counted_in}, limited in {limited or 'unnamed'} domains": Scene(
            {"l3": NODES, "counted_in": counted_in},
            {"info/MB/resource_schemata/MB/scope": f"{limited}\n"} if limited else {},
            APART if counted_in == "L3" else None,
        )
        for counted_in, limited in (
            *(("L3", ""), ("L3", "L3"), ("MB", ""), ("MB", "NODE"), ("NODE", "NODE")),
            *(("MB", "L3"), ("NODE", ""), ("NODE", "L3"), ("L3", "NODE"), ("X", "")),
        )
    },
    "other domains": Scene(
        {"l3": NODES, "counted_in": "MB"}, dict.fromkeys(("schemata", "gold/schemata", "bronze/schemata"), OTHER_MB)
    ),
}


def limits(node: Node) -> list[list[str]]:
    return [sorted(node.limit(name).removeprefix("MB:").split(";")) for name in ("", *FULL)]


def told(node: Node, guard: Guard) -> str:
    """Return the mode, writes and counts of a guard, its lines but for the later steps, and its domains."""
    status, writes = node.status(), ", ".join(" ".join(write) for write in node.fs.writes)
    counts = f"{status['actions']} {status['throttledSeconds']} {status['invalidSamples']} {len(status['events'])}"
    steps = [line for line in node.lines if " MB of class " in line]
    lines = [f"{guard.mode} {status['why']}: {writes}; {counts}", *(one for one in node.lines if one not in steps[1:])]
    for name, one in status["domains"].items():
        last = [str(of) for key, of in (one.get("last") or {}).items() if key not in ("time", "reason")]
        about = f"{one['l3']}: {one['state']}{' ~' * one['estimated']} {one['load']}, last {' '.join(last)}"
        classes = [f"{of} {values['now']} of {values['floor']}" for of, values in one["classes"].items()]
        lines.append(f"domain {name} {about}; {', '.join(classes)}")
    return "\n".join([*lines, *(event_text(event, guard.mode, "%") for event in status["events"][-1:])])


def test_scenes(tmp_path: Path, golden: Golden) -> None:
    texts = []
    for number, (name, scene) in enumerate(SCENES.items()):
        node = Node(Host(tmp_path / str(number)), **scene.node)
        for path, text in scene.files.items():
            (node.root / path).parent.mkdir(parents=True, exist_ok=True)
            (node.root / path).unlink() if text is None else (node.root / path).write_text(text)
        node.fs.step = scene.step
        before, guard = limits(node), node.guard(topology=scene.topology)
        node.pass_time(guard, scene.rates, scene.seconds)
        texts.append(f"{name}: {told(node, guard)}")
        assert (node.host.state / NAME).stat().st_mode & 0o777 == 0o600
        assert (node.host.state / LEASE).exists() is bool(node.fs.writes)
        assert guard.end()
        assert limits(node) == before
    golden("\n".join(texts))


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


def test_spread_load_of_caches_declared_as_numa_nodes_is_one_load(host: Host) -> None:
    node, each = Node(host, l3=tuple(range(8)), amd=True), [1 << number for number in range(8)]
    guard = node.guard(topology=Topology(0xFF, [], l3=dict(enumerate(each)), nodes=memory_nodes(*each)))
    for second in range(1, 8):
        for number in range(8):
            for name, rate in (("gold", 2), ("bronze", 10)):
                node.count(name, number, second * rate * GB)
        guard.sample(float(second))
    (domain,) = node.status()["domains"].values()
    assert domain["load"] == pytest.approx(0.96)
    parts = [int(part.partition("=")[2]) for part in node.limit("bronze").removeprefix("MB:").split(";")]
    assert max(parts) < 2048
    assert min(parts) >= domain["classes"]["bronze"]["floor"] // 8 > 1


def test_mount_has_its_floors_and_is_only_observed_on_arm(host: Host) -> None:
    resctrl = Node(host, amd=True).context().monitor.resctrl
    floors = [Mount(resctrl).floor_of(*of) for of in ((20, 100e9), ("2GBps", 100e9), (20, 0))]
    assert floors == [160, 16, 1], "in 1/8 GB/s; without a capacity per cent cannot be converted"
    assert Mount(resctrl, "aarch64").observe_only == "the effect of MB values is unknown on Arm (MPAM)"
    assert Mount(resctrl, "x86_64").observe_only == ""


GUARD: dict[str, tuple[Any, str]] = {
    "counters and schemata": (Filesystem, "read"),
    "classes and groups": (Filesystem, "listdir"),
    "folders": (Filesystem, "is_folder"),
    "inodes of groups": ("posix", "scandir"),
    "lease": (lease, "write_file"),
}
"""Operations of a guard that samples: each one's owner and name."""


def check_cut_is_held_then_deepened_and_restored(host: Host, faults: Any, *, ends: bool = True) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    with faults:
        node.pass_time(guard, FULL, 2)
        assert ends or not guard.end()
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
    check_cut_is_held_then_deepened_and_restored(host, failing(*operation, no_answer))


@contextmanager
def answering(ending: str, answer: bytes) -> Iterator[None]:
    """Let files with an ending have this content."""
    read = Filesystem.read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filesystem, "read", lambda fs, path: answer if path.endswith(ending) else read(fs, path))
        yield


@pytest.mark.parametrize("ending", ["", "schemata", "mbm_total_bytes"], ids=["all", "schemata", "counters"])
def test_guard_holds_a_cut_for_an_answer_without_meaning(host: Host, ending: str, answer: bytes) -> None:
    check_cut_is_held_then_deepened_and_restored(host, answering(ending, answer), ends=ending != "schemata")


# Pods that suffer

BUSY = {"gold": 20.0, "silver": 5.0, "bronze": 35.0}


def protect(node: Node, *, enabled: bool = True, **others: Any) -> Node:
    """Protect gold at a slowdown of 1.2, and others."""
    guard = {"mode": "act", "protect": {"gold": {"slowdown": 1.2}, **others}, "throttle": {"bronze": {"floor": 20}}}
    capacity = {"capacity": {"*": 100 * GB}}
    node.host.configure(rdt={"guard": guard}, monitoring=capacity, slowdown={"enabled": enabled})
    return node


@pytest.fixture
def protected(host: Host) -> Node:
    return protect(Node(host))


def press(node: Node, since: float, **changes: Any) -> None:
    """Write that a pod of gold is slowed in windows that began then, and end now."""
    pod = {"ratio": 1.5, "classes": ["gold"], "domains": [0], "since": since, "until": node.now, **changes}
    (node.host.state / SLOWDOWN_STATUS).write_text(json.dumps({"pressed": {"key": pod}}))


def relieve(node: Node) -> None:
    """Write that no pod is slowed."""
    (node.host.state / SLOWDOWN_STATUS).write_text(json.dumps({"pressed": {}}))


def test_suffering_pod_lowers_a_class_below_the_high_load_once_for_its_windows(protected: Node) -> None:
    guard = protected.guard()
    protected.pass_time(guard, BUSY, 2)
    press(protected, 0.0)
    protected.pass_time(guard, BUSY, 20)
    assert protected.fs.writes == [("bronze", "MB:0=90")], "windows from before the step do not show its effect"
    line = "from 100 to 90 (per cent): load 60%, pods of class gold are slowed"
    assert any(line in one for one in protected.lines)
    press(protected, 15.0)
    protected.pass_time(guard, BUSY, 5)
    assert [value for _, value in protected.fs.writes] == ["MB:0=90", "MB:0=70"]


def test_class_without_a_slowdown_is_protected_at_the_load(protected: Node) -> None:
    protect(protected, silver={})
    protected.pass_time(protected.guard(), FULL, 6)
    assert protected.fs.writes == [("bronze", "MB:0=90")]


OTHER_EVIDENCE = {
    "no pod": None,
    "sampling ended": {},
    "below its slowdown": {"ratio": 1.19},
    "another class": {"classes": ["silver"]},
    "another domain": {"domains": [1]},
    "an old window": {"until": -FRESH},
    "ratio is text": {"ratio": "5"},
    "classes are a number": {"classes": 5},
    "domain is null": {"domains": [None]},
    "time is no number": {"until": float("nan")},
}


@pytest.mark.parametrize("changes", OTHER_EVIDENCE.values(), ids=OTHER_EVIDENCE)
def test_full_domain_with_other_evidence_changes_nothing(protected: Node, changes: dict[str, Any] | None) -> None:
    guard = protected.guard()
    if changes is None:
        relieve(protected)
    else:
        press(protected, 0.0, **changes)
    if changes == {}:
        protected.pass_time(guard, BUSY, 1)
        (protected.host.state / SLOWDOWN_STATUS).unlink()
    protected.pass_time(guard, FULL, 30)
    assert protected.fs.writes == []
    press(protected, protected.now)
    protected.pass_time(guard, BUSY, 5)
    assert protected.limit("bronze") == "MB:0=90"


def test_guard_without_the_sampling_says_so_once(protected: Node) -> None:
    for enabled in (True, False):
        protect(protected, enabled=enabled).guard()
        assert len([line for line in protected.lines if "slowdown.enabled" in line]) == (not enabled)


def test_step_up_waits_until_its_need_could_show_and_longer_after_each_relapse(protected: Node) -> None:
    guard, waits = protected.guard(), list[float]()
    for _ in range(3):
        press(protected, protected.now)
        while protected.limit("bronze") == "MB:0=100":
            protected.pass_time(guard, BUSY)
        relieve(protected)
        lowered = protected.now
        while protected.limit("bronze") != "MB:0=100":
            protected.pass_time(guard, BUSY)
        waits.append(protected.now - lowered)
        protected.pass_time(guard, BUSY, 35)
    assert waits[0] >= EVIDENCE
    assert waits == sorted(waits)
    assert waits[2] > waits[0], "pressure soon after a step up doubles the wait"


MACHINES = {
    threads: Topology(0b1111, cores, l3={0: 0b1111}, nodes=memory_nodes(0b1111))
    for threads, cores in ((1, [1, 2, 4, 8]), (2, [0b0011, 0b1100]))
}
"""Machines of four CPUs by the threads of a core."""
PLACES = {"pinned": {"bronze": 0b1100, "gold": 0b0011}, "shared": {"bronze": 0b1111, "gold": 0b1111}}


def run_on(node: Node, monkeypatch: pytest.MonkeyPatch, **cpus: int | None) -> None:
    """Give each class one task that may run on these CPUs; None: it has ended."""
    of_task: dict[int, int | None] = {}
    for number, (name, mask) in enumerate(cpus.items()):
        of_task[100 + number] = mask
        (node.root / name / "tasks").write_text(f"{99 - number}\n{100 + number}\n")

    def affinity(task: int) -> set[int]:
        mask = of_task.get(task)
        if mask is None:
            raise ProcessLookupError
        return {cpu for cpu in range(4) if mask >> cpu & 1}

    monkeypatch.setattr(posix, "sched_getaffinity", affinity)


def pass_time(node: Node, guard: Guard, seconds: int, *, falls: bool) -> None:
    """Let gold move a fifth less while bronze is limited, if it falls."""
    for _ in range(seconds):
        limited = node.limit("bronze") != "MB:0=100"
        node.pass_time(guard, {**FULL, "gold": 16.0 if falls and limited else 20.0})


def on_cores(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    throttling: str = "max",
    threads: int = 2,
    place: str = "shared",
    mode: str = "act",
) -> tuple[Node, Guard]:
    """Return a node with a mode of throttling, and its guard."""
    node = Node(host, mode=mode)
    file = node.root / "info/MB/thread_throttle_mode"
    file.write_text(f"{throttling}\n") if throttling else file.unlink()
    run_on(node, monkeypatch, **PLACES[place])
    return node, node.guard(topology=MACHINES[threads])


@pytest.mark.parametrize(
    "throttling, threads, place, falls, kept",
    [("max", 2, "shared", True, True), ("max", 2, "shared", False, False), ("max", 2, "pinned", True, False),
     ("max", 1, "shared", True, False), ("per-thread", 2, "shared", True, False), ("", 2, "shared", True, False)],
)  # fmt: skip
def test_class_is_lowered_unless_a_cut_harms_a_protected_one_on_the_same_cores(
    host: Host, monkeypatch: pytest.MonkeyPatch, throttling: str, threads: int, place: str, *, falls: bool, kept: bool
) -> None:
    node, guard = on_cores(host, monkeypatch, throttling, threads, place)
    pass_time(node, guard, 60, falls=falls)
    assert node.limit("bronze") == ("MB:0=100" if kept else "MB:0=20")
    assert bool(node.status()["domains"]["0"]["classes"]["bronze"]["kept"]) is kept
    assert any("a cut slowed class gold, which moves 20% less" in line for line in node.lines) is kept


def test_exhausted_domain_has_a_measured_reason_until_a_pause(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node, guard = on_cores(host, monkeypatch)
    failures = [OSError(24, "Too many open files", "/x")]

    def fail_once(_: str) -> None:
        if failures and len(node.fs.writes) == 1:
            raise failures.pop()

    node.fs.before = fail_once
    pass_time(node, guard, 100, falls=True)
    assert failures == [], "it is taken back again after a failure"
    assert [value for name, value in node.fs.writes if name == "bronze"] == ["MB:0=90", "MB:0=100"]
    assert node.limit("silver") == "MB:0=50"
    (line,) = [line for line in node.lines if "is exhausted" in line]
    assert (
        "load 95%: class bronze is not lowered: a cut slowed class gold, which moves 20% less, on the same processor "
        "cores (thread_throttle_mode is max); all other limitable classes are at their floors" in line
    )
    (domain,) = node.status()["domains"].values()
    assert (domain["state"], "not lowered" in domain["last"]["reason"]) == ("exhausted", True)
    pass_time(node, guard, int(PAUSE), falls=False)
    assert node.limit("bronze") == "MB:0=20"


def test_observing_guard_measures_no_effect_of_cuts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node, guard = on_cores(host, monkeypatch, mode="observe")
    node.pass_time(guard, FULL, 5)
    node.pass_time(guard, {**FULL, "gold": 16.0}, 60)
    assert not node.status()["domains"]["0"]["classes"]["bronze"]["kept"]


HYBRID = Topology(0b1111, [0b0011, 4, 8])
"""Two of its cores have one thread each."""


@pytest.mark.parametrize(
    "bronze, gold, of, shared",
    [
        (0b0010, 0b0001, MACHINES[2], True),
        (0b0010, 0b1100, MACHINES[2], False),
        (0b1111, 0b0001, MACHINES[2], True),
        (None, 0b1111, MACHINES[2], False),
        (1, None, MACHINES[2], False),
        (0b1111, 0b1111, MACHINES[1], False),
        (0b1111, 0b1111, HYBRID, True),
        (0b1100, 0b1100, HYBRID, False),
        (0b1100, 0b1100, None, True),
    ],
)
def test_classes_meet_on_a_core_if_their_tasks_may(
    host: Host, monkeypatch: pytest.MonkeyPatch, bronze: int, gold: int, of: Topology | None, *, shared: bool
) -> None:
    node = Node(host)
    run_on(node, monkeypatch, bronze=bronze, gold=gold)
    resctrl = node.context().monitor.resctrl
    assert classes_beside(resctrl, "bronze", ["silver", "gold"], of)[-1:] == (["gold"] if shared else [])
    assert not of or classes_beside(resctrl, "bronze", ["silver"], of) == []
