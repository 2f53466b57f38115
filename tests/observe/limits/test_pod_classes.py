"""Pods that are kept in another RDT class for a time: after any order of events and kills, all tasks are back.

Containers and processes start meanwhile, classes are removed, another program moves the pod.
"""

from __future__ import annotations

import errno
import tempfile
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hosts.killed_hook import Doomed, Killed
from hosts.monitored import KEYS, monitored_host
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from resctrl_hooks.core.inventory.records import classes_of
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile import forks as forks_module
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import serve
from resctrl_hooks.observe.limits.classes import ChosenClass
from resctrl_hooks.observe.limits.limiter import Limiter
from resctrl_hooks.observe.limits.planner import Plan
from resctrl_hooks.observe.node.slowdown.case import Culprit
from resctrl_hooks.observe.node.slowdown.causes.cause import Cause
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES
from resctrl_hooks.observe.node.temporary import entry as entry_module
from resctrl_hooks.observe.node.temporary import file as file_module
from resctrl_hooks.observe.node.temporary import store as store_module
from resctrl_hooks.observe.node.temporary.address import POD, Address
from resctrl_hooks.observe.node.temporary.entry import GRACE
from resctrl_hooks.observe.node.temporary.store import Store
from resctrl_hooks.observe.slowdown.advice import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts.cluster import Cluster
    from hosts.monitored import MonitoredHost

HOUSES = ("lab",)
POD_0, POD_1, POD_2 = "shop/web-0", "shop/web-1", "shop/web-2"
SECONDS = 10.0
KILL = st.just(0) | st.integers(1, 20)
CLASSES = ("gold", "silver", "bronze", "copper")
MADE = "limit-gold-mb30"
HOME = ""
"""The goal while the pod is not limited; `UNKNOWN` after a kill."""
UNKNOWN = "?"


def new_cluster(root: Path) -> Cluster:
    from hosts.cluster import Cluster  # noqa: PLC0415 - it needs lab, which can be missing

    made = Cluster(root)
    made.add_class(*CLASSES)
    return made


class Limits(Doomed, RuleBasedStateMachine):
    """One pod of class gold, and the command, which can be killed or interrupted before each of its effects."""

    RENAMES = True

    def __init__(self) -> None:
        super().__init__()
        from hosts.cluster import POD as KEY  # noqa: PLC0415

        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.cluster = new_cluster(Path(self._folder.name))
        self.kernel = self.cluster.kernel
        self.key, self.address = KEY, Address(POD, KEY, "class")
        self.now, self.numbers = 1000.0, count(1)
        self.runs = False
        self.forks: list[str] = []
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(store_module, "boot_time", lambda: self.now)
        self._patch.setattr(entry_module, "lives", lambda *_: self.runs)
        self._patch.setattr(forks_module, "time", SimpleNamespace(sleep=self.pause, monotonic=lambda: 0))
        self._patch.setattr(forks_module, "may_fork", lambda *_: bool(self.forks))
        effects: list[tuple[Any, str]] = [(self.kernel, name) for name in ("write", "rename", "mkdir", "rmdir")]
        effects += [(Ledger, name) for name in ("write_pod", "write_member")]
        for owner, name in (*effects, (file_module, "write_file"), (file_module, "remove_file")):
            self._patch.setattr(owner, name, self.doomed(getattr(owner, name)))
        if not self.RENAMES:
            self._patch.setattr(self.kernel, "rename", self._refuse)
        self.containers: dict[str, int] = {}
        self.homes: dict[int, str] = {}
        self.moved: set[int] = set()
        self.goal = HOME
        self.shared: object = None

    @initialize(rdt_class=st.sampled_from(["gold", "bronze"]), threads=st.integers(1, 2), shared=st.booleans())
    def populate(self, rdt_class: str, threads: int, shared: bool) -> None:
        """Start two containers, the first one in a group that another program has created."""
        if shared:
            self.kernel.mkdir(f"{self.cluster.host.resctrl}/gold/mon_groups/{self.key}")
            self.shared = self.kernel.model.classes["gold"].monitored[self.key]
        self.start("gold", 1)
        self.start(rdt_class, threads)

    def teardown(self) -> None:
        self._patch.undo()
        self._folder.cleanup()

    def _refuse(self, old: str, new: str) -> None:
        raise PermissionError(errno.EPERM, "Linux 6.1", old)

    @contextmanager
    def command(self, kill: int, *, interrupted: bool, forks: list[str]) -> Iterator[None]:
        """Run a command until it ends, during ``forks`` in these classes; without a `goal` then unless it sets one."""
        self.forks = forks
        self.left, self.interrupted, self.runs, self.goal = kill, interrupted, True, UNKNOWN
        try:
            yield
        except Killed:
            pass
        finally:
            self.left, self.runs, self.forks = 0, False, []

    def pause(self, _: float) -> None:
        """Finish a fork that the kernel had begun before the tasks moved: the child has the former class."""
        if self.forks:
            self.homes[self.kernel.fork_late(self.cgroup(), self.forks.pop(), self.key)] = "gold"

    def cgroup(self) -> str:
        """Return the cgroup of the first container."""
        pid = next(iter(self.containers.values()))
        return (self.cluster.host.proc / str(pid) / "cgroup").read_text().strip().removeprefix("0::")

    def store(self) -> Store:
        return Store(self.cluster.context())

    def check(self, *group: str) -> None:
        """Check that all threads are in the intended classes, or also in this group there."""
        goals = {pid: home if pid in self.moved else self.goal or home for pid, home in self.homes.items()}
        leaders = self.kernel.threads.leaders.items()
        found = {tid: self.kernel.where(tid)[: 1 + len(group)] for tid, _ in leaders}
        assert found == {tid: (goals[pid], *group) for tid, pid in leaders}

    @property
    def limited(self) -> bool:
        return bool(self.store().entries())

    @rule(rdt_class=st.sampled_from(["gold", "bronze"]), threads=st.integers(1, 3))
    def start(self, rdt_class: str, threads: int) -> None:
        """Start a container, by its runtime in the class in which the container is meant to be."""
        if len(self.containers) < 3:
            id_, pid = self.cluster.start(next(self.numbers), rdt_class=rdt_class, threads=threads)
            self.containers[id_], self.homes[pid] = pid, rdt_class

    @precondition(lambda self: len(self.containers) > 1)
    @rule()
    def end(self) -> None:
        id_, pid = self.containers.popitem()
        self.cluster.end(id_, pid)
        del self.homes[pid]

    @precondition(lambda self: len(self.containers) > 1 and self.goal in ("silver", MADE))
    @rule()
    def move(self) -> None:
        """Let another program move a container, which stays where it is then."""
        pid = list(self.containers.values())[-1]
        for tid in self.kernel.threads.threads(pid):
            self.kernel.write(f"{self.cluster.host.resctrl}/copper/tasks", b"%d\n" % tid)
        self.homes[pid] = "copper"
        self.moved.add(pid)

    @rule(watched=st.booleans())
    def enter(self, watched: bool) -> None:
        """Enter a container, as `exec` of its runtime does: in its first class, in no group."""
        new = self.kernel.spawn(self.cgroup(), rdt_class="gold")
        self.homes[new] = "gold"
        if watched:
            context = self.cluster.context()
            with nullcontext() if self.is_known else suppress(HookError):  # a refused move is left to reconcile
                serve(context, Containers(context.ledger), new)
            assert not self.is_known or self.kernel.where(new) == (self.goal or "gold", self.key)

    @property
    def is_known(self) -> bool:
        """Whether it is known where the pod should be."""
        return self.goal in self.kernel.model.classes or self.goal == HOME

    @precondition(lambda self: not self.limited and "copper" not in self.homes.values())
    @rule(goal=st.sampled_from(["silver", MADE]), kill=KILL, interrupted=st.booleans(), forks=st.integers(0, 2))
    def limit(self, goal: str, kill: int, interrupted: bool, forks: int) -> None:
        self.kernel.now += 3  # freed RMIDs leave limbo
        before, was_there = self.rmids(), goal == MADE or goal in self.kernel.model.classes
        pod: Any = SimpleNamespace(name="shop/cart", key=self.key)
        plan = Plan({self.address: goal}, ChosenClass(goal, ("MB:0=30",)) if goal == MADE else None)
        with self.command(kill, interrupted=interrupted, forks=["gold"] * forks):
            with nullcontext() if was_there else pytest.raises(HookError):
                Limiter(self.cluster.context()).limit(pod, plan, SECONDS, "a test")
            self.goal = goal if was_there else HOME
            self.moved.clear()
            self.check()
            renamed = self.RENAMES and not self.shared and len({*self.homes.values()}) == 1
            assert not renamed or self.rmids() == before

    def rmids(self) -> set[int]:
        """Return the identities of the pod's groups, which a rename keeps."""
        return {
            id(group)
            for parent in self.kernel.model.all_classes()
            for name, group in parent.monitored.items()
            if name == self.key
        }

    @precondition(lambda self: self.kernel.model.classes.keys() & {"silver", MADE})
    @rule(name=st.sampled_from(["silver", MADE]))
    def remove_class(self, name: str) -> None:
        if name in self.kernel.model.classes:
            self.kernel.rmdir(f"{self.cluster.host.resctrl}/{name}")
            self.kernel.now += 3

    @precondition(lambda self: self.limited)
    @rule(kill=KILL, interrupted=st.booleans(), forks=st.integers(0, 2))
    def unlimit(self, kill: int, interrupted: bool, forks: int) -> None:
        limited_to = self.goal
        in_classes = [self.goal] * forks if self.goal in self.kernel.model.classes else []
        with self.command(kill, interrupted=interrupted, forks=in_classes):
            store = self.store()
            for name in store.entries():
                store.end(name)
            self.is_back()
        if any(one.record["end"] for one in self.store().entries().values()):
            self.goal = limited_to  # ended before its first effect

    @precondition(lambda self: self.limited)
    @rule(by=st.sampled_from(["store", "reconcile"]))
    def time_passes(self, by: str) -> None:
        self.now += SECONDS + GRACE + 1
        if by == "store":
            self.store().restore_over()
            self.is_back()
        else:
            self.reconcile()

    def is_back(self) -> None:
        self.goal = HOME
        assert not self.limited
        record = self.cluster.pod_record()
        assert not record.keys() & {"limitedTo", "limitedFrom"}
        assert MADE not in self.kernel.model.classes
        self.check()
        assert self.shared in (None, self.kernel.model.classes["gold"].monitored.get(self.key))

    @rule()
    def reconcile(self) -> None:
        self.cluster.reconcile()
        if not self.is_known or self.goal == HOME or not self.limited:  # also if the class is gone
            self.is_back()
        if self.is_known:
            self.check(self.key)


class LimitsWithoutRename(Limits):
    """The same on Linux before 6.5: a second group counts on."""

    RENAMES = False


TestLimits = Limits.TestCase
TestLimitsWithoutRename = LimitsWithoutRename.TestCase
TestLimits.settings = TestLimitsWithoutRename.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, phases=[Phase.generate]
)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a host with a pod, on a simulated node that can have one more class."""
    from resctrl_hooks.lab.simulation.mount import mounted  # noqa: PLC0415 - as above

    with mounted(tmp_path / "sim", rmids=16, closids=3, l3_domains=1) as root, monitored_host(tmp_path, root) as made:
        made.pod(0, "web-0", processes=2)
        made.pod(1, "web-1")
        (made.resctrl / "gold").mkdir()
        (made.resctrl / "gold/schemata").write_text("MB:0=50\n")
        yield made


def test_class_is_created_for_a_limit_shared_by_others_and_removed(host: MonitoredHost) -> None:
    group = (host.resctrl / "mon_groups" / KEYS[0]).stat().st_ino
    made = host.resctrl / "limit-root-mb30"
    assert (
        "would be limited for 30m: class / -> limit-root-mb30"
        in host.run("limit", POD_0, "--mb", "30", "--dry-run").output
    )
    assert not made.exists()
    for pod in (POD_0, POD_1):
        done = host.run("limit", pod, "--mb", "30")
        assert done.exit_code == 0, done.output
    assert "MB:0=30" in (made / "schemata").read_text()
    moved = made / "mon_groups" / KEYS[0]
    assert moved.stat().st_ino == group
    assert len(moved.joinpath("tasks").read_text().split()) == 2
    for pod, there in ((POD_0, True), (POD_1, False)):
        assert "restored the class of pod" in host.run("unlimit", pod).output
        assert made.exists() is there
    assert (host.resctrl / "mon_groups" / KEYS[0]).stat().st_ino == group


def test_limit_uses_a_class_with_its_values_and_names_the_classes_if_no_closid_is_free(host: MonitoredHost) -> None:
    assert host.run("limit", POD_0, "--mb", "50").exit_code == 0
    assert (host.resctrl / "gold/mon_groups" / KEYS[0]).is_dir()
    (host.resctrl / "silver").mkdir()
    done = host.run("limit", POD_1, "--mb", "30")
    assert done.exit_code == 1
    assert "limit to one of these with --class: gold, silver" in " ".join(done.output.split())
    assert "there are gold, silver" in host.run("limit", POD_1, "--class", "glod").output
    assert host.run("limit", POD_1, "--class", "silver").exit_code == 0
    assert "`limit` of" in host.run("limit", POD_1, "--class", "gold").output
    assert host.run("unlimit", "--all").exit_code == 0
    assert {one.name for one in (host.resctrl / "mon_groups").iterdir()} == {*KEYS[:2]}


BOTH = f"{POD_0} {POD_1}"


@pytest.mark.parametrize(
    "cause, wanted, classes, silver, commands",
    [
        ("memory-bandwidth", "0.35", "//", "", [f"{BOTH} --mb 30"]),
        ("memory-bandwidth", "0.01", "//", "", [f"{BOTH} --mb 10"]),
        ("memory-bandwidth", "0.35", "//", "MB:0=10", [f"{BOTH} --class silver"]),
        ("memory-bandwidth", "0.35", "//", "MB:0=40", []),
        ("memory-bandwidth", "0.35", "/ gold", "", [f"{POD_0} --mb 30"]),  # the second needs a CLOSID, too
        ("memory-bandwidth", "0.7", "/ gold", "MB:0=30", [f"{POD_0} --class gold", f"{POD_2} --mb 30"]),
        ("memory-bandwidth", "0.35", "mixed /", "MB:0=10", [f"{BOTH} --class silver"]),
        ("memory-bandwidth", "0.35", "mixed /", "", []),
        ("memory-bandwidth", "0.35", "limited /", "", [f"{POD_1} --mb 30"]),
        ("l3-cache", "", "//", "", [f"{BOTH} --l3 8%"]),
        ("l3-cache", "", "//", "MB:0=10", []),
    ],
)
def test_diagnose_prints_the_limits_that_limit_does(
    host: MonitoredHost, cause: str, wanted: str, classes: str, silver: str, commands: list[str]
) -> None:
    keys = [KEYS[0], host.pod(2, "web-2", rdt_class="gold")] if "gold" in classes else KEYS[:2]
    if "mixed" in classes:
        host.pod(0, "web-0", rdt_class="gold")
    if "limited" in classes:
        assert host.run("limit", POD_0, "--mb", "30").exit_code == 0
    if silver:  # the last CLOSID
        (host.resctrl / "silver").mkdir()
        (host.resctrl / "silver/schemata").write_text(f"{silver}\n")
    context = host.context
    names = dict(zip(KEYS, (POD_0, POD_1, POD_2), strict=False))
    facts = facts_of(context, names, classes_of(context))._replace(key="victim")
    culprits = tuple(Culprit(key, 0.4, None) for key in keys)
    found = Cause(cause, "supported", "", culprits, values={"mb": f"{wanted} 1e9"})
    remedies = [*CAUSES[cause].remedies(found, facts)]
    assert [one.command for one in remedies if one.command] == [f"resctrl-hook limit {one}" for one in commands]
    limited = " ".join(commands)
    assert any("`limit` refuses" in one.text for one in remedies) is any(names[key] not in limited for key in keys)
    for one in commands:
        done = host.run("limit", *one.split())
        assert done.exit_code == 0, done.output
