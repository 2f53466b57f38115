"""The watcher's loop: events, too many of them, lost ones, changed settings, errors; and values that others change."""

import errno
import json
import os
import posix
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import always, noted, raising
from hosts.cluster import POD, Cluster
from hosts.faults import Fail

from resctrl_hooks.core.node.cgroup_settings.values import are_in_place
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.core.node.watch import bounds, listener, move, priority, values, watcher
from resctrl_hooks.core.node.watch.values import AGAIN, EVERY, PAUSE, SHARE
from resctrl_hooks.core.node.watch.writes import Writes

HOUSES = ("lab",)


class Source:
    """Execs that a test makes up."""

    def __init__(self) -> None:
        self.overruns = 0
        self.batches: list[list[int]] = []
        self.closed = self.broken = False

    def wait(self, seconds: float) -> list[int]:
        if self.broken:
            raise OSError(5, "I/O error")
        return self.batches.pop(0) if self.batches else []

    def close(self) -> None:
        self.closed = True


class Clock:
    """Time that passes during sleeps and work; ``used`` of it is processor time."""

    def __init__(self) -> None:
        self.now, self.tick, self.used = 1000.0, 0.0001, 0.0
        self.thread_time = lambda: self.used

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.used += seconds


class Watched:
    """A node with a watcher."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *, refuse: str = "", **config: Any) -> None:
        self.cluster = Cluster(root, **config)
        self.clock = Clock()
        self.sources: list[Source] = []
        self.refuse = refuse
        (self.cluster.host.proc / "self").mkdir()
        monkeypatch.setattr(watcher, "time", self.clock)
        monkeypatch.setattr(values, "time", self.clock)
        monkeypatch.setattr(Writes, "wait", lambda _, seconds: self.clock.sleep(seconds))
        self.urgent = False
        monkeypatch.setattr(watcher, "become_urgent", lambda: setattr(self, "urgent", True))
        monkeypatch.setattr(watcher, "become_ordinary", lambda: setattr(self, "urgent", False))
        path = str(self.cluster.host.config)
        self.watcher = watcher.Watcher(path, load(path)[0], load, self._listen, stderr=False, most=20)
        self.watcher._context.monitor.resctrl.fs = self.cluster.kernel

    def _listen(self, _: int) -> Source:
        if self.refuse:
            raise listener.NoConnectorError(self.refuse)
        self.sources.append(Source())
        return self.sources[-1]

    def steps(self, *batches: list[int], number: int = 1) -> None:
        if not self.sources:
            self.watcher.step()
        if batches:
            self.sources[-1].batches += batches
        for _ in range(max(number, len(batches))):
            self.watcher.step()

    @property
    def values(self) -> Any:
        return self.watcher.status.values

    def wakes(self) -> int:
        path = self.cluster.host.state / "wake"
        return path.exists() and path.stat().st_mtime_ns


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


def enter(watched: Watched, id_: str, **where: Any) -> int:
    return watched.cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}", **where)


def test_exec_in_a_container_is_moved_and_counted_beside_an_unreadable_process(watched: Watched) -> None:
    id_, _ = watched.cluster.start(1)
    watched.steps()
    pid = enter(watched, id_, threads=2)
    (watched.cluster.host.proc / "77/cpu_resctrl_groups").mkdir(parents=True)
    watched.steps([77, pid, 1])
    assert watched.cluster.groups_of(pid) == {("", POD)}
    expected = {"mode": "events", "events": 3, "moved": 1, "threads": 2, "gone": 1, "failed": 1}
    assert {name: watched.values[name] for name in expected} == expected
    watched.watcher.status.write()
    assert json.loads((watched.cluster.host.state / "exec.json").read_text())["moved"] == 1


def test_busy_key_is_retried_and_then_left_to_reconcile(watched: Watched) -> None:
    id_, _ = watched.cluster.start(1)
    for rdt_class in ("gold", "silver"):  # without a group of the pod, which a process would join at once
        watched.cluster.kernel.mkdir(str(watched.cluster.host.resctrl / rdt_class))
    first, second = enter(watched, id_, rdt_class="gold"), enter(watched, id_, rdt_class="silver")
    with watched.cluster.context().monitor.hold(POD):
        watched.steps([first])
    assert watched.values["moved"] == 0
    watched.clock.sleep(0.01)
    watched.steps()
    assert watched.values["moved"] == 1
    with watched.cluster.context().monitor.hold(POD):
        watched.steps([second])
        for _ in range(6):
            watched.clock.sleep(0.3)
            watched.steps()
    assert (watched.values["moved"], watched.values["left"]) == (1, 1)


def test_processes_whose_key_was_busy_are_served_again_each_at_its_time(watched: Watched, monkeypatch: Any) -> None:
    served: list[int] = []

    def serve(_: Any, __: Any, pid: int, ___: Any) -> move.Outcome:
        served.append(pid)
        return move.Outcome(move.BUSY)

    monkeypatch.setattr(watcher, "serve", serve)
    for pid in (1, 2):
        watched.steps([pid])
        watched.clock.sleep(0.005)  # the first pause of 2 is shorter than the second one of 1
        watched.steps()
    assert served == [1, 1, 2, 2]


def test_loop_of_execs_in_one_container_is_sampled_for_a_while_and_reported(watched: Watched) -> None:
    (id_, _), (other, _) = watched.cluster.start(1), watched.cluster.start(2)
    watched.steps(number=3)
    first, *looping = [enter(watched, id_) for _ in range(30)]
    entered = enter(watched, other)
    watched.steps([first, *looping, entered], number=2)
    assert watched.cluster.groups_of(entered) == {("", POD)}
    assert (watched.values["mode"], watched.values["degraded"]) == ("events", 1)
    assert f"container {id_[:12]} of {POD} has more than 20 execs in a second" in watched.cluster.host.log.read_text()
    assert {frozenset(watched.cluster.groups_of(pid)) for pid in looping} == {frozenset({("", POD)})}  # by its sample
    assert (watched.values["left"], watched.urgent) == (10, True)
    late = enter(watched, id_)
    watched.steps([late], number=3)
    assert watched.cluster.groups_of(late) == {("", "")}
    watched.clock.sleep(watcher.DEGRADED)
    watched.steps(number=2)
    assert watched.cluster.groups_of(late) == {("", POD)}
    late = enter(watched, id_)
    watched.steps([late])
    assert watched.cluster.groups_of(late) == {("", POD)}


LOOK, MOVE = 0.00004, 0.0003  # seconds of processor time


@pytest.mark.parametrize(
    "rate, monitored", [(1600, True), *(pytest.param(6000, one, marks=pytest.mark.ci) for one in (True, False))]
)
def test_loop_of_execs_spares_other_containers_and_the_processor(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, rate: int, monitored: bool
) -> None:
    """A, which may be unmonitored, calls exec ``rate`` times a second, and B has a probe of 5 ms in each second."""
    (a, _), (b, _) = watched.cluster.start(1), watched.cluster.start(2)
    watched.steps()
    watched.clock.tick = 0.0
    watched.watcher._loops = bounds.Loops(watcher.MOST_MOVES, watcher.DEGRADED)
    clock, begun, seconds = watched.clock, watched.clock.now, 20
    execs = [(begun + number / rate, 0) for number in range(rate * seconds)]
    execs = sorted(execs + [(begun + 0.3 + second, second + 1) for second in range(seconds)])
    urgent, served_at = 0.0, {}

    def wait(wanted: float) -> list[int]:
        if not execs:
            clock.now += wanted
            return []
        clock.now = max(clock.now, execs[0][0])
        return [execs.pop(0)[1]]

    def serve(_: Any, containers: Any, pid: int, may_move: Any) -> move.Outcome:
        nonlocal urgent
        was = clock.used
        clock.work(LOOK)
        containers.refresh()
        if not pid and not monitored:
            urgent += LOOK * watched.urgent
            return move.Outcome(move.IGNORED, where="/kubepods/unmonitored")
        if may_move(containers.of_id(b if pid else a)):
            clock.work(MOVE)
            served_at[pid] = clock.now
        urgent += (clock.used - was) * watched.urgent
        return move.Outcome(move.MOVED)

    monkeypatch.setattr(watched.sources[0], "wait", wait)
    monkeypatch.setattr(watcher, "serve", serve)
    monkeypatch.setattr(watcher, "sample_some", lambda *_: 0)
    while execs and not watched.sources[0].closed:
        watched.watcher.step()
    in_time = [second for second in range(seconds) if served_at.get(second + 1, 1e9) - (begun + 0.3 + second) < 0.005]
    assert len(in_time) >= 0.95 * seconds
    assert urgent <= watcher.URGENT * (seconds + 1)
    assert watched.values["mode"] == "events"


def test_execs_that_take_too_much_of_a_processor_lose_urgency_then_events(watched: Watched, monkeypatch: Any) -> None:
    watched.steps(number=4)

    def serve(_: Any, __: Any, pid: int, ___: Any) -> move.Outcome:
        watched.clock.work(0.15)
        return move.Outcome(move.IGNORED, where="/kubepods/pod-noisy" if pid else "/system.slice")

    monkeypatch.setattr(watcher, "serve", serve)
    watched.steps([1])
    assert watched.urgent
    watched.steps([2])
    assert (watched.urgent, watched.values["mode"]) == (False, "events")
    watched.clock.sleep(1.5)
    watched.steps(number=2)
    assert watched.urgent
    watched.steps([*range(6)])
    assert watched.sources[0].closed
    assert (watched.urgent, watched.values["mode"], watched.values["degraded"]) == (False, "sampling", 1)
    said = "execs take more than 50% of a processor, 88% of those that needed nothing in /kubepods/pod-noisy: the"
    assert said in watched.cluster.host.log.read_text()
    id_, _ = watched.cluster.start(1)
    pid = enter(watched, id_)
    watched.clock.sleep(3)
    watched.steps(number=2)
    assert watched.cluster.groups_of(pid) == {("", POD)}
    watched.clock.sleep(watcher.DEGRADED)
    watched.steps(number=2)
    assert (len(watched.sources), watched.values["mode"], watched.urgent) == (2, "events", True)


def test_lost_events_are_repaired_and_wake_reconcile_as_a_failed_hook_does(watched: Watched) -> None:
    id_, _ = watched.cluster.start(1)
    watched.steps(number=3)
    watched.clock.sleep(10)
    pid = enter(watched, id_)
    woken = watched.wakes()
    watched.sources[0].overruns = 2
    watched.steps(number=2)
    assert (watched.values["overruns"], watched.values["sampled"]) == (2, 1)
    assert watched.cluster.groups_of(pid) == {("", POD)}
    assert watched.wakes() > woken  # for containers without a record
    _, unknown = watched.cluster.spawn(2)
    watched.steps([unknown])
    woken = watched.wakes()
    watched.clock.sleep(5)
    watched.steps()
    assert watched.wakes() > woken


def test_kernel_without_the_connector_is_sampled_and_reported_once(tmp_path: Path, monkeypatch: Any) -> None:
    watched = Watched(tmp_path, monkeypatch, refuse="this kernel has no connector")
    id_, _ = watched.cluster.start(1)
    pid = enter(watched, id_)
    for _ in range(8):
        watched.watcher.step()
    assert watched.cluster.groups_of(pid) == {("", POD)}
    assert (watched.values["mode"], watched.values["why"]) == ("sampling", "this kernel has no connector")
    assert watched.cluster.host.log.read_text().count("this kernel has no connector") == 1


def test_changed_settings_start_and_stop_watch_and_unusable_ones_change_nothing(watched: Watched) -> None:
    watched.steps()
    for value, sources, mode in (("{", 1, "events"), ("reconcile", 1, "off"), ("watch", 2, "events")):
        if value == "{":
            watched.cluster.host.config.write_text(value)
        else:
            watched.cluster.host.configure(monitoring={"exec": value}, runtimeRoots={"crun": str(watched.cluster.root)})
        watched.clock.sleep(5)
        watched.steps(number=2)
        assert (len(watched.sources), watched.values["mode"]) == (sources, mode)
        assert "the previous settings stay active" in watched.cluster.host.log.read_text()
    assert watched.sources[0].closed


def test_watch_continues_after_error_and_its_samples_have_no_urgency(watched: Watched, monkeypatch: Any) -> None:
    urgent: list[bool] = []

    def sample(_: Any) -> int:
        urgent.append(watched.urgent)
        return 3

    monkeypatch.setattr(watcher, "sample", sample)
    watched.steps(number=3)
    assert (urgent, watched.urgent) == ([False], True)
    assert (watched.values["samples"], watched.values["sampled"]) == (1, 3)
    watched.sources[0].broken = True
    rounds = iter([False, False, True])
    watched.watcher.run(lambda _: next(rounds))
    assert "I/O error" in watched.cluster.host.log.read_text()
    assert (len(watched.sources), watched.sources[0].closed, watched.values["mode"]) == (2, True, "off")


def test_only_the_container_in_a_loop_is_sampled_until_its_rest_is_over() -> None:
    loops = bounds.Loops(3, 10.0)
    assert [loops.admit("a", 1.0) for _ in range(5)] == [True, True, True, False, False]
    assert [loops.admit("b", 1.0) for _ in range(3)] == [True, True, True]
    assert loops.sampled == {"a": 11.0}
    loops.drain(10.9)
    assert not loops.admit("a", 10.9)
    loops.drain(11.1)
    assert loops.sampled == {}
    assert loops.admit("a", 11.1)
    bucket = bounds.Bucket(10)
    assert [bucket.add(amount, now) for amount, now in ((10, 5.0), (2, 5.1), (8, 6.1))] == [False, True, False]
    assert [bucket.is_empty(now) for now in (6.9, 7.1)] == [False, True]


def test_container_without_a_record_is_reported_once_and_one_with_a_later_record_never() -> None:
    newcomers = bounds.Newcomers()
    newcomers.see("/c", 100.0)
    assert not newcomers.are_late(101.0, always(value=False))  # its hook may still run
    assert newcomers.are_late(102.0, always(value=False))
    newcomers.see("/c", 103.0)
    assert not newcomers.are_late(200.0, always(value=False))
    newcomers.see("/d", 210.0)
    assert not newcomers.are_late(212.0, lambda cgroup: cgroup == "/d")
    newcomers.see("/d", 220.0)  # and without one again, as after a restart
    assert newcomers.are_late(222.0, always(value=False))


def test_policy_is_the_lowest_realtime_one_while_urgent_and_its_refusal_no_error(monkeypatch: Any, fail: Fail) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(posix, "sched_setscheduler", noted(calls, 0))
    priority.become_urgent()
    priority.become_ordinary()
    urgent, ordinary = os.sched_param(1), os.sched_param(0)
    assert calls == [0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, urgent, 0, os.SCHED_OTHER, ordinary]
    fail(posix, "sched_setscheduler", PermissionError())
    priority.become_urgent()


# Values in cgroups that another program changes: what inotify reports, and when reconcile is asked to repair them

SWAP = "memory.swap.max"


class Node(Watched):
    """A node with the exec watcher and one container whose class allows swap."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch, classes=[{"name": "swap", "allowswap": True}])
        annotations = {"class.memtierd.nri.io": "swap"}
        id_, pid = self.cluster.spawn(1)
        self.folder = self.cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}"
        self.write("0")
        self.cluster.hook(id_, pid, notes=annotations)
        self.cluster.appear(id_, pid, notes=annotations)
        assert self.read() == "max"
        self.woken = False
        monkeypatch.setattr(Ledger, "wake", lambda _: setattr(self, "woken", True))
        self.steps()
        self.checks()

    def write(self, value: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / SWAP).write_text(value)

    def read(self) -> str:
        return (self.folder / SWAP).read_text().strip()

    def hide(self, value: str) -> None:
        """Change the value without a write that the watcher could see."""
        other = self.folder.parent / SWAP
        other.write_text(value)
        other.replace(self.folder / SWAP)

    def checks(self, seconds: float = EVERY) -> bool:
        """Let a check happen after this time; return whether it woke reconcile."""
        self.steps()  # sees a write
        self.woken = False
        self.clock.sleep(seconds)
        self.steps()
        return self.woken


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_changed_value_wakes_reconcile_soon_after_a_write_and_otherwise_at_a_regular_check(node: Node) -> None:
    node.hide("0")
    assert not node.checks(PAUSE)
    assert node.checks(EVERY - PAUSE)
    node.cluster.reconcile()
    assert node.read() == "max"
    assert not node.checks()
    node.write("0")
    assert node.checks(PAUSE)
    assert not node.checks(AGAIN / 2)  # a wake-up is repeated a few times
    assert [node.checks(AGAIN) for _ in range(6)] == [True] * 4 + [False] * 2
    node.cluster.reconcile()
    node.checks()
    shutil.rmtree(node.folder)
    assert not node.checks(), "a container that ended wakes nothing, although its value was in place"


def test_check_that_takes_long_comes_rarely(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*of: Any) -> bool:
        node.clock.work(0.2)
        return are_in_place(*of)

    monkeypatch.setattr(values, "are_in_place", work)
    assert not node.checks()
    node.write("0")
    assert not node.checks(0.2 * (SHARE - 2))
    assert node.checks(0.2 * 2)


def test_writes_make_the_descriptor_readable_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they are taken; also in a folder that returns, and lost ones. Without inotify nothing is seen."""
    writes = Writes()
    writes.watch([str(tmp_path)])
    for _ in range(2):
        (tmp_path / "cpu.max").write_text("0")
        assert writes.happened()
        for number in range(100):
            (tmp_path / f"memory.{number}").write_text("0")
        assert not writes.happened()
        assert writes.take()
        assert not writes.happened()
    folder = tmp_path / "crio-1"
    for _ in range(2):  # a removed folder is watched again when it is back
        folder.mkdir()
        writes.watch([str(folder)])
        (folder / "memory.max").write_text("0")
        assert writes.take()
        shutil.rmtree(folder)
        writes.take()
    (tmp_path / "cgroup.procs").write_text("0")
    lost = (-1).to_bytes(4, "little", signed=True) + (0x4000).to_bytes(4, "little") + bytes(8)  # IN_Q_OVERFLOW
    heads = iter([lost])
    monkeypatch.setattr("posix.read", lambda *of: next(heads, None) or os.read(*of))
    assert writes.happened()
    assert writes.take(), "lost events count as a write"
    writes = Writes(raising(OSError(errno.EMFILE, "Too many open files")))
    writes.watch([str(tmp_path)])
    assert (writes.works, writes.happened()) == (False, False)
