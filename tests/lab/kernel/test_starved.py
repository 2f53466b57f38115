"""A starved node: twelve containers at once, whose runtimes and hooks share a small part of one processor.

Nothing here measures time. The hook is staged with its guard and the timeout of its JSON: no healthy hook may be killed
for being slow, and a hanging one must end. Long parts run once and in parallel; each test checks its own.
"""

import contextlib
import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest
from core.install.breakages import Breakage, code_gone, dead_loop, script_fifo

from kernel.bundles import make_bundle
from kernel.cgroups import CGROUPS
from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Staged
from kernel.pods import KubernetesPod
from kernel.runtimes import Runtime, wait_until

pytestmark = pytest.mark.nightly
RUNTIMES = ("runc", "crun")
OF_EACH = 6
"""Containers of each runtime."""
PERIOD = 100_000  # microseconds
SHARE = 40
"""Percent of one processor, for all of the runtimes and their hooks together."""
HANGING = (script_fifo, dead_loop)


@contextlib.contextmanager
def starved(name: str) -> Iterator[Path]:
    """A cgroup with that share."""
    (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    cgroup = CGROUPS / name
    cgroup.mkdir()
    (cgroup / "cpu.max").write_text(f"{SHARE * PERIOD // 100} {PERIOD}")
    yield cgroup
    wait_until(lambda: "populated 0" in (cgroup / "cgroup.events").read_text(), "nothing runs in it any more")
    cgroup.rmdir()


class Running(NamedTuple):
    """A command, and where its output goes."""

    process: subprocess.Popen[bytes]
    output: IO[str]

    def failure(self) -> str:
        """Return its output if it failed, at its end; empty if it did not."""
        code = self.process.wait()
        with self.output as output:
            output.seek(0)
            return f"exit {code}: {output.read()}" if code else ""


def begin(cgroup: Path, *words: str) -> Running:
    """Begin a command in a cgroup."""
    enter = ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(cgroup / "cgroup.procs")]
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115  # no pipe, which containers would inherit
    return Running(subprocess.Popen([*enter, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output), output)


class Pods:
    """Pods of one container each, on a node of their own.

    Args:
        folder: for the hook, its state and the bundles.
        number: the node's, as a part of its pods' UIDs.
        rootfs: the containers'.
    """

    def __init__(self, folder: Path, number: int, rootfs: str) -> None:
        self.host = folder / "host"
        self.installed = Staged(str(self.host))
        self.installed.configure(deadlineSeconds=3.0)  # as a host has it
        self.of: dict[str, KubernetesPod] = {}
        self._uids = (f"3f0ac7f2-8a3b-4f0e-{number:04x}-{pod:012x}" for pod in itertools.count())
        self._bundle: Callable[..., str] = lambda name, command, **options: make_bundle(
            str(folder / "bundles" / name), rootfs, command, **options
        )

    def add(self, container: str, runtime: str) -> None:
        """A pod for a container."""
        made = KubernetesPod(next(self._uids), Runtime(runtime, "cgroupfs"), self.installed, self._bundle)
        self.of[container] = made

    def words(self, verb: str, container: str) -> list[str]:
        """Return the runtime's command to `create` or `delete` it."""
        pod = self.of[container]
        how = ["--bundle", pod.bundle(container)] if verb == "create" else ["--force"]
        return [pod.runtime.name, verb, *how, container]

    def at_once(self, verb: str, cgroup: Path) -> dict[str, str]:
        """Create or delete all containers at once; return the output of each failed one, empty for the others."""
        words = {container: self.words(verb, container) for container in self.of}
        running = {container: begin(cgroup, *one) for container, one in words.items()}
        return {container: one.failure() for container, one in running.items()}

    def in_their_groups(self) -> set[str]:
        """Return the containers that are in the groups of their pods."""
        pids: dict[str, int] = {}
        for container, pod in self.of.items():
            with contextlib.suppress(OSError):
                pids[container] = int((pod.cgroup / f"crio-{container}" / "cgroup.procs").read_text())
        return {container for container, pid in pids.items() if place_of(pid) == Place("", self.of[container].uid)}

    def remove(self) -> None:
        """Remove whatever is left of them, without a hook."""
        code_gone(self.host)
        for container, pod in self.of.items():
            pod.runtime.delete(container, force=True, check=False)
            pod.remove()


@pytest.fixture(scope="module")
def node(rootfs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Pods]]:
    """Make nodes, on a resctrl without groups."""
    resctrl = Resctrl(os.environ["RESCTRL_ROOT"])
    resctrl.clear()
    made: list[Pods] = []

    def make() -> Pods:
        made.append(Pods(tmp_path_factory.mktemp("node"), len(made), rootfs))
        return made[-1]

    yield make
    for one in made:
        one.remove()
    resctrl.clear()


class Together(NamedTuple):
    """Results of twelve containers: output at creation and deletion, and members of their pods' groups."""

    created: dict[str, str]
    at_once: set[str]
    after: set[str]
    deleted: dict[str, str]


@pytest.fixture(scope="module")
def together(node: Callable[[], Pods]) -> Together:
    """Twelve containers, of both runtimes, created at once and deleted at once; reconcile runs in between."""
    pods = node()
    for number in range(OF_EACH):
        for runtime in RUNTIMES:
            pods.add(f"{runtime}{number}", runtime)
    with starved("starved") as cgroup:
        created = pods.at_once("create", cgroup)
        at_once = pods.in_their_groups()
        pods.installed.reconcile()
        return Together(created, at_once, pods.in_their_groups(), pods.at_once("delete", cgroup))


def test_parallel_containers_join_their_groups(runtime_name: str, together: Together) -> None:
    mine = {f"{runtime_name}{number}" for number in range(OF_EACH)}
    print(f"| {runtime_name} | {SHARE} % | {OF_EACH} | {len(mine & together.at_once)} | {len(mine & together.after)} |")
    said = [one[container] for one in (together.created, together.deleted) for container in mine]
    assert [what for what in said if what] == []
    assert mine <= together.after


@pytest.fixture(scope="module")
def hung(node: Callable[[], Pods]) -> dict[tuple[str, Breakage], list[str]]:
    """Return, by runtime and breakage, the output of one deletion and one creation once hooks hang.

    Each on a separate node, and in a separate share.
    """
    running = {}
    with contextlib.ExitStack() as shares:
        for number, (runtime, breakage) in enumerate(itertools.product(RUNTIMES, HANGING)):
            old, new = f"old{number}", f"new{number}"
            pods = node()
            pods.add(old, runtime)
            pods.add(new, runtime)
            pods.of[old].runtime.command(*pods.words("create", old)[1:])
            assert pods.in_their_groups() == {old}, "it works before"
            breakage(pods.host)
            cgroup = shares.enter_context(starved(f"starved{number}"))
            words = (pods.words("delete", old), pods.words("create", new))
            running[runtime, breakage] = [begin(cgroup, *one) for one in words]
        return {case: [one.failure() for one in both] for case, both in running.items()}


@pytest.mark.parametrize("breakage", HANGING)
def test_hanging_hook_ends(runtime_name: str, breakage: Breakage, hung: dict[tuple[str, Breakage], list[str]]) -> None:
    assert hung[runtime_name, breakage] == ["", ""]
