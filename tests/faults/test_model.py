"""A node on which containers, hooks, groups and records change in any order, with its invariants.

At every moment the groups and values of other programs stay. After a reconcile, all threads are in their pods' groups,
each group has an owner that lives, another pass changes nothing, and no total falls. In the end nothing is left of any
container. Hooks, reconcile and the exec watcher are also killed at any effect, or get an error from any call.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import examples
from hosts.killed_hook import NEVER, Interruption, interrupted
from hosts.node import Container, Node, pod_number
from hosts.simulated_kernel import ROOT_CALLER, Kernel
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resctrl_hooks.core.node.lifecycle import reap
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.sharing import runtimes
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import MOVED, serve
from resctrl_hooks.errors import BadClassError, HookError, NotMountedError

HOUSES = ("lab",)
pytestmark = pytest.mark.no_cover
PODS = [pod_number(number) for number in range(4)]
CLASSES = ["", "gold", "silver"]
POD, CLASS = st.sampled_from(PODS), st.sampled_from(CLASSES)
RMIDS = 8
INTERRUPTIONS = st.one_of(
    st.builds(Interruption, st.integers(0, 12)),  # most hooks have no more effects
    st.builds(Interruption, st.integers(0, 150), st.sampled_from(["EIO", "ENOSPC"])),
)
HOOK = st.just(Interruption()) | INTERRUPTIONS
CALLED = st.sampled_from([None, Interruption()]) | INTERRUPTIONS
"""None: the program does not run."""
LATER_FIELDS = ("names", "identities", "born", "since")
"""Fields of a pod's record that version 0.2.0 does not write."""
RECORDS = ("pods/", "containers/", "idle/", "waiting/", "rmids/", "changing/")
LIVING = precondition(lambda self: self.living())
AT_ONCE = st.sampled_from([True, True, False])  # whether reconcile comes next, or something else may


class NodeLife(RuleBasedStateMachine):
    """A node on which anything may happen in any order."""

    monitoring: ClassVar[dict[str, Any]] = {}
    rmids = RMIDS
    reserved = 0

    def __init__(self) -> None:
        super().__init__()
        # Next to the other tests' files, which `./dev tests` keeps in memory: a busy disk has stalled this for minutes.
        self.folder = tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        kernel = partial(Kernel, rmids=self.rmids)
        self.node = Node(Path(self.folder), kernel=kernel, monitoring=self.monitoring)
        self.kernel: Kernel = self.node.kernel
        self.containers: dict[str, Container] = {}
        self.buried: list[Container] = []
        self.foreign: set[tuple[str, str]] = set()
        self.read: dict[str, float] = {}
        self.strangers: set[int] = set()
        self.schemata: dict[str, int] = {}
        self.watcher = Containers(self.node.context().ledger)
        self.made, self.boots = 0, 1
        self.node.add_class(*CLASSES[1:])

    def teardown(self) -> None:
        try:
            for pod in PODS:
                self.end_pod(pod)
            shutil.rmtree(self.node.crun, ignore_errors=True)
            self.containers.clear()
            self.reconcile()
            assert self.kernel.groups() == self.foreign
            assert [name for name in self.node.records() if name.startswith(RECORDS)] == []
        finally:
            shutil.rmtree(self.folder)

    def living(self) -> list[Container]:
        return [container for container in self.containers.values() if container.pids]

    def one_of_the_living(self, data: st.DataObject) -> Container:
        return data.draw(st.sampled_from(self.living()))

    def namespace(self, _pod: str) -> str:
        return "shop"

    def interrupt(self, interruption: Interruption, work: Callable[[Any], object]) -> None:
        """Do something that is given the seam to the kernel, and may be interrupted."""
        interruption.count = 0
        if interruption.at < NEVER:
            self.forget_vanished()  # a hook killed between record and group leaves what looks like a removal
        try:
            with interrupted(interruption, self.kernel) as seam:
                work(seam)
        except (HookError, OSError):
            assert interruption.error, "there was no error"

    def release_idle(self, seam: Any) -> None:
        """Release what hooks have left idle, as each hook does in the end."""
        context = self.node.context(seam)
        reap(context, context.ledger.marked("idle"))

    # Actions of runtimes

    @rule(pod=POD, rdt_class=CLASS, threads=st.integers(1, 3), hook=CALLED, dies=st.booleans(), at_once=AT_ONCE)
    def begin(
        self, pod: str, rdt_class: str, threads: int, hook: Interruption | None, dies: bool, at_once: bool
    ) -> None:
        """Start a container; if its hook is interrupted, it may also die."""
        if rdt_class not in ("", *self.kernel.model.classes):
            rdt_class = ""
        self.made += 1
        notes = {"io.kubernetes.pod.namespace": self.namespace(pod)}
        linux = {"intelRdt": {"closID": rdt_class}} if rdt_class else {}
        container = Container(f"{self.made:064x}", pod, notes, linux)
        container.rdt_class = rdt_class
        self.containers[container.id] = container
        self.launch(container, threads, hook)
        if hook and hook.happened and dies:
            self.node.end(container)
        self.repair(hook, at_once=at_once)

    def launch(self, container: Container, threads: int, interruption: Interruption | None) -> None:
        def hook(seam: Any) -> None:
            self.node.serve(container, seam)
            self.release_idle(seam)

        self.node.spawn(container, threads, container.rdt_class)
        if interruption:
            self.interrupt(interruption, hook)
        self.node.appear(container)

    def repair(self, interruption: Interruption | None, *, at_once: bool) -> None:
        """Reconcile at once after an interruption."""
        if interruption and interruption.happened and at_once:
            self.reconcile()

    @LIVING
    @rule(data=st.data(), threads=st.integers(1, 2), hook=HOOK, at_once=AT_ONCE)
    def restart_with_same_id(self, data: st.DataObject, threads: int, hook: Interruption, at_once: bool) -> None:
        container = self.one_of_the_living(data)
        if container.rdt_class in ("", *self.kernel.model.classes):
            self.node.end(container)
            self.launch(container, threads, hook)
        self.repair(hook, at_once=at_once)

    @LIVING
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.node.end(self.one_of_the_living(data))

    @LIVING
    @rule(data=st.data(), hook=HOOK, pod_ends=st.booleans(), at_once=AT_ONCE)
    def stop(self, data: st.DataObject, hook: Interruption, pod_ends: bool, at_once: bool) -> None:
        container = self.one_of_the_living(data)
        self.node.end(container)
        if pod_ends and hook.at < NEVER:
            self.end_pod(container.key)
        self.poststop(container, hook)
        self.buried.append(self.containers.pop(container.id))
        self.repair(hook, at_once=at_once)

    def poststop(self, container: Container, interruption: Interruption) -> None:
        """The runtime has deleted a container; its hook may be interrupted."""

        def hook(seam: Any) -> None:
            self.node.poststop(container.id, seam)
            self.release_idle(seam)

        self.interrupt(interruption, hook)

    @precondition(lambda self: self.buried or len(self.containers) > len(self.living()))
    @rule(data=st.data())
    def late_or_second_poststop(self, data: st.DataObject) -> None:
        gone = [*self.buried, *(each for each in self.containers.values() if not each.pids)]
        container = data.draw(st.sampled_from(gone))
        self.poststop(container, Interruption())
        self.containers.pop(container.id, None)

    @rule(pod=POD)
    def end_pod(self, pod: str) -> None:
        for container in self.living():
            if container.key == pod:
                self.node.end(container)
        shutil.rmtree(self.node.cgroup / f"kubepods/pod{pod}", ignore_errors=True)
        self.read.pop(pod, None)

    @LIVING
    @rule(data=st.data(), watched=CALLED)
    def enter_by_exec(self, data: st.DataObject, watched: Interruption | None) -> None:
        container = self.one_of_the_living(data)
        rdt_class, group = self.kernel.where(container.pids[0])
        pid = self.kernel.spawn(container.cgroup, 1, rdt_class)
        container.pids.append(pid)
        outcomes: list[str] = []

        def watch(seam: Any) -> None:
            try:
                outcomes.append(serve(self.node.context(seam), self.watcher, pid).what)
            except HookError:  # without an injected one, because another program removed the recorded group
                if (rdt_class, container.key) in {(where, name[-36:]) for where, name in self.kernel.groups()}:
                    raise

        if watched:
            self.interrupt(watched, watch)
        if MOVED in outcomes:
            assert self.kernel.where(pid)[1][-36:] == container.key
        elif group[-36:] == container.key and watched and not watched.happened:
            assert (rdt_class, group) not in self.owned() or not self.recorded(container), outcomes

    def recorded(self, container: Container) -> bool:
        member = self.node.context().ledger.read_member(container.key, container.id)
        return member is not None and member.get("pid") == container.pids[0]

    # Actions of other programs

    @rule(data=st.data())
    def plant_a_process(self, data: st.DataObject) -> None:
        """Another program writes a process of its own into a pod's group."""
        groups = sorted(self.kernel.groups())
        if groups:
            rdt_class, name = data.draw(st.sampled_from(groups))
            self.strangers.add(self.kernel.spawn("/system.slice/cron", 1, rdt_class, name))

    @precondition(lambda self: self.kernel.model.classes)
    @rule(data=st.data(), percent=st.sampled_from([50, 100]))
    def write_schemata(self, data: st.DataObject, percent: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.kernel.model.classes)))
        self.kernel.write(f"{self.node.resctrl}/{name}/schemata", f"MB:0={percent}\n".encode())
        self.schemata[name] = percent

    @rule(data=st.data())
    def foreign_group(self, data: st.DataObject) -> None:
        rdt_class = data.draw(st.sampled_from(["", *self.kernel.model.classes]))
        name = data.draw(st.sampled_from(["pqos", *PODS]))
        try:
            self.kernel.mkdir(str(self.node.resctrl / rdt_class / "mon_groups" / name))
        except OSError:
            return
        # Recorded groups are ours, also if they were created again after CRI-O's prune, or in place of a hook that was
        # killed just before.
        if (rdt_class, name) not in self.owned():
            self.foreign.add((rdt_class, name))

    @rule()
    def prune_as_crio_does(self) -> None:
        for rdt_class, name in self.kernel.groups():
            group = self.kernel.model.classes.get(rdt_class, self.kernel.model.root).monitored[name]
            if not self.kernel.model.tasks.of(group):
                self.kernel.model.remove(group)
                self.foreign.discard((rdt_class, name))
        self.kernel.sync()

    @precondition(lambda self: self.kernel.model.classes)
    @rule(data=st.data())
    def remove_class(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.kernel.model.classes)))
        self.kernel.rmdir(f"{self.node.resctrl}/{name}")
        self.schemata.pop(name, None)
        self.foreign = {group for group in self.foreign if group[0] != name}

    @rule(name=st.sampled_from(CLASSES[1:]))
    def make_class(self, name: str) -> None:
        with suppress(OSError):
            self.node.add_class(name)

    @LIVING
    @rule(data=st.data())
    def change_class(self, data: st.DataObject) -> None:
        container = self.one_of_the_living(data)
        group = data.draw(st.sampled_from(self.kernel.model.all_classes()))
        for pid in container.pids:
            for tid in self.kernel.threads.threads(pid):
                self.kernel.model.write_tasks(group, f"{tid}\n", ROOT_CALLER)
        self.kernel.show_tasks()

    @rule()
    def remount(self) -> None:
        classes = list(self.kernel.model.classes)
        self.kernel.end_groups()
        self.kernel.sync()
        self.node.add_class(*classes)
        self.kernel.show_tasks()
        self.foreign, self.schemata = set(), {}
        self.forget_vanished()

    def forget_vanished(self) -> None:
        """Let the next removal be the first: reconcile waits a minute after the second one (test_groups.py)."""
        (self.node.state / "vanished").unlink(missing_ok=True)

    @rule(keep=st.booleans())
    def reboot(self, keep: bool) -> None:
        self.boots += 1
        self.kernel.boot(self.boots)
        for container in self.containers.values():
            container.pids = []
        shutil.rmtree(self.node.cgroup / "kubepods", ignore_errors=True)
        shutil.rmtree(self.node.crun, ignore_errors=True)
        if not keep:
            shutil.rmtree(self.node.state, ignore_errors=True)
        self.foreign, self.strangers, self.schemata, self.read = set(), set(), {}, {}
        self.node.add_class(*CLASSES[1:])

    @rule(seconds=st.sampled_from([0.1, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.kernel.now += seconds
        self.read_counters()

    @rule()
    def read_counters(self) -> None:
        self.kernel.now += 1
        self.kernel.show_counters()
        try:
            readings = self.node.context().monitor.read_all()
        except (NotMountedError, BadClassError):
            return
        for pod in PODS:
            if any(container.key == pod for container in self.living()) and pod in readings:
                total = sum(one.value or 0 for one in readings[pod] if one.counter.name == "mbm_total_bytes")
                assert total >= self.read.get(pod, 0), f"the count of {pod} went back"
                self.read[pod] = total

    # Actions of this program

    @rule()
    def dry_run(self) -> None:
        before = (self.kernel.groups(), self.node.records())
        self.node.reconcile(Options(dry_run=True))
        assert (self.kernel.groups(), self.node.records()) == before

    @rule(interruption=INTERRUPTIONS, at_once=AT_ONCE)
    def interrupted_reconcile(self, interruption: Interruption, at_once: bool) -> None:
        self.interrupt(interruption, lambda seam: self.node.reconcile(seam=seam))
        if at_once:
            self.reconcile()

    @rule(prefix=st.sampled_from(["", "rh-"]))
    def change_prefix(self, prefix: str) -> None:
        self.node.reconcile()  # records of version 0.2.0 get names; test_interruptions has both changes at once
        self.node.configure(monitoring=self.monitoring, groupPrefix=prefix)

    @rule()
    def upgrade(self) -> None:
        """Leave records as version 0.2.0 writes them, which knows no prefix."""
        ledger = self.node.context().ledger
        for key in ledger.keys():  # noqa: SIM118  # it is no dictionary
            record: Any = ledger.read_pod(key) or {}
            if {*record.get("names", {}).values()} == {key} and not self.node.context().monitor.group_prefix:
                for name in LATER_FIELDS:
                    record.pop(name, None)
                ledger.write_pod(key, record)

    @rule()
    def reconcile(self) -> None:
        self.kernel.now += 2  # nothing is in limbo
        before = [] if self.node.marked() else self.groups_of_the_living()
        self.node.reconcile()
        assert len(before) <= len(self.groups_of_the_living()), "a group of a living pod is released for no pod"
        self.kernel.now += 2
        report = self.node.reconcile()
        assert not report.events["failed"], report.events["failed"]
        waiting = {*report.events["waiting"], *report.events["queued"]}
        wanting = {container.key for container in self.living()}
        if waiting:
            kept = self.reserved + runtimes.reserved(self.node.context())
            assert 1 + len(self.kernel.model.classes) + len(self.kernel.groups()) >= self.rmids - kept, (
                "a pod waits although an RMID is free"
            )
            assert self.unneeded_groups() == set(), "a pod waits although another one does not need a group"
        self.check_order(waiting)
        for container in self.living():
            for where in self.node.places(container):
                assert where[1][-36:] == container.key or container.key in waiting, (container.pids, where)
        owned = self.owned()
        for rdt_class, name in self.kernel.groups() - self.foreign:
            assert (rdt_class, name) in owned, f"{rdt_class}/{name} has no owner"
            assert (self.node.cgroup / f"kubepods/pod{name[-36:]}").is_dir(), f"{name} has ended, its group has not"
        for pod in wanting - waiting:
            assert any(name[-36:] == pod for _, name in self.kernel.groups())
        for pid in self.strangers:
            where = self.kernel.where(pid)
            assert where not in owned or where[1][-36:] not in wanting, "a process of others is in a pod's group"
        assert not self.node.reconcile().changed or waiting
        self.read_counters()

    def groups_of_the_living(self) -> list[tuple[str, str]]:
        living = {container.key for container in self.living()}
        return [group for group in self.kernel.groups() if group[1][-36:] in living]

    def unneeded_groups(self) -> set[tuple[str, str]]:
        """Return the groups of pods with containers in which no container is, belongs, or may still start."""
        ledger = self.node.context().ledger
        needed = {(self.kernel.where(pid)[0], one.key) for one in self.living() for pid in one.pids}
        for id_ in ledger.containers():
            key = ledger.key_of(id_)
            member = ledger.read_member(key, id_) or {}
            needed |= {(step["needs"].get("class", ""), key) for step in member.get("steps", [])}
        groups = {(name, group[-36:]) for name, group in self.groups_of_the_living() if (name, group) in self.owned()}
        used = {(name, group[-36:]) for name, group in map(self.kernel.where, self.strangers)}
        return groups - needed - used

    def check_order(self, waiting: set[str]) -> None:
        """Check the invariants of counted and waiting pods after a reconcile."""

    def owned(self) -> set[tuple[str, str]]:
        """Return the recorded groups: class and key."""
        return {
            (group.rdt_class, os.path.basename(group.path))
            for group in self.node.context().monitor.list()
            if group.origin != "shared"
        }

    @invariant()
    def foreign_groups_stay(self) -> None:
        assert self.foreign <= self.kernel.groups()

    @invariant()
    def foreign_schemata_stay(self) -> None:
        for name, percent in self.schemata.items():
            if name in self.kernel.model.classes:
                assert f"MB:0={percent}".encode() in self.kernel.read(f"{self.node.resctrl}/{name}/schemata")


class SharedNodeLife(NodeLife):
    """The same where pods take RMIDs of others, by their priorities and in turns."""

    monitoring: ClassVar[dict[str, Any]] = {
        "priority": [{"namespaces": ["gold"], "value": 10}],
        "reserve": {"rmids": 1, "above": 0, "runtimes": 0},
        "share": {"interval": 0.001, "atLeast": 0.0},
    }
    rmids = 6  # three for pods, in addition to the root's and the two classes'
    reserved = 1

    def namespace(self, pod: str) -> str:
        return "gold" if pod == PODS[0] else "shop"

    def check_order(self, waiting: set[str]) -> None:
        if PODS[0] in waiting:
            assert {key for _, key in self.owned()} <= {PODS[0]}, "a pod of lower priority is counted, this one waits"
        assert set(self.node.marked()) == waiting


class ReservingNodeLife(SharedNodeLife):
    """The same with the default reserve for runtimes, which follows from the containers with classes."""

    monitoring: ClassVar[dict[str, Any]] = {**SharedNodeLife.monitoring, "reserve": {"rmids": 1, "above": 0}}
    rmids = 7  # one more, for runtimes


NodeLife.TestCase.settings = settings(
    max_examples=examples(30), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
SharedNodeLife.TestCase.settings = settings(NodeLife.TestCase.settings, max_examples=examples(20))
ReservingNodeLife.TestCase.settings = settings(NodeLife.TestCase.settings, max_examples=examples(10))
TestNodeLife = NodeLife.TestCase
TestSharedNodeLife = SharedNodeLife.TestCase
TestReservingNodeLife = ReservingNodeLife.TestCase
