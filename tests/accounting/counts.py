"""Any order of events on a node, with errors of the kernel and other programs in the middle of any of them."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from accounting.accounts import PREFIXES
from accounting.events import CLASS, POD, TROUBLE, Events
from accounting.node import PODS, RMIDS, STRAY, NodeProgram
from accounting.trouble import troubled
from resctrl_hooks.core.node.host.descriptors import Descriptors
from resctrl_hooks.core.node.reconcile.class_move import limit_pod, return_pod
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.errors import NotMountedError


class Counts(Events):
    """The machine: this project's programs among all events, and checks of their results."""

    def teardown(self) -> None:
        try:
            self.end_all()
        finally:
            self.close_files()
            self.patch.undo()
            self.node.close()

    @rule(pod=POD, rdt_class=CLASS, shared=st.booleans(), which=st.integers(0, 1))
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

    @rule(pod=POD, rdt_class=CLASS, ends=st.booleans(), which=st.integers(0, 1))
    def limit(self, pod: str, rdt_class: str, ends: bool, which: int) -> None:
        """A pod is kept in a class for a time, or that time ends."""
        program = NodeProgram(self.node)
        left = (self.node.pod_record(pod) or {}).get("limitedTo")
        with program.running(self.kernel):
            if not ends:
                self.tolerate(lambda: limit_pod(program.context, pod, rdt_class))
            elif left is not None:
                self.tolerate(lambda: return_pod(program.context, pod, {}, "", {left}))
        self.work()
        self.read(which)

    @rule(prefix=st.sampled_from(PREFIXES))
    def change_prefix(self, prefix: str) -> None:
        self.node.set_prefix(prefix)

    @rule(which=st.integers(0, 1))
    def restart_program(self, which: int) -> None:
        self.close_files()
        self.programs[which] = NodeProgram(self.node, OpenFiles(Descriptors()) if which else None)

    @rule(which=st.integers(0, 2))
    def read(self, which: int) -> None:
        """Read everything; 2 is a new process."""
        program = (*self.programs, NodeProgram(self.node))[which]
        try:
            self.node.check(program)
        except NotMountedError:
            assert not self.kernel.mounted

    @rule(which=st.integers(0, 1), trouble=TROUBLE)
    def read_in_trouble(self, which: int, trouble: Any) -> None:
        with troubled(self.kernel, self.trouble(*trouble)) as seam:
            found = self.tolerate(lambda: self.node.totals(self.programs[which], seam))
        self.node.accounts.check_any(found or {})
        self.work()
        self.read(which)

    @rule(trouble=TROUBLE)
    def reconcile_in_trouble(self, trouble: Any) -> None:
        with troubled(self.kernel, self.trouble(*trouble)) as seam:
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node), seam))

    @rule()
    def reconcile(self) -> None:
        if not self.kernel.mounted:
            self.tolerate(lambda: self.node.pass_over(NodeProgram(self.node)))
            return
        report = self.settle()
        assert not report.events["failed"], report.events["failed"]
        self.check_groups({*report.events["waiting"], *report.events["queued"]})
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
                own = self.node.accounts.prefix + container.key
                taken = (rdt_class, own) in self.kernel.groups()  # by another program: the group keeps its former name
                theirs = group and not self.kernel.meters[self.kernel.of(rdt_class, group)].is_ours
                known = group == own or taken or theirs or container.key in waiting
                assert known, f"a task of {container.key} is in {rdt_class}/{group}"

    def classes_of(self, pod: str) -> set[str]:
        """Return the classes in which a pod has tasks."""
        pids = [pid for one in self.node.living() if one.key == pod for pid in one.pids]
        return {self.kernel.where(tid)[0] for pid in pids for tid in self.kernel.threads.threads(pid)}

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
