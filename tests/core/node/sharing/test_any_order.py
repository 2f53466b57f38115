"""RMIDs that pods share, in any order of events, with kills at each effect."""

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from conftest import examples
from hosts.killed_hook import NEVER, mortal
from hosts.shared_node import RULES, TURNS, Pod, SharedNode
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from resctrl_hooks.core.node.resctrl.renaming import can_rename
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)
NAMESPACES = {"gold": 100, "silver": 50, "": 0, "batch": -10}
PICK = st.integers(0, 5)
EFFECTS = st.one_of(st.just(NEVER), st.just(NEVER), st.integers(0, 60))
"""After how many effects a hook or reconcile is killed."""


class Sharing(RuleBasedStateMachine):
    """The machine."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.since: dict[str, float] = {}
        self.changed = False  # the rules, since the last passes
        self.entered: dict[str, list[int]] = {}
        self.last: dict[str, int] = {}
        self.most = 0.0
        self.stuck: set[str] = set()

    @initialize(
        rmids=st.integers(2, 5),
        by_rank=st.booleans(),
        shares=st.booleans(),
        reserve=st.sampled_from([{}, {"rmids": 1, "above": 50}, {"runtimes": 1}]),
        renames=st.booleans(),
    )
    def begin(self, rmids: int, by_rank: bool, shares: bool, reserve: dict[str, Any], renames: bool) -> None:
        self.rmids, self.by_rank, self.shares, self.renames, self.reserve = rmids, by_rank, shares, renames, reserve
        self.node = SharedNode(self.folder, rmids=rmids)
        self.configure()
        self.node.kernel.refuse_rename = 0 if renames else errno.EPERM
        rename = self.node.kernel.rename

        def refuse(old: str, new: str) -> None:
            if old.rpartition("/")[2] in self.stuck:
                raise OSError(errno.EPERM, "Cannot move a MON group that monitors CPUs", old)
            rename(old, new)

        self.node.kernel.rename = refuse  # type: ignore[method-assign]

    def configure(self) -> None:
        share = {"share": TURNS} if self.shares else {}
        reserve = {"reserve": self.reserve} if self.reserve else {}
        priority = {"priority": RULES if self.by_rank else []} if self.by_rank or self.changed else {}
        self.node.configure(monitoring={**share, **reserve, **priority}, deadlineSeconds=60)

    def teardown(self) -> None:
        try:
            if hasattr(self, "node"):
                for pod in self.living():
                    self.stop(pod)
                self.settle()
                assert self.node.kernel.groups() == set()
                assert self.node.context().ledger.keys() == []
        finally:
            shutil.rmtree(self.folder)

    def living(self) -> list[Pod]:
        return [pod for pod in self.node.pods if pod.pid]

    def pick(self, number: int) -> list[Pod]:
        """Return one living pod, if there is any."""
        living = self.living()
        return [living[number % len(living)]] if living else []

    def holders(self) -> set[str]:
        return {name for _, name in self.node.kernel.groups()}

    def rank(self, key: str) -> int:
        namespaces = {pod.key: pod.namespace for pod in self.node.pods}
        return NAMESPACES[namespaces[key]] if self.by_rank else 0

    @rule(namespace=st.sampled_from([*NAMESPACES]), threads=st.integers(1, 2), effects=EFFECTS)
    def start(self, namespace: str, threads: int, effects: int) -> None:
        before = self.holders()
        started = self.node.start(namespace, threads, effects=effects)
        for pod in self.living():
            if pod.key in before - self.holders() and not self.changed:
                assert NAMESPACES[pod.namespace] < self.rank(started.key), "a pod has yielded to its equal"

    @rule(number=PICK, effects=EFFECTS)
    def start_beside(self, number: int, effects: int) -> None:
        for pod in self.pick(number):
            self.node.start(pod.namespace, effects=effects, beside=pod)

    @rule(number=PICK)
    def end(self, number: int) -> None:
        for pod in self.pick(number):
            self.stop(pod)

    def stop(self, pod: Pod) -> None:
        for pid in self.entered.pop(pod.id, []):
            self.node.kernel.end(pid)
        last = sum(one.key == pod.key for one in self.living()) == 1
        self.node.end(pod, pod_lives=not last)

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.note_waits()
        self.count(seconds)

    def count(self, seconds: float) -> None:
        self.node.kernel.show_counters()  # which counts with the present tasks from now on
        self.most += seconds * len(self.node.kernel.threads.starts) * BYTES_PER_SECOND
        self.node.kernel.now += seconds

    @rule(effects=EFFECTS)
    def reconcile(self, effects: int) -> None:
        self.note_waits()
        before, since = self.holders(), dict(self.since)
        with mortal(effects, self.node.kernel) as seam:
            self.node.reconcile(seam=seam)
        self.note_waits()
        if not self.shares and not self.changed:
            for key in (self.holders() - before) & since.keys():
                others = [since[one] for one in self.since if one in since and self.rank(one) >= self.rank(key)]
                assert since[key] <= min(others, default=since[key]), "a pod was served before one that waits longer"

    def note_waits(self) -> None:
        """Learn since when each pod waits."""
        self.since = {key: self.since.get(key, self.node.kernel.now) for key in self.node.waiting()}

    @rule(number=PICK)
    def spawn(self, number: int) -> None:
        """A process enters a container from outside, in no group."""
        for pod in self.pick(number):
            self.entered.setdefault(pod.id, []).append(self.node.kernel.spawn(pod.cgroup))

    @rule()
    def change_rules(self) -> None:
        self.by_rank, self.changed = not self.by_rank, True
        self.configure()

    @rule(number=PICK, cpus=st.booleans())
    def monitor_cpus(self, number: int, cpus: bool) -> None:
        """A pod's group gets CPUs, so that it cannot be renamed, or loses them."""
        for pod in self.pick(number):
            (self.stuck.add if cpus else self.stuck.discard)(pod.key)

    @rule()
    def read(self) -> None:
        totals = self.node.totals()
        for key, before in self.last.items():
            assert totals.get(key, before) >= before, "a total fell"
        living = {pod.key for pod in self.living()}
        self.last = {key: total for key, total in {**self.last, **totals}.items() if key in living}
        assert sum(totals.values()) <= self.most + self.node.kernel.UNIT, "bytes were counted twice"

    @rule()
    def settle(self) -> None:
        """Reconcile until nothing is in limbo; then all promises are kept."""
        for _ in range(3):
            self.count(2.0)
            report = self.node.reconcile()
            assert not report.events["failed"], report.events["failed"]
        self.changed = False
        # Without renames, an RMID that a turn released is in limbo until the next pass.
        self.released = 0 if self.renames else report.number("handover")
        self.read()
        assert can_rename(self.node.context().monitor) or not self.renames
        self.node.check_settled(records=self.by_rank or self.shares)
        self.check_ranks()

    def check_ranks(self) -> None:
        """No pod waits beside a free RMID, or beside a holder of lower priority."""
        waiting, holders = set(self.node.waiting()), self.holders()
        living = self.living()
        assert holders | waiting == {pod.key for pod in living}, "each pod is counted or waits"
        assert not holders & waiting
        free = self.rmids - 1 - len(self.node.kernel.groups())
        for key in waiting:
            priority = self.rank(key)
            kept = self.reserve.get("runtimes", 0) + self.released
            kept += self.reserve.get("rmids", 0) if priority <= self.reserve.get("above", 0) else 0
            assert free <= kept, f"{key} waits while {free} RMIDs are free"
            lower = [one for one in holders - self.stuck if self.rank(one) < priority]
            assert not lower, f"{key} of priority {priority} waits behind {lower}"
        for pod in living:
            for tid in self.node.kernel.threads.threads(pod.pid):
                assert self.node.kernel.where(tid)[1] == (pod.key if pod.key in holders else "")


Sharing.TestCase.settings = settings(
    max_examples=examples(30), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSharing = Sharing.TestCase
