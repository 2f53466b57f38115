"""The guard, its kernel, other programs, kills and restorations in any order: which values stand, and whose."""

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resctrl_hooks.core.node.host.instance import RunningError
from resctrl_hooks.observe.node.guard import lease as lease_module
from resctrl_hooks.observe.node.guard.lease import GUARD, NAME, LeaseEndedError
from resctrl_hooks.observe.node.guard.recovery import become_owner, restore_ended

from .node import CALM, FULL, Node

THROTTLED = {"bronze": 20, "silver": 50}
"""Classes with their floors."""
RATES = st.sampled_from([FULL, CALM, {"gold": 20.0, "silver": 20.0, "bronze": 40.0}])
NAMES = st.sampled_from(sorted(THROTTLED))
WHEN = st.sampled_from(["before", "after"])


class Killed(BaseException):
    """SIGKILL in the middle of a write."""


class GuardedNode(RuleBasedStateMachine):
    """A node whose guard works, is stopped, killed or ended, while other programs change classes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="rh")
        self.patch = pytest.MonkeyPatch()
        self.node = Node(Host(Path(self.folder.name)))
        self.node.fs.step = 1
        self.node.host.state.mkdir(parents=True)
        self.stopped = 0.0
        self.patch.setattr(lease_module, "boot_time", lambda: 1000.0 + self.node.now + self.stopped)
        self.guard: Any = None
        self.lock = -1
        self.declared = dict.fromkeys(THROTTLED, 100)
        self.changed: set[str] = set()  # classes that others changed since the guard began
        self.foreign = iter(range(99, 20, -1))

    @precondition(lambda self: self.guard is None)
    @rule()
    def begin(self) -> None:
        assert not restore_ended(self.node.context()).failed
        self.lock = become_owner(str(self.node.host.state), GUARD)
        self.guard = self.node.guard(pid=os.getpid())
        self.changed.clear()
        self.node.lines.clear()

    def over(self) -> None:
        os.close(self.lock)
        self.guard, self.lock = None, -1

    @rule(rates=RATES, seconds=st.integers(1, 12))
    def pass_time(self, rates: dict[str, float], seconds: int) -> None:
        there = {name: rate for name, rate in rates.items() if (self.node.root / name).exists()}
        if self.guard is None:
            self.node.now += seconds
            return
        try:
            self.node.pass_time(self.guard, there, seconds)
        except LeaseEndedError:
            assert self.stopped
            assert self.guard.end()
            self.over()

    @precondition(lambda self: self.guard is not None)
    @rule()
    def pressure_lowers_every_class_that_no_other_program_changed(self) -> None:
        self.pass_time(FULL, 60)
        values = {name: self.node.mb(name) for name in THROTTLED}
        if self.guard and not self.changed and None not in values.values():  # without a class the memory is not full
            assert values == {name: min(floor, self.declared[name]) for name, floor in THROTTLED.items()}

    @rule(name=NAMES)
    def other_program_changes_a_value(self, name: str) -> None:
        written = {value for _, value in self.node.fs.writes}
        value = next(one for one in self.foreign if f"MB:0={one}" not in written)
        if self.node.mb(name) is not None:
            (self.node.root / name / "schemata").write_text(f"MB:0={value}\n")
            self.declared[name] = value
            self.changed.add(name)

    @rule(name=NAMES, again=st.booleans())
    def class_is_removed(self, name: str, *, again: bool) -> None:
        shutil.rmtree(self.node.root / name, ignore_errors=True)
        self.declared[name] = 100
        self.changed.add(name)
        if again:
            self.node.add_class(name)

    @rule(name=NAMES, seconds=st.integers(1, 4))
    def values_cannot_be_read(self, name: str, seconds: int) -> None:
        before = self.node.mb(name)
        self.node.fs.unreadable = {name}
        self.pass_time(FULL, seconds)
        self.node.fs.unreadable = set()
        assert self.node.mb(name) == before

    @precondition(lambda self: self.guard is not None)
    @rule()
    def a_write_fails_once(self) -> None:
        # Before it has an effect: the kernel refuses a line before it applies it (Linux, rdtgroup_schemata_write).
        failures = [OSError(24, "Too many open files", "/x")]

        def fail(_: str) -> None:
            if failures:
                raise failures.pop()

        self.node.fs.before = fail
        self.pass_time(FULL, 6)
        self.node.calm()

    @precondition(lambda self: self.guard is not None)
    @rule(number=st.integers(0, 6), when=WHEN)
    def guard_is_killed(self, number: int, when: str) -> None:
        left = [None] * number

        def die(_: str) -> None:
            if not left:
                raise Killed
            left.pop()

        setattr(self.node.fs, when, die)
        with contextlib.suppress(Killed):
            self.pass_time(FULL, 30)
        self.node.calm()
        if self.guard is not None:
            self.over()

    @precondition(lambda self: self.guard is not None)
    @rule(seconds=st.sampled_from([20.0, 59.0, 62.0]), during=st.sampled_from(["", "before", "after"]))
    def guard_is_stopped_and_others_restore(self, seconds: float, during: str) -> None:
        def stop(*_: Any) -> None:
            self.node.calm()
            self.stopped += seconds
            if not self.has_lease():
                return
            is_over = lease_module.boot_time() > self.lease()["deadline"] + 1
            before = self.node.mb("bronze"), self.node.mb("silver")
            try:
                assert restore_ended(self.node.context()).failed == []
            except RunningError as error:
                assert f"the guard is running, process {os.getpid()}" in str(error)  # noqa: PT017
                assert not is_over
                assert before == (self.node.mb("bronze"), self.node.mb("silver"))
            else:
                assert is_over
                assert self.is_declared()
                assert self.has_lease(), "a late write of the owner must be found"

        if during:
            setattr(self.node.fs, during, stop)
            self.pass_time(FULL, 12)
            self.node.calm()
        else:
            stop()
            self.pass_time(FULL, 3)

    @precondition(lambda self: self.guard is not None)
    @rule(seconds=st.integers(12, 20))
    def unknown_load_restores_all(self, seconds: int) -> None:
        path = self.node.root / "gold/mon_data/mon_L3_00/mbm_total_bytes"
        text = path.read_text()
        path.write_text("Unavailable\n")
        self.pass_time({"silver": 1.0}, seconds)
        path.write_text(text)
        assert self.is_declared()

    @precondition(lambda self: self.guard is not None)
    @rule()
    def guard_ends(self) -> None:
        assert self.guard.end()
        self.over()
        assert self.is_declared()
        assert not self.has_lease()

    @precondition(lambda self: self.guard is None)
    @rule()
    def values_of_an_ended_guard_are_restored(self) -> None:
        result = restore_ended(self.node.context())
        assert result.failed == []
        assert self.is_declared()
        assert not self.has_lease()
        assert restore_ended(self.node.context()).done == []

    def has_lease(self) -> bool:
        return (self.node.host.state / NAME).exists()

    def lease(self) -> Any:
        return json.loads((self.node.host.state / NAME).read_text())

    def is_declared(self) -> bool:
        return all(self.node.mb(name) in (None, value) for name, value in self.declared.items())

    @invariant()
    def guard_changes_only_what_its_lease_has_and_within_the_limits(self) -> None:
        assert self.node.limit("") == self.node.limit("gold") == "MB:0=100"
        for name, declared in self.declared.items():
            now = self.node.mb(name)
            if now not in (None, declared):
                lease = self.lease()
                assert min(THROTTLED[name], declared) <= now <= declared
                assert name not in self.changed or lease["declared"][name] == {"0": declared}
                assert lease["deadline"] > 0
        if not self.changed:
            assert not any("another program" in line for line in self.node.lines)

    def teardown(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
        self.patch.undo()
        self.folder.cleanup()


TestGuardedNode = GuardedNode.TestCase
TestGuardedNode.settings = settings(max_examples=20, stateful_step_count=16, deadline=None)
pytestmark = pytest.mark.hypothesis
