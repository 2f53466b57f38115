"""Programs that use the library on one state directory: with other prefixes and spellings of keys, and in any order."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from accounting.accounts import PREFIXES, Accounts, sums
from accounting.counts import AT, CLASS, ERROR
from accounting.kernel import CountedKernel
from accounting.node import CLASSES, ERRORS, Program
from accounting.trouble import Trouble, install_clock, troubled
from accounting.truth import Counts
from resctrl_hooks import Monitor
from resctrl_hooks.core.node.resctrl.counter_totals import ended
from resctrl_hooks.errors import HookError, NotMountedError, NotTrackedError

KEYS = ["a", "A", "b", "B"]
KEY = st.sampled_from(KEYS)
WHICH = st.integers(0, 2)
"""The number of a program: the first takes keys as they are, the others make them lower case."""
RMIDS = 12
CHANGE = st.sampled_from(["mkdir", "rmdir", "rename"])
TROUBLE = ERROR | st.tuples(AT, st.just(1), st.tuples(CHANGE | st.just("start"), KEY, CLASS, WHICH))


class Jobs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.host = Host(self.folder)
        self.kernel = CountedKernel(self.host, rmids=RMIDS)
        self.patch = pytest.MonkeyPatch()
        install_clock(self.kernel, self.patch)
        self.state = self.folder / "jobs"
        for name in CLASSES[1:]:
            self.kernel.mkdir(f"{self.host.resctrl}/{name}")
        self.accounts = Accounts(self.kernel, KEYS, lambda key: self.programs[0].monitor.ledger.read_pod(key) or {})
        self.programs = [self.program(number) for number in range(3)]
        self.pids: dict[str, list[int]] = {key: [] for key in KEYS}
        self.members: dict[tuple[str, str], int] = {}

    def program(self, number: int) -> Program:
        named: dict[str, Any] = {"key_canonicalizer": str.lower} if number else {}
        named |= {"state_dir": str(self.state), "proc": str(self.host.proc), "fs": self.kernel}
        return Program(Monitor(str(self.host.resctrl), group_prefix=PREFIXES[number % 2], **named))

    def teardown(self) -> None:
        try:
            self.end_all()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    def tracked(self) -> set[str]:
        return set(self.programs[0].monitor.ledger.keys())

    def record_key(self, which: int, key: str) -> str:
        return key.lower() if which else key

    # Jobs

    @rule(which=WHICH, key=KEY, rdt_class=CLASS, threads=st.integers(1, 2))
    def start(self, which: int, key: str, rdt_class: str, threads: int = 1) -> None:
        """Start a process in a class, and move it to the key's group."""
        if not self.kernel.mounted or rdt_class not in self.kernel.model.classes:
            rdt_class = ""
        pid = self.kernel.spawn(f"/{key}", threads, rdt_class)
        self.pids[self.record_key(which, key)].append(pid)
        with self.programs[which].running(self.kernel) as monitor, suppress(HookError):
            monitor.ensure_group(key, rdt_class)
            monitor.assign_pid(key, pid)

    def trouble(self, at: tuple[str, int], span: int, what: Any) -> Trouble:
        """Return errors of the kernel, or another program's action, at a system call."""
        return Trouble(*at, span, what if isinstance(what, int) else lambda: self.act(*what))

    @rule(which=WHICH, key=KEY, rdt_class=CLASS, trouble=ERROR)
    def ensure_with_errors(self, which: int, key: str, rdt_class: str, trouble: Any) -> None:
        met = self.trouble(*trouble)
        with troubled(self.kernel, met) as seam, suppress(HookError), self.programs[which].running(seam) as monitor:
            monitor.ensure_group(key, rdt_class)

    @rule(key=KEY)
    def exit(self, key: str) -> None:
        for pid in self.pids[key]:
            self.kernel.end(pid)
        self.pids[key] = []

    @rule(which=WHICH, key=KEY)
    def end_main_thread(self, which: int, key: str) -> None:
        """The main thread of a member ends, which lives on if it has another one."""
        self.start(0, key, "", 2)
        self.add_member(0, key, "m")
        for pid in self.pids[key]:
            self.kernel.end_main_thread(pid)
        self.check_members(which)

    @rule(key=KEY, name=st.sampled_from(["wake", "totals/counters", "pods/a/pod"]))
    def kill_writer(self, key: str, name: str) -> None:
        """A writer of a file is killed, long ago."""
        left = self.state / f"{name.replace('/a/', f'/{key}/')}~4000001"
        if left.parent.is_dir():
            left.touch()
            os.utime(left, (1, 1))

    @rule(which=WHICH, key=KEY, member=st.sampled_from("mn"))
    def add_member(self, which: int, key: str, member: str) -> None:
        owner = self.record_key(which, key)
        if self.pids[owner] and owner in self.tracked():
            with self.programs[which].running(self.kernel) as monitor:
                monitor.add_member(key, member, self.pids[owner][-1])
            self.members = {one: pid for one, pid in self.members.items() if one[1] != member}  # a name is one key's
            self.members[owner, member] = self.pids[owner][-1]

    @rule(which=WHICH, key=KEY)
    def remove(self, which: int, key: str) -> None:
        with self.programs[which].running(self.kernel) as monitor, suppress(HookError):
            monitor.remove(key)
        self.forget()

    @rule(which=WHICH, live=st.sets(KEY, max_size=3), at=st.integers(0, 2), span=st.sampled_from([0, 1, 1, 1000]))
    def reconcile(self, which: int, live: set[str], at: int, span: int) -> None:
        """Remove all keys but those of some jobs; some groups cannot be removed."""
        before = self.tracked()
        kept = {key for key in before if self.record_key(which, key) in {self.record_key(which, one) for one in live}}
        groups = {key: len(self.accounts.recorded(key)) for key in before}
        trouble = Trouble("rmdir", at, span, ERRORS[at])
        with troubled(self.kernel, trouble) as seam, suppress(HookError), self.programs[which].running(seam) as monitor:
            monitor.reconcile(sorted(live))
        left = self.tracked() - kept
        self.forget()
        assert not [*self.state.rglob("*~*")], "files of killed writers are left"
        assert kept <= self.tracked(), f"reconcile({live}) has removed {kept - self.tracked()}"
        for key in kept:
            assert len(self.accounts.recorded(key)) == groups[key], f"reconcile({live}) has removed a group of {key}"
        assert len(left) <= trouble.happened, f"{left} are left after {trouble.happened} failures"

    def forget(self) -> None:
        self.members = {one: pid for one, pid in self.members.items() if one[0] in self.tracked()}

    @invariant()
    def work(self) -> None:
        self.kernel.now += 0.01
        for tid in self.kernel.threads.starts:
            self.kernel.work(tid, (tid, 2 * tid + 1))
        self.kernel.show_work()

    @rule(which=WHICH)
    def check_members(self, which: int) -> None:
        """A member lives as long as its process, in any spelling of its key."""
        for (key, member), pid in self.members.items():
            for spelled in {key, key.lower(), key.upper()}:
                if self.record_key(which, spelled) == key:
                    is_dead = self.programs[which].monitor.member_is_dead(spelled, member)
                    assert is_dead == (pid not in self.kernel.threads.starts), (spelled, member)

    # Other programs

    @rule(key=KEY, rdt_class=CLASS, name=CHANGE)
    def interfere(self, key: str, rdt_class: str, name: str) -> None:
        groups = [(kind, one) for owner, kind, one, _ in self.accounts.groups() if owner == key]
        with self.kernel.foreign(), suppress(OSError):
            if name == "mkdir":
                self.kernel.mkdir(self.path_of(rdt_class, key))
            elif groups:
                paths = [self.path_of(*groups[0]), self.path_of(rdt_class, groups[0][1])]
                getattr(self.kernel, name)(*paths[: 1 if name == "rmdir" else 2])

    def path_of(self, rdt_class: str, name: str) -> str:
        return str(self.host.resctrl / rdt_class / "mon_groups" / name)

    @rule()
    def remount(self) -> None:
        self.kernel.umount()
        self.kernel.mount()
        for name in CLASSES[1:]:
            self.kernel.mkdir(f"{self.host.resctrl}/{name}")

    # Reads

    @rule(which=WHICH)
    def restart(self, which: int) -> None:
        self.programs[which] = self.program(which)

    def totals(self, which: int, seam: Any) -> dict[str, Counts]:
        with self.programs[which].running(seam) as monitor:
            return {key: sums(readings) for key, readings in monitor.read_all().items()}

    @rule(which=WHICH)
    def read(self, which: int) -> None:
        try:
            found = self.totals(which, self.kernel)
        except NotMountedError:
            return
        self.accounts.check(found, lambda key: ended(self.programs[which].monitor, key))

    @rule(which=WHICH, trouble=TROUBLE)
    def read_in_trouble(self, which: int, trouble: Any) -> None:
        with troubled(self.kernel, self.trouble(*trouble)) as seam, suppress(HookError):
            self.accounts.check_any(self.totals(which, seam))
        self.work()
        self.read(which)

    def act(self, what: str, key: str, rdt_class: str, which: int) -> None:
        if what == "start":
            self.start(which, key, rdt_class)
        else:
            self.interfere(key, rdt_class, what)

    def end_all(self) -> None:
        """Remove all keys; nothing of this project is left then."""
        for key in self.tracked():
            with suppress(NotTrackedError):
                self.programs[0].monitor.remove(key)
        left = [(rdt_class, name) for _, rdt_class, name, meter in self.accounts.groups() if meter.is_ours]
        assert not left, f"groups are left: {left}"
        assert not self.tracked()
