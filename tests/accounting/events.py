"""Events on a node, from outside of this project: those of runtimes, of the machine and of other programs."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hosts.node import Container
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accounting.kernel import DOMAINS
from accounting.node import CLASSES, ERRORS, PODS, STRAY, CountedNode, NodeProgram
from accounting.trouble import KernelFiles, Trouble, error, install_clock, troubled
from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.resctrl import open_files
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.errors import HookError

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
OTHERS = st.sampled_from(
    ["move", "move", "away", "back", "confuse", "remove", "create", "work", "reconcile", "read", "change", "plug"]
)
POD = st.sampled_from(PODS)
ERROR = st.tuples(AT, SPAN, st.sampled_from(ERRORS))
TROUBLE = ERROR | st.tuples(AT, st.just(1), st.tuples(OTHERS, PICK, CLASS, POD))
"""Errors of the kernel, or another program's action, at a system call; the arguments of `Events.trouble`."""


class Events(RuleBasedStateMachine):
    """A node on which runtimes start and end containers, and other programs change groups."""

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

    @initialize(first=st.lists(st.tuples(POD, CLASS, st.integers(1, 2), st.booleans()), max_size=3))
    def populate(self, first: list[tuple[str, str, int, bool]]) -> None:
        """Start some containers."""
        for pod, rdt_class, threads, hooked in first:
            self.node.begin(pod, rdt_class, threads, hooked=hooked)

    def container(self, number: int) -> Container:
        living = self.node.living()
        return living[number % len(living)]

    def alive(self) -> bool:
        return bool(self.node.living())

    # Runtimes

    @rule(pod=POD, rdt_class=CLASS, threads=st.integers(1, 2), hooked=st.booleans())
    def begin(self, pod: str, rdt_class: str, threads: int, hooked: bool) -> None:
        self.node.begin(pod, rdt_class, threads, hooked=hooked)

    def trouble(self, at: tuple[str, int], span: int, what: Any) -> Trouble:
        """Return errors of the kernel, or another program's action, at a system call."""
        return Trouble(*at, span, error(what) if isinstance(what, int) else lambda _: self.act(*what))

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

    @rule(what=OTHERS, number=PICK, rdt_class=CLASS, pod=POD)
    def interfere(self, what: str, number: int, rdt_class: str, pod: str) -> None:
        self.act(what, number, rdt_class, pod)

    def act(self, what: str, number: int, rdt_class: str, pod: str) -> None:
        """Let another program act."""
        self.kernel.now += 0.01
        groups = [(kind, name) for _, kind, name, _ in self.node.accounts.groups()]
        if what in ("move", "away", "confuse", "remove"):
            if groups:
                self.act_on(what, groups[number % len(groups)], rdt_class, pod)
        elif what == "back":
            self.bring_back(number)
        elif what == "create":
            self.node.attempt("mkdir", self.node.path_of(rdt_class, self.node.accounts.prefix + pod))
        elif what == "plug":
            self.plug(number % DOMAINS)
        elif what == "work":
            self.node.work()
        elif what == "reconcile":
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
        elif what == "read":
            self.tolerate(lambda: self.node.accounts.check_any(self.node.totals(NodeProgram(self.node))))
        elif what == "change":
            self.change_class(number, rdt_class, 99)

    def act_on(self, what: str, old: tuple[str, str], rdt_class: str, pod: str) -> None:
        """Let another program rename or remove a key's group."""
        new = {
            "move": (rdt_class, old[1]),
            "away": (old[0], f"{STRAY}.{old[0]}.{old[1]}"),
            "confuse": (rdt_class, self.node.accounts.prefix + pod),  # it gets another pod's name
        }.get(what)
        path = self.node.path_of
        if new is None:
            self.node.attempt("rmdir", path(*old))
        else:
            self.node.attempt("rename", path(*old), path(*new))

    def bring_back(self, number: int) -> None:
        """A group that another program took away gets its name again."""
        strays = [(kind, name) for kind, name in sorted(self.kernel.groups()) if name.startswith(STRAY)]
        if strays and self.kernel.mounted:
            rdt_class, name = strays[number % len(strays)]
            _, _, back = name.split(".")
            path = self.node.path_of
            self.node.attempt("rename", path(rdt_class, name), path(rdt_class, back))

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

    def tolerate(self, call: Callable[[], Any]) -> Any:
        """Call a program that may fail in a known way."""
        try:
            return call()
        except (HookError, OSError):
            return None

    def close_files(self) -> None:
        for program in self.programs:
            if program.files:
                program.files.close()
