"""Any order of events on a node, with errors of the kernel and other programs in the middle of any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accounting import clock
from accounting.accounts import PREFIXES
from accounting.node import CLASSES, ERRORS, PODS, RMIDS, STRAY, Container, Node, NodeProgram
from accounting.trouble import Trouble, error, troubled
from resctrl_hooks.errors import HookError, NotMountedError
from resctrl_hooks.node.host.descriptors import Descriptors
from resctrl_hooks.node.resctrl.open_files import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from resctrl_hooks.node.reconcile.report import Report

PICK = st.integers(0, 5)
"""The number of one of several things; the remainder by their number counts."""
AT = st.one_of(
    st.tuples(st.just(""), st.integers(0, 60)),
    st.tuples(st.just("folder"), st.integers(0, 5)),
    st.tuples(st.just("listdir"), st.integers(0, 8)),
    st.tuples(st.sampled_from(["open", "read", "is_folder", "write"]), st.integers(0, 10)),
    st.tuples(st.sampled_from(["mkdir", "rmdir", "rename"]), st.integers(0, 1)),
)
"""The system call at which trouble begins: its kind, and how many calls of that kind precede it."""
SPAN = st.sampled_from([1, 1, 2, 1000])
"""How many calls have errors."""
CLASS = st.sampled_from(CLASSES)
OTHERS = st.sampled_from(["move", "move", "away", "back", "remove", "create", "work", "reconcile", "read", "change"])


class Counts(RuleBasedStateMachine):
    """The machine."""

    config: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(self.config)
        self.kernel = self.node.kernel
        self.patch = pytest.MonkeyPatch()
        clock.install(self.kernel, self.patch)
        self.busy = True
        self.programs = [NodeProgram(self.node), NodeProgram(self.node, OpenFiles(Descriptors()))]

    def teardown(self) -> None:
        try:
            self.end_all()
        finally:
            self.close_files()
            self.patch.undo()
            self.node.close()

    @initialize(first=st.lists(st.tuples(st.sampled_from(PODS), CLASS, st.integers(1, 2), st.booleans()), max_size=3))
    def populate(self, first: list[tuple[str, str, int, bool]]) -> None:
        """Start some containers."""
        for pod, rdt_class, threads, hooked in first:
            self.node.begin(pod, rdt_class, threads, hooked=hooked)

    def container(self, number: int) -> Container | None:
        living = self.node.living()
        return living[number % len(living)] if living else None

    def alive(self) -> bool:
        return bool(self.node.living())

    # Runtimes

    @rule(pod=st.sampled_from(PODS), rdt_class=CLASS, threads=st.integers(1, 2), hooked=st.booleans())
    def begin(self, pod: str, rdt_class: str, threads: int, hooked: bool) -> None:
        self.node.begin(pod, rdt_class, threads, hooked=hooked)

    @rule(pod=st.sampled_from(PODS), rdt_class=CLASS, at=AT, span=SPAN, number=st.sampled_from(ERRORS))
    def begin_with_errors(self, pod: str, rdt_class: str, at: tuple[str, int], span: int, number: int) -> None:
        with troubled(self.kernel, Trouble(*at, span, error(number))) as seam:
            self.node.begin(pod, rdt_class, 1, hooked=True, seam=seam)

    @precondition(alive)
    @rule(number=PICK, into=st.booleans())
    def add_process(self, number: int, into: bool) -> None:
        container = self.container(number)
        assert container
        if into:
            self.node.exec_(container)
        else:
            self.node.fork(container)

    @precondition(alive)
    @rule(number=PICK)
    def crash(self, number: int) -> None:
        container = self.container(number)
        assert container
        self.node.crash(container)

    @precondition(alive)
    @rule(number=PICK)
    def stop(self, number: int) -> None:
        container = self.container(number)
        assert container
        self.node.stop(container)

    @precondition(alive)
    @rule(number=PICK, rdt_class=CLASS)
    def restart_with_same_id(self, number: int, rdt_class: str) -> None:
        container = self.container(number)
        assert container
        self.node.crash(container)
        self.node.launch(container, rdt_class, 1, hooked=True)

    @rule(pod=st.sampled_from(PODS))
    def finish(self, pod: str) -> None:
        self.node.finish(pod)

    @rule(pod=st.sampled_from(PODS), rdt_class=CLASS, shared=st.booleans(), which=st.integers(0, 1))
    def finish_and_return(self, pod: str, rdt_class: str, shared: bool, which: int) -> None:
        """A pod ends, is released, and starts again; it may share its group with another program."""
        if shared:
            self.act("create", 0, rdt_class, pod)
        self.node.begin(pod, rdt_class, 1, hooked=True)
        self.work()
        self.read(which)
        self.node.finish(pod)
        self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
        self.work()
        self.read(which)
        self.node.begin(pod, rdt_class, 1, hooked=True)

    @rule(busy=st.booleans())
    def rest(self, busy: bool) -> None:
        """Let all threads work, or none."""
        self.busy = busy

    @invariant()
    def work(self) -> None:
        self.kernel.now += 0.01
        if self.busy:
            self.node.work()

    @rule(seconds=st.sampled_from([0.01, 2.0, 100.0]))
    def pass_time(self, seconds: float) -> None:
        self.kernel.now += seconds

    # Other programs

    @rule(what=OTHERS, number=PICK, rdt_class=CLASS, pod=st.sampled_from(PODS))
    def interfere(self, what: str, number: int, rdt_class: str, pod: str) -> None:
        self.act(what, number, rdt_class, pod)

    def act(self, what: str, number: int, rdt_class: str, pod: str) -> None:
        """Let another program act."""
        self.kernel.now += 0.01
        groups = [(kind, name) for _, kind, name, _ in self.node.accounts.groups()]
        old = groups[number % len(groups)] if groups else None
        path = self.node.path_of
        if what == "move" and old:
            self.node.attempt("rename", path(*old), path(rdt_class, old[1]))
        elif what == "away" and old:
            self.node.attempt("rename", path(*old), path(old[0], f"{STRAY}.{old[0]}.{old[1]}"))
        elif what == "back":
            self.bring_back(number)
        elif what == "remove" and old:
            self.node.attempt("rmdir", path(*old))
        elif what == "create":
            self.node.attempt("mkdir", path(rdt_class, self.node.accounts.prefix + pod))
        elif what == "work":
            self.node.work()
        elif what == "reconcile":
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
        elif what == "read":
            self.tolerate(lambda: self.node.accounts.check_any(self.node.totals(NodeProgram(self.node))))
        elif what == "change":
            container = self.container(number)
            if container:
                self.node.change_class(container, rdt_class, 99)

    def bring_back(self, number: int) -> None:
        """A group that another program took away gets its name again."""
        strays = [(kind, name) for kind, name in sorted(self.kernel.groups()) if name.startswith(STRAY)]
        if strays and self.kernel.mounted:
            rdt_class, name = strays[number % len(strays)]
            _, _, back = name.split(".")
            path = self.node.path_of
            self.node.attempt("rename", path(rdt_class, name), path(rdt_class, back))

    def tolerate(self, call: Callable[[], Any]) -> Any:
        """Call a program that may fail in a known way."""
        try:
            return call()
        except (HookError, OSError):
            return None

    @rule(number=PICK, rdt_class=CLASS, most=st.sampled_from([1, 99]))
    def change_class(self, number: int, rdt_class: str, most: int) -> None:
        container = self.container(number)
        if container:
            self.node.change_class(container, rdt_class, most)

    @rule(name=st.sampled_from(CLASSES[1:]), remove=st.booleans())
    def change_classes(self, name: str, remove: bool) -> None:
        self.node.attempt("rmdir" if remove else "mkdir", self.node.path_of(name))

    @rule(again=st.booleans())
    def remount(self, again: bool) -> None:
        if self.kernel.mounted:
            self.close_files()  # else the kernel answers EBUSY
            self.kernel.umount()
        if again:
            self.kernel.mount()
            for name in CLASSES[1:]:
                self.node.attempt("mkdir", self.node.path_of(name))

    # This project

    @rule(prefix=st.sampled_from(PREFIXES))
    def change_prefix(self, prefix: str) -> None:
        self.node.set_prefix(prefix)

    @rule(which=st.integers(0, 1))
    def restart_program(self, which: int) -> None:
        self.close_files()
        self.programs[which] = NodeProgram(self.node, OpenFiles(Descriptors()) if which else None)

    def close_files(self) -> None:
        for program in self.programs:
            if program.files:
                program.files.close()

    @rule(which=st.integers(0, 2))
    def read(self, which: int) -> None:
        """Read everything; 2 is a new process."""
        program = (*self.programs, NodeProgram(self.node))[which]
        try:
            self.node.check(program)
        except NotMountedError:
            assert not self.kernel.mounted

    @rule(which=st.integers(0, 1), at=AT, span=SPAN, number=st.sampled_from(ERRORS))
    def read_with_errors(self, which: int, at: tuple[str, int], span: int, number: int) -> None:
        self.read_in_trouble(which, Trouble(*at, span, error(number)))

    @rule(which=st.integers(0, 1), at=AT, what=OTHERS, number=PICK, rdt_class=CLASS, pod=st.sampled_from(PODS))
    def read_beside(self, which: int, at: tuple[str, int], what: str, number: int, rdt_class: str, pod: str) -> None:
        """Another program acts in the middle of a read."""
        self.read_in_trouble(which, Trouble(*at, 1, lambda _: self.act(what, number, rdt_class, pod)))

    def read_in_trouble(self, which: int, trouble: Trouble) -> None:
        with troubled(self.kernel, trouble) as seam:
            found = self.tolerate(lambda: self.node.totals(self.programs[which], seam))
        self.node.accounts.check_any(found or {})
        self.work()
        self.read(which)

    @rule(at=AT, span=SPAN, number=st.sampled_from(ERRORS))
    def reconcile_with_errors(self, at: tuple[str, int], span: int, number: int) -> None:
        with troubled(self.kernel, Trouble(*at, span, error(number))) as seam:
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node), seam))

    @rule(at=AT, what=OTHERS, number=PICK, rdt_class=CLASS, pod=st.sampled_from(PODS))
    def reconcile_beside(self, at: tuple[str, int], what: str, number: int, rdt_class: str, pod: str) -> None:
        trouble = Trouble(*at, 1, lambda _: self.act(what, number, rdt_class, pod))
        with troubled(self.kernel, trouble) as seam:
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node), seam))

    @rule()
    def reconcile(self) -> None:
        if not self.kernel.mounted:
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
            return
        report = self.settle()
        assert not report.failures, report.failures
        self.check_groups({*report.waiting, *report.queued})
        self.read(2)

    def settle(self) -> Report:
        """Reconcile until the groups are right."""
        program = NodeProgram(self.node)
        for _ in range(3):
            self.kernel.now += 2  # nothing is in limbo
            report = self.node.pass_over(program)
        return report

    def check_groups(self, waiting: set[str]) -> None:
        """Check who has groups, after a pass."""
        owned = {(group.rdt_class, group.path.rpartition("/")[2]) for group in self.node.context().monitor.list()}
        for rdt_class, name in self.kernel.known_groups():
            if name.startswith(STRAY) and tuple(name.split(".")[1:]) in self.kernel.groups():
                continue  # another group has its name: its pod's end shows that it is missing
            assert (rdt_class, name) in owned, f"{rdt_class}/{name} belongs to no record"
        for pod, rdt_class, name, meter in self.node.accounts.groups():
            if not meter.is_ours:
                continue
            exists = (self.node.host.cgroup / f"kubepods/pod{pod}").is_dir()
            assert exists, f"{pod} has ended, its group {rdt_class}/{name} has not"
            used = self.classes_of(pod)
            assert not waiting or not used or rdt_class in used, (
                f"{waiting} wait, and {pod} keeps a group in {rdt_class!r} that it does not use"
            )
        if waiting:
            used_rmids = len(self.kernel.groups()) + len(self.kernel.model.classes) + 1
            assert used_rmids >= RMIDS, f"{waiting} wait, and only {used_rmids} RMIDs are used"
        for container in self.node.living():
            groups = {self.kernel.where(tid) for pid in container.pids for tid in self.kernel.threads.threads(pid)}
            for rdt_class, group in groups:
                own = self.node.accounts.prefix + container.pod
                taken = (rdt_class, own) in self.kernel.groups()  # by another program: the group keeps its former name
                theirs = group and not self.kernel.meters[self.kernel.of(rdt_class, group)].is_ours
                known = group == own or taken or theirs or container.pod in waiting
                assert known, f"a task of {container.pod} is in {rdt_class}/{group}"

    def classes_of(self, pod: str) -> set[str]:
        """Return the classes in which a pod has tasks."""
        tids = [
            tid
            for one in self.node.living()
            if one.pod == pod
            for pid in one.pids
            for tid in self.kernel.threads.threads(pid)
        ]
        return {self.kernel.where(tid)[0] for tid in tids}

    def end_all(self) -> None:
        """End all pods; nothing of this project is left then."""
        if not self.kernel.mounted:
            self.kernel.mount()
        for pod in PODS:
            self.node.finish(pod)
        for _ in range(3):
            self.kernel.now += 60
            self.node.pass_over(NodeProgram(self.node))
        left = self.kernel.known_groups()
        assert not left, f"groups are left: {left}"
        assert not self.node.host.records(), self.node.host.records()
