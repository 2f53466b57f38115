"""A node of which every byte is known, and the actions of its runtimes, of this project and of other programs."""

from __future__ import annotations

import errno
import os
import pkgutil
import shutil
import tempfile
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts.cluster import SimulatedNode, pod_number

from accounting.kernel import DOMAINS, EVENT, CountedKernel, Meter
from accounting.truth import Counts, Truth
from resctrl_hooks.errors import HookError
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options
from resctrl_hooks.node.resctrl import totals_file
from resctrl_hooks.node.resctrl.counter_totals import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resctrl_hooks.node.context import Context
    from resctrl_hooks.node.reconcile.report import Report
    from resctrl_hooks.node.resctrl.counters import Reading
    from resctrl_hooks.node.resctrl.open_files import OpenFiles
    from resctrl_hooks.simulation.group import Group

PODS = [pod_number(number) for number in range(3)]
CLASSES = ["", "gold", "silver"]
PREFIXES = ["", "rh-"]
RMIDS = 8
STRAY = "stray"  # names of other programs' groups begin so

for _room in ("resctrl", "reconcile", "sharing", "features"):  # before the clock is replaced in all modules
    _package = import_module(f"resctrl_hooks.node.{_room}")
    for _found in pkgutil.iter_modules(_package.__path__):
        import_module(f"resctrl_hooks.node.{_room}.{_found.name}")


class Program:
    """A process that knows the settings of its start, what it saved last, and maybe files that stay open."""

    def __init__(self, node: SimulatedNode, files: OpenFiles | None = None) -> None:
        self.context = node.context()
        self.saved: dict[Any, Any] = {}
        self.files = files

    @contextmanager
    def running(self, seam: Any) -> Iterator[Context]:
        """Run code as this process: nothing of another process is in its memory."""
        others = dict(totals_file._SAVED)
        before = self.context.monitor.resctrl.fs
        totals_file._SAVED.clear()
        totals_file._SAVED.update(self.saved)
        self.context.monitor.resctrl.fs = seam
        try:
            yield self.context
        finally:
            self.saved = dict(totals_file._SAVED)
            totals_file._SAVED.clear()
            totals_file._SAVED.update(others)
            self.context.monitor.resctrl.fs = before


class Container:
    """The test's knowledge of one container."""

    def __init__(self, number: int, pod: str) -> None:
        self.id = f"{number:064x}"
        self.pod = pod
        self.cgroup = f"/kubepods/pod{pod}/crio-{self.id}"
        self.pids: list[int] = []


class Node(SimulatedNode):
    """The node."""

    KERNEL = CountedKernel
    kernel: CountedKernel

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.config = {"log": {"target": "none"}, **config}
        super().__init__(self.folder, self.config, rmids=RMIDS)
        self.prefix = ""
        self.truths: dict[str, Truth] = {pod: Truth() for pod in PODS}
        self.containers: list[Container] = []
        self.made = 0
        self.ended: dict[str, dict[str, float]] = {}
        self.add_classes(*CLASSES[1:])
        self.kernel.changed = self.note

    def close(self) -> None:
        shutil.rmtree(self.folder)

    # What is there

    def key_of(self, rdt_class: str, name: str, meter: Meter) -> str:
        """Return the pod whose group has this name; empty for another program's."""
        pod = next((pod for pod in PODS for prefix in PREFIXES if name == prefix + pod), "")
        if not pod or meter.ours or name == self.prefix + pod:
            return pod
        return pod if self.pod_record(pod).get("names", {}).get(rdt_class) == name else ""

    def groups_of_pods(self) -> list[tuple[str, str, str, Meter]]:
        """Return each pod's groups: pod, class, name and meter."""
        found = []
        if self.kernel.mounted:
            for parent in self.kernel.model.all_classes():
                for name, group in parent.monitored.items():
                    meter = self.kernel.meters[group]
                    pod = self.key_of(parent.name, name, meter)
                    if pod:
                        found.append((pod, parent.name, name, meter))
        return found

    def note(self) -> None:
        """Learn whose the groups are now."""
        here: dict[str, list[Meter]] = {pod: [] for pod in PODS}
        for pod, _, _, meter in self.groups_of_pods():
            here[pod].append(meter)
        for pod, meters in here.items():
            self.truths[pod].note(meters)

    def recorded(self, pod: str) -> set[Meter]:
        """Return the pod's recorded groups."""
        record = self.pod_record(pod)
        found = set()
        by_class: dict[str, list[tuple[str, Meter]]] = {}
        for owner, rdt_class, name, meter in self.groups_of_pods():
            if owner == pod and rdt_class in record.get("groups", {}):
                by_class.setdefault(rdt_class, []).append((name, meter))
        for rdt_class, candidates in by_class.items():
            wanted = record.get("names", {}).get(rdt_class, self.prefix + pod)
            exact = [meter for name, meter in candidates if name == wanted]
            if exact or len(candidates) == 1:
                found.add(exact[0] if exact else candidates[0][1])
        return found

    def living(self) -> list[Container]:
        return [container for container in self.containers if container.pids]

    # Runtimes

    def begin(self, pod: str, rdt_class: str, threads: int, *, hooked: bool, seam: Any = None) -> None:
        """Start a container."""
        self.made += 1
        container = Container(self.made, pod)
        self.containers.append(container)
        self.launch(container, rdt_class, threads, hooked=hooked, seam=seam)

    def launch(self, container: Container, rdt_class: str, threads: int, *, hooked: bool, seam: Any = None) -> None:
        if not self.kernel.mounted or rdt_class not in self.kernel.model.classes:
            rdt_class = ""
        container.pids = [self.kernel.spawn(container.cgroup, threads, rdt_class)]
        if hooked:
            with suppress(HookError):  # the container runs; reconcile completes it
                self.hook(container.id, container.pids[0], container.pod, seam=seam)
        self.appear(container.id, container.pids[0], container.pod)

    def fork(self, container: Container) -> None:
        rdt_class, group = self.kernel.where(container.pids[-1])
        container.pids.append(self.kernel.spawn(container.cgroup, 1, rdt_class, group))

    def exec_(self, container: Container) -> None:
        """A process enters from outside, in the container's class but in no group."""
        container.pids.append(self.kernel.spawn(container.cgroup, 1, self.kernel.where(container.pids[0])[0]))

    def crash(self, container: Container) -> None:
        for pid in container.pids:
            self.kernel.end(pid)
        container.pids = []

    def stop(self, container: Container, seam: Any = None) -> None:
        self.crash(container)
        self.containers.remove(container)
        with suppress(HookError):
            self.poststop(container.id, seam)

    def finish(self, pod: str) -> None:
        """The pod ends."""
        for container in [one for one in self.containers if one.pod == pod]:
            self.crash(container)
            shutil.rmtree(self.root / "crun" / container.id, ignore_errors=True)
            self.containers.remove(container)
        shutil.rmtree(self.host.cgroup / f"kubepods/pod{pod}", ignore_errors=True)

    def work(self) -> None:
        """Each thread moves some bytes, another number than the others."""
        if self.kernel.mounted:
            for tid in self.kernel.threads.starts:
                self.kernel.work(tid, (tid, 2 * tid + 1))
            self.kernel.show_work()

    # Other programs

    def path_of(self, rdt_class: str, name: str = "") -> str:
        """Return the folder of a class or of a group in it."""
        parts = [str(self.host.resctrl), rdt_class, *(["mon_groups", name] if name else [])]
        return "/".join(part for part in parts if part)

    def attempt(self, name: str, *given: str) -> None:
        """Let another program change resctrl; the kernel may refuse."""
        with self.kernel.foreign():
            try:
                getattr(self.kernel, name)(*given)
            except OSError:
                return

    def change_class(self, container: Container, rdt_class: str, most: int) -> None:
        """Another program moves at most so many of a container's threads into a class."""
        group: Group = self.kernel.model.classes.get(rdt_class, self.kernel.model.root)
        if self.kernel.mounted:
            tids = [tid for pid in container.pids for tid in sorted(self.kernel.threads.threads(pid))]
            for tid in tids[:most]:
                self.kernel.write(f"{self.path_of(group.name)}/tasks", b"%d\n" % tid)

    def set_prefix(self, prefix: str) -> None:
        self.prefix = prefix
        self.configure(groupPrefix=prefix, **self.config)
        self.note()

    # This project

    def pass_over(self, program: Program, seam: Any = None, **options: Any) -> Report:
        """Let a program make a pass of reconcile."""
        (self.host.state / "vanished").unlink(missing_ok=True)  # the next removal is the first: test_vanished.py
        with program.running(seam or self.kernel) as context:
            return reconcile(context, Options(wait=False, **options))

    def totals(self, program: Program, seam: Any = None) -> dict[str, Counts]:
        """Let a program read everything; return each tracked pod's totals by domain."""
        with program.running(seam or self.kernel) as context:
            found = context.monitor.read_counters(program.files).readings
            if program.files:
                program.files.forget_unseen()
        return {pod: _sums(found[pod]) for pod in PODS if pod in found}

    def check(self, program: Program) -> None:
        """Compare a quiet read with the truth."""
        self.note()
        for pod, found in self.totals(program).items():
            before, self.ended[pod] = self.ended.get(pod), ended(program.context.monitor, pod)
            reported = bool(self.ended[pod]) and self.ended[pod] != before
            lost = self.truths[pod].check_quiet(found, self.recorded(pod), reported=reported)
            assert self.ended[pod] or not lost, f"counts of {pod} ended unseen, and no reader says so"

    def check_any(self, found: dict[str, Counts]) -> None:
        """Check the totals of a read with trouble."""
        self.note()
        for pod, totals in found.items():
            self.truths[pod].check(totals)


def _sums(readings: list[Reading]) -> Counts:
    sums = [0] * DOMAINS
    for one in readings:
        if one.counter.name == EVENT:
            sums[one.domain.id] += int(one.value or 0)
    return tuple(sums)


ERRORS = [errno.ENFILE, errno.EMFILE, errno.EIO, errno.ENOMEM, errno.EACCES, errno.EINTR]
