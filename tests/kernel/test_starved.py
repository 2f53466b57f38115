"""A starved node: twenty containers at once, whose runtimes and hooks share a small part of one processor.

Nothing here measures time. The hook is the staged one, with its guard and the timeout that its JSON tells the runtime.
On such a node no healthy hook may be ended for being slow, and one that hangs must end all the same.
"""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from install.breakages import dead_loop, script_fifo

from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Staged
from kernel.pods import CGROUPS, KubernetesPod
from kernel.runtimes import Runtime, wait_until

SLEEP = ["/bin/sleep", "1000"]
AT_ONCE = 20
STARVED = CGROUPS / "starved"
PERIOD = 100_000  # microseconds
SHARE = 40
"""Percent of one processor, for all of the runtimes and their hooks together."""


@pytest.fixture
def share() -> Iterator[int]:
    """A cgroup with that share."""
    (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    STARVED.mkdir()
    (STARVED / "cpu.max").write_text(f"{SHARE * PERIOD // 100} {PERIOD}")
    yield SHARE
    wait_until(lambda: "populated 0" in (STARVED / "cgroup.events").read_text(), "nothing runs in it any more")
    STARVED.rmdir()


def all_at_once(commands: list[list[str]]) -> list[str]:
    """Runs commands in that cgroup; what each of those said that failed, and nothing for the others."""
    enter = ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(STARVED / "cgroup.procs")]
    outputs = [tempfile.TemporaryFile("w+") for _ in commands]  # noqa: SIM115  # no pipes, which containers would inherit
    processes = [
        subprocess.Popen([*enter, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        for words, output in zip(commands, outputs, strict=True)
    ]
    failed = []
    for process, output in zip(processes, outputs, strict=True):
        code = process.wait()
        output.seek(0)
        failed.append(f"exit {code}: {output.read()}" if code else "")
        output.close()
    return failed


@pytest.fixture
def installed(tmp_path: Path) -> Staged:
    """The hook, with the deadline that a host has."""
    staged = Staged(str(tmp_path / "host"))
    staged.configure(deadlineSeconds=3.0)
    return staged


class Pods:
    """Pods of one container each."""

    def __init__(self, count: int, runtime: Runtime, installed: Staged, bundle: Callable[..., str]) -> None:
        uids = {f"c{number}": f"3f0ac7f2-8a3b-4f0e-9a55-{number:012x}" for number in range(count)}
        self.runtime = runtime
        self.of = {name: KubernetesPod(uid, runtime, installed, bundle) for name, uid in uids.items()}

    def create(self) -> list[str]:
        """Creates their containers at once; as `all_at_once` says."""
        bundles = {name: pod.make_bundle(name, SLEEP) for name, pod in self.of.items()}
        return all_at_once([[self.runtime.name, "create", "--bundle", path, name] for name, path in bundles.items()])

    def delete(self) -> list[str]:
        """Deletes their containers at once; as `all_at_once` says."""
        return all_at_once([[self.runtime.name, "delete", "--force", name] for name in self.of])

    def in_their_groups(self, names: list[str]) -> int:
        """How many of these containers are in the groups of their pods."""
        return sum(place_of(self.runtime.pid(name)) == Place("", self.of[name].uid) for name in names)

    def remove(self) -> None:
        """Removes whatever is left of them."""
        for name, pod in self.of.items():
            self.runtime.delete(name, force=True, check=False)
            pod.remove()


@pytest.fixture
def pods(
    runtime_name: str, installed: Staged, bundle: Callable[..., str], resctrl: Resctrl
) -> Iterator[Callable[[int], Pods]]:
    del resctrl
    made: list[Pods] = []

    def make(count: int) -> Pods:
        made.append(Pods(count, Runtime(runtime_name, "cgroupfs"), installed, bundle))
        return made[-1]

    yield make
    for one in made:
        one.remove()


@pytest.mark.usefixtures("resctrl")
def test_twenty_containers_at_once(
    share: int, runtime_name: str, installed: Staged, pods: Callable[[int], Pods]
) -> None:
    twenty = pods(AT_ONCE)
    failed = twenty.create()
    created = [name for name, what in zip(twenty.of, failed, strict=True) if not what]
    at_once = twenty.in_their_groups(created)
    installed.reconcile()
    after = twenty.in_their_groups(created)
    left = twenty.delete()
    print(f"| {runtime_name} | {share} % | {AT_ONCE} | {len(created)} | {at_once} | {after} | {left.count('')} |")
    assert [what for what in failed + left if what] == []
    assert after == AT_ONCE


@pytest.mark.parametrize("breakage", [script_fifo, dead_loop])
def test_a_hook_that_hangs_ends(
    share: int,
    installed: Staged,
    pods: Callable[[int], Pods],
    breakage: Callable[[Path], None],
    tmp_path: Path,
) -> None:
    del share, installed
    one = pods(1)
    breakage(tmp_path / "host")
    assert one.create() + one.delete() == ["", ""]
