"""Any order of events on a node, with errors of the kernel and other programs in the middle of any of them."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hosts.node import Container
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accounting.accounts import PREFIXES
from accounting.kernel import DOMAINS
from accounting.node import CLASSES, ERRORS, PODS, RMIDS, STRAY, CountedNode, NodeProgram
from accounting.trouble import KernelFiles, Trouble, install_clock, troubled
from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.reconcile.class_move import limit_pod, return_pod
from resctrl_hooks.core.node.resctrl import open_files
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.errors import HookError, NotMountedError

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
POD, CLASS = st.sampled_from(PODS), st.sampled_from(CLASSES)
OTHERS = st.sampled_from((
    "move", "move", "away", "bring_back", "confuse", "remove", "create", "work", "reconcile", "read", "change_class",
    "plug",
))  # fmt: skip
ERROR = st.tuples(AT, SPAN, st.sampled_from(ERRORS))
TROUBLE = ERROR | st.tuples(AT, st.just(1), st.tuples(OTHERS, PICK, CLASS, POD))
"""Errors of the kernel, or another program's action, at a system call; the arguments of `Counts.trouble`."""


class Counts(RuleBasedStateMachine):
    """A node on which runtimes start and end containers, other programs change groups, and all totals are checked."""

    config: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.node = CountedNode(self.config)
        self.kernel = self.node.kernel
        self.patch = pytest.MonkeyPatch()
        install_clock(self.kernel, self.patch)
        self.patch.setattr(open_files, "posix", KernelFiles())
        self.busy = True
        self.programs = [NodeProgram(self.node), NodeProgram(self.node, OpenFiles(Descriptors()))]

    def teardown(self) -> None:
        try:
            self.end_all()
        finally:
            self.close_files()
            self.patch.undo()
            self.node.close()

    @initialize(first=st.lists(st.tuples(POD, CLASS, st.integers(1, 2), st.booleans()), max_size=3))
    def populate(self, first: list[tuple[str, str, int, bool]]) -> None:
        for pod, rdt_class, threads, hooked in first:
            self.node.begin(pod, rdt_class, threads, hooked=hooked)

    def container(self, number: int) -> Container:
        living = self.node.living()
        return living[number % len(living)]

    def alive(self) -> bool:
        return bool(self.node.living())

    def trouble(self, at: tuple[str, int], span: int, what: Any) -> Trouble:
        """Return errors of the kernel, or another program's action, at a system call."""
        return Trouble(*at, span, what if isinstance(what, int) else lambda: self.act(*what))

    def tolerate(self, call: Callable[[], Any]) -> Any:
        """Call a program that may fail in a known way."""
        try:
            return call()
        except (HookError, OSError):
            return None

    # Runtimes

    @rule(pod=POD, rdt_class=CLASS, threads=st.integers(1, 2), hooked=st.booleans())
    def begin(self, pod: str, rdt_class: str, threads: int, hooked: bool) -> None:
        self.node.begin(pod, rdt_class, threads, hooked=hooked)

    @rule(pod=POD, rdt_class=CLASS, trouble=ERROR)
    def begin_with_errors(self, pod: str, rdt_class: str, trouble: Any) -> None:
        with troubled(self.kernel, self.trouble(*trouble)) as seam:
            self.node.begin(pod, rdt_class, 1, hooked=True, seam=seam)

    @precondition(alive)
    @rule(number=PICK, what=st.sampled_from(["fork", "exec_", "end", "stop"]))
    def happen(self, number: int, what: str) -> None:
        """A process of a container starts another, one enters from outside, or the container ends."""
        getattr(self.node, what)(self.container(number))

    @precondition(alive)
    @rule(number=PICK, rdt_class=CLASS)
    def restart_with_same_id(self, number: int, rdt_class: str) -> None:
        container = self.container(number)
        self.node.end(container)
        self.node.launch(container, rdt_class, 1, hooked=True)

    @rule(pod=POD)
    def finish(self, pod: str) -> None:
        self.node.finish(pod)

    @rule(pod=POD, rdt_class=CLASS, shared=st.booleans(), which=st.integers(0, 1))
    def finish_and_return(self, pod: str, rdt_class: str, shared: bool, which: int) -> None:
        """A pod ends, is released, and starts again; it may share its group with another program."""
        if shared:
            self.act("create", 0, rdt_class, pod)
        self.node.begin(pod, rdt_class, 1, hooked=True)
        self.work_and_read(which)
        self.node.finish(pod)
        self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
        self.work_and_read(which)
        self.node.begin(pod, rdt_class, 1, hooked=True)

    @rule(busy=st.booleans())
    def rest(self, busy: bool) -> None:
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

    @rule(what=OTHERS, number=PICK, rdt_class=CLASS, pod=POD)
    def interfere(self, what: str, number: int, rdt_class: str, pod: str) -> None:
        self.act(what, number, rdt_class, pod)

    def act(self, what: str, number: int, rdt_class: str, pod: str) -> None:
        self.kernel.now += 0.01
        groups = [(kind, name) for _, kind, name, _ in self.node.accounts.groups()]
        if what in ("move", "away", "confuse", "remove"):
            if groups:
                self.act_on(what, groups[number % len(groups)], rdt_class, pod)
        elif what == "create":
            self.node.attempt("mkdir", self.node.path_of(rdt_class, self.node.accounts.prefix + pod))
        elif what == "reconcile":
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
        elif what == "read":
            self.tolerate(lambda: self.node.accounts.check_any(self.node.totals(NodeProgram(self.node))))
        elif what == "work":
            self.node.work()
        else:
            given = {"plug": (number % DOMAINS,), "change_class": (number, rdt_class, 99), "bring_back": (number,)}
            getattr(self, what)(*given[what])

    def act_on(self, what: str, old: tuple[str, str], rdt_class: str, pod: str) -> None:
        """Let another program rename or remove a key's group."""
        new = {
            "move": (rdt_class, old[1]),
            "away": (old[0], f"{STRAY}.{old[0]}.{old[1]}"),
            "confuse": (rdt_class, self.node.accounts.prefix + pod),  # it gets another pod's name
        }.get(what)
        paths = [self.node.path_of(*one) for one in (old, new) if one is not None]
        self.node.attempt("rename" if new else "rmdir", *paths)

    def bring_back(self, number: int) -> None:
        """A group that another program took away gets its name again."""
        strays = [(kind, name) for kind, name in sorted(self.kernel.groups()) if name.startswith(STRAY)]
        if strays and self.kernel.mounted:
            rdt_class, name = strays[number % len(strays)]
            path = self.node.path_of
            self.node.attempt("rename", path(rdt_class, name), path(rdt_class, name.split(".")[2]))

    @rule(number=PICK, rdt_class=CLASS, most=st.sampled_from([1, 99]))
    def change_class(self, number: int, rdt_class: str, most: int) -> None:
        if self.alive():
            self.node.change_class(self.container(number), rdt_class, most)

    @rule(name=st.sampled_from(CLASSES[1:]), remove=st.booleans())
    def change_classes(self, name: str, remove: bool) -> None:
        self.node.attempt("rmdir" if remove else "mkdir", self.node.path_of(name))

    @rule(domain=st.sampled_from(range(DOMAINS)))
    def plug(self, domain: int) -> None:
        """The CPUs of a domain go offline, or come back."""
        self.node.accounts.plug(domain)

    @rule(again=st.booleans())
    def remount(self, again: bool) -> None:
        if self.kernel.mounted:
            self.close_files()  # else the kernel answers EBUSY
            self.kernel.umount()
        if again:
            self.kernel.mount()
            for name in CLASSES[1:]:
                self.node.attempt("mkdir", self.node.path_of(name))

    # This project's programs

    @rule(pod=POD, rdt_class=CLASS, ends=st.booleans(), which=st.integers(0, 1))
    def limit(self, pod: str, rdt_class: str, ends: bool, which: int) -> None:
        """A pod is kept in a class for a time, or that time ends."""
        program = NodeProgram(self.node)
        left = self.node.pod_record(pod).get("limitedTo")
        with program.running(self.kernel):
            if not ends:
                self.tolerate(lambda: limit_pod(program.context, pod, rdt_class))
            elif left is not None:
                self.tolerate(lambda: return_pod(program.context, pod, {}, "", {left}))
        self.work_and_read(which)

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

    def work_and_read(self, which: int) -> None:
        self.work()
        self.read(which)

    @rule(which=st.integers(0, 1), trouble=TROUBLE)
    def read_in_trouble(self, which: int, trouble: Any) -> None:
        with troubled(self.kernel, self.trouble(*trouble)) as seam:
            found = self.tolerate(lambda: self.node.totals(self.programs[which], seam))
        self.node.accounts.check_any(found or {})
        self.work_and_read(which)

    @rule(trouble=TROUBLE)
    def reconcile_in_trouble(self, trouble: Any) -> None:
        with troubled(self.kernel, self.trouble(*trouble)) as seam:
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node), seam))

    @rule()
    def reconcile(self) -> None:
        program = NodeProgram(self.node)
        if not self.kernel.mounted:
            self.tolerate(lambda: self.node.pass_over(program))
            return
        for _ in range(3):
            self.kernel.now += 2  # nothing is in limbo
            report = self.node.pass_over(program)
        assert not report.events["failed"], report.events["failed"]
        self.check_groups({*report.events["waiting"], *report.events["queued"]})
        self.read(2)

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
            exists = (self.node.cgroup / f"kubepods/pod{pod}").is_dir()
            assert exists, f"{pod} has ended, its group {rdt_class}/{name} has not"
            used = {place[0] for one in self.node.living() if one.key == pod for place in self.node.places(one)}
            assert not waiting or not used or rdt_class in used, (
                f"{waiting} wait, and {pod} keeps a group in {rdt_class!r} that it does not use"
            )
        if waiting:
            used_rmids = len(self.kernel.groups()) + len(self.kernel.model.classes) + 1
            assert used_rmids >= RMIDS, f"{waiting} wait, and only {used_rmids} RMIDs are used"
        for container in self.node.living():
            for rdt_class, group in self.node.places(container):
                own = self.node.accounts.prefix + container.key
                taken = (rdt_class, own) in self.kernel.groups()  # by another program: the group keeps its former name
                theirs = group and not self.kernel.meters[self.kernel.of(rdt_class, group)].is_ours
                known = group == own or taken or theirs or container.key in waiting
                assert known, f"a task of {container.key} is in {rdt_class}/{group}"

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
        assert not self.node.records(), self.node.records()
