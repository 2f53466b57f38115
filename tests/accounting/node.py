"""A node of which every byte is known, and the actions of its runtimes, of this project and of other programs."""

import errno
import os
import pkgutil
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hosts.node import Container, Node, pod_number

from accounting.accounts import Accounts, sums
from accounting.kernel import CountedKernel
from accounting.truth import Counts
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.resctrl import totals_file
from resctrl_hooks.core.node.resctrl.counter_totals import ended
from resctrl_hooks.core.node.resctrl.identities import identities
from resctrl_hooks.core.node.resctrl.open_files import OpenFiles
from resctrl_hooks.errors import HookError

PODS = [pod_number(number) for number in range(3)]
CLASSES = ["", "gold", "silver"]
RMIDS = 7
STRAY = "stray"  # names of other programs' groups begin so

for _room in ("resctrl", "reconcile", "sharing", "features"):  # before the clock is replaced in all modules
    _package = import_module(f"resctrl_hooks.core.node.{_room}")
    for _found in pkgutil.iter_modules(_package.__path__):
        import_module(f"resctrl_hooks.core.node.{_room}.{_found.name}")


class Program:
    """A process with a monitor and with what it saved last."""

    def __init__(self, monitor: Any) -> None:
        self.monitor = monitor
        self._saved: dict[Any, Any] = {}

    @contextmanager
    def running(self, seam: Any) -> Iterator[Any]:
        """Run code as this process: nothing of another process is in its memory."""
        others = dict(totals_file._SAVED)
        before, self.monitor.resctrl.fs = self.monitor.resctrl.fs, seam
        totals_file._SAVED.clear()
        totals_file._SAVED.update(self._saved)
        try:
            yield self.monitor
        finally:
            self._saved = dict(totals_file._SAVED)
            totals_file._SAVED.clear()
            totals_file._SAVED.update(others)
            self.monitor.resctrl.fs = before


class NodeProgram(Program):
    """A process that knows the settings of its start, and may keep files open."""

    def __init__(self, node: Node, files: OpenFiles | None = None) -> None:
        self.context = node.context()
        self.files = files
        super().__init__(self.context.monitor)


class CountedNode(Node):
    kernel: CountedKernel

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rh", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.given = {"log": {"target": "none"}, **config}
        super().__init__(self.folder, kernel=partial(CountedKernel, rmids=RMIDS), **self.given)
        self.accounts = Accounts(self.kernel, PODS, self.pod_record)
        self.kernel.is_known = self.is_known
        self.made = 0
        self.add_class(*CLASSES[1:])

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def living(self) -> list[Container]:
        return [container for container in self.containers if container.pids]

    # Runtimes

    def begin(self, pod: str, rdt_class: str, threads: int, *, hooked: bool, seam: Any = None) -> None:
        self.made += 1
        self.containers.append(Container(f"{self.made:064x}", pod))
        self.launch(self.containers[-1], rdt_class, threads, hooked=hooked, seam=seam)

    def launch(self, container: Container, rdt_class: str, threads: int, *, hooked: bool, seam: Any = None) -> None:
        if not self.kernel.mounted or rdt_class not in self.kernel.model.classes:
            rdt_class = ""
        self.spawn(container, threads, rdt_class)
        if hooked:
            with suppress(HookError):  # the container runs; reconcile completes it
                self.serve(container, seam)
        self.appear(container)

    def fork(self, container: Container) -> None:
        rdt_class, group = self.kernel.where(container.pids[-1])
        container.pids.append(self.kernel.spawn(container.cgroup, 1, rdt_class, group))

    def exec_(self, container: Container) -> None:
        """A process enters from outside, in the container's class but in no group."""
        container.pids.append(self.kernel.spawn(container.cgroup, 1, self.kernel.where(container.pids[0])[0]))

    def stop(self, container: Container) -> None:
        self.end(container)
        self.containers.remove(container)
        with suppress(HookError):
            self.poststop(container.id)

    def finish(self, pod: str) -> None:
        for container in [one for one in self.containers if one.key == pod]:
            self.end(container)
            shutil.rmtree(self.crun / container.id, ignore_errors=True)
            self.containers.remove(container)
        shutil.rmtree(self.cgroup / f"kubepods/pod{pod}", ignore_errors=True)

    def work(self) -> None:
        """Each thread moves some bytes, another number than the others."""
        if self.kernel.mounted:
            for tid in self.kernel.threads.starts:
                self.kernel.work(tid, (tid, 2 * tid + 1))
            self.kernel.show_work()

    # Other programs

    def path_of(self, rdt_class: str, name: str = "") -> str:
        return str(self.resctrl.joinpath(rdt_class, *(["mon_groups", name] if name else [])))

    def attempt(self, name: str, *given: str) -> None:
        """Let another program change resctrl; the kernel may refuse."""
        with self.kernel.foreign(), suppress(OSError):
            getattr(self.kernel, name)(*given)

    def change_class(self, container: Container, rdt_class: str, most: int) -> None:
        """Another program moves at most so many of a container's threads into a class."""
        group = self.kernel.model.classes.get(rdt_class, self.kernel.model.root)
        if self.kernel.mounted:
            tids = [tid for pid in container.pids for tid in sorted(self.kernel.threads.threads(pid))]
            for tid in tids[:most]:
                self.kernel.write(f"{self.path_of(group.name)}/tasks", b"%d\n" % tid)

    def is_known(self, identity: str) -> bool:
        """Return whether a record has the identity of a group of this mount."""
        resctrl = self.context().monitor.resctrl
        return any(identity in identities(record, resctrl).values() for record in map(self.pod_record, PODS) if record)

    def set_prefix(self, prefix: str) -> None:
        self.configure(groupPrefix=prefix, **self.given)
        self.accounts.prefix = prefix
        self.accounts.note()

    # This project

    def pass_over(self, program: NodeProgram, seam: Any = None, **options: Any) -> Report:
        (self.state / "vanished").unlink(missing_ok=True)  # the next removal is the first: test_groups.py
        with program.running(seam or self.kernel):
            return reconcile(program.context, Options(wait=False, **options))

    def totals(self, program: NodeProgram, seam: Any = None) -> dict[str, Counts]:
        """Let a program read everything; return each tracked pod's totals by domain."""
        with program.running(seam or self.kernel) as monitor:
            found = monitor.read_counters(program.files).readings
            if program.files:
                program.files.forget_unseen()
        return {pod: sums(found[pod]) for pod in PODS if pod in found}

    def check(self, program: NodeProgram) -> None:
        self.accounts.check(self.totals(program), partial(ended, program.monitor))


ERRORS = [errno.ENFILE, errno.EMFILE, errno.EIO, errno.ENOMEM, errno.EACCES, errno.EINTR]
