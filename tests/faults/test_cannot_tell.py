"""A read that fails says nothing: neither that a value is gone, nor that it is another's, nor that a CPU is free."""

import contextlib
import errno
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.cluster import POD, Cluster
from hosts.cpufreq import FAST_VALUES, ClassHost, on
from hosts.faults import failing
from hosts.placed import PlacedHost
from observe.node.guard.node import Node

from resctrl_hooks.core.node.errors import HookError, LedgerError
from resctrl_hooks.core.node.host import cgroup_tasks, procfs
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.node.sharing import runtimes
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import MOVED, serve
from resctrl_hooks.observe.node.guard import lease
from resctrl_hooks.observe.node.guard.lease import NAME
from resctrl_hooks.placement.node import allocations, kubelet, node_values, others

HOUSES = ("placement", "lab")
FULL = {"gold": 20.0, "silver": 20.0, "bronze": 55.0}
ERRORS = (errno.EIO, errno.EMFILE, errno.EACCES, errno.ENOMEM)
GUARD: dict[str, tuple[Any, str]] = {
    "counters and schemata": (Filesystem, "read"),
    "classes and groups": (Filesystem, "listdir"),
    "folders": (Filesystem, "is_folder"),
    "inodes of groups": ("posix", "scandir"),
    "lease": (lease, "write_file"),
}
"""Operations of a guard that samples: each one's owner and name."""


@pytest.fixture(params=ERRORS, ids=lambda number: errno.errorcode[number])
def no_answer(request: pytest.FixtureRequest) -> OSError:
    """An error that says nothing about the file."""
    return OSError(request.param, "no answer", "/some/file")


@pytest.mark.parametrize("operation", GUARD.values(), ids=GUARD)
def test_guard_holds_a_cut_while_it_cannot_read(host: Host, operation: tuple[Any, str], no_answer: OSError) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    assert node.limit("bronze") == "MB:0=90"
    with failing(*operation, no_answer):
        node.pass_time(guard, FULL, 2)
    assert node.limit("bronze") == "MB:0=90"
    assert (host.state / NAME).exists()
    assert not any("another program" in line for line in node.lines)
    node.pass_time(guard, FULL, 60)
    assert node.limit("bronze") == "MB:0=20"
    assert guard.end()
    assert node.limit("bronze") == "MB:0=100"
    assert not (host.state / NAME).exists()


@pytest.mark.parametrize("operation", [GUARD[name] for name in ("counters and schemata", "classes and groups")])
def test_guard_restores_all_values_if_it_cannot_read_for_long(host: Host, operation: tuple[Any, str]) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    schemata = node.root / "bronze/schemata"

    def counters(_: Any, path: str) -> bool:
        return path != str(schemata)

    with failing(*operation, OSError(errno.EIO, "no answer"), when=counters):
        node.pass_time(guard, FULL, 20)
    assert node.limit("bronze") == "MB:0=100"


NODE: dict[str, tuple[Any, str]] = {
    "/proc": (procfs, "read_kernel_file"),
    "tasks of a cgroup": (cgroup_tasks, "read_kernel_file"),
    "folders of cgroups": ("resctrl_hooks.core.node.lifecycle", "is_folder"),
    "groups and tasks": (Filesystem, "read"),
    "list of groups": (Filesystem, "listdir"),
    "existence of groups": (Filesystem, "is_folder"),
    "records of pods": (Ledger, "read_pod"),
    "records of containers": (Ledger, "read_member"),
    "list of containers": (Ledger, "containers"),
    "marks": (Ledger, "marked"),
}
"""Reads of a pass of reconcile and of the exec watcher."""

ANSWERS = {"empty": b"", "a line": b"\n", "no text": b"\xff\xfe\0garbage\n\n0::", "digits": b"9" * 5000}
"""Contents that no file of the kernel has."""
CONTENTS = ("/proc", "tasks of a cgroup", "groups and tasks")
"""Those of the reads above that return a file's content."""


@pytest.fixture(params=[*ANSWERS.values()], ids=[*ANSWERS])
def answer(request: pytest.FixtureRequest) -> bytes:
    """An answer without meaning."""
    return bytes(request.param)


@contextlib.contextmanager
def answering(read: tuple[Any, str], answer: bytes) -> Iterator[None]:
    """Let a read return this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*read, lambda *_, **__: answer)
        yield


def troubles() -> Iterator[Any]:
    """Yield a context for each read that fails with each error, or returns each content."""
    for name, read in NODE.items():
        for number in ERRORS:
            error = OSError(number, "no answer", "/some/file")
            yield pytest.param(partial(failing, *read, error), id=f"{name}, {errno.errorcode[number]}")
    for name in CONTENTS:
        for what, content in ANSWERS.items():
            yield pytest.param(partial(answering, NODE[name], content), id=f"{name}, {what}")


Trouble = Callable[[], contextlib.AbstractContextManager[None]]


@pytest.mark.parametrize("trouble", [*troubles()])
def test_reconcile_releases_no_living_pod_while_it_cannot_tell(tmp_path: Path, trouble: Trouble) -> None:
    cluster = Cluster(tmp_path)
    id_, pid = cluster.start(1)
    member = next((cluster.host.state / "pods").rglob(f"c-{id_}"))
    with trouble(), contextlib.suppress(HookError, OSError):
        cluster.reconcile()
    assert cluster.groups_of(pid) == {("", POD)}
    assert member.exists()
    cluster.reconcile()
    assert cluster.groups_of(pid) == {("", POD)}


@pytest.mark.parametrize("trouble", [*troubles()])
def test_watcher_forgets_no_container_while_it_cannot_tell(tmp_path: Path, trouble: Trouble) -> None:
    cluster = Cluster(tmp_path)
    id_, _ = cluster.start(1)
    context = cluster.context()
    containers = Containers(context.ledger)
    containers.refresh()
    pid = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}")
    with trouble(), contextlib.suppress(HookError, OSError):
        serve(context, containers, pid)
    if cluster.groups_of(pid) != {("", POD)}:
        assert serve(context, containers, pid).what == MOVED
    assert cluster.groups_of(pid) == {("", POD)}
    assert containers.of_id(id_) is not None


@pytest.mark.parametrize("ending", ["", "schemata", "mbm_total_bytes"], ids=["all", "schemata", "counters"])
def test_guard_holds_a_cut_for_an_answer_without_meaning(host: Host, ending: str, answer: bytes) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    read = Filesystem.read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filesystem, "read", lambda fs, path: answer if path.endswith(ending) else read(fs, path))
        node.pass_time(guard, FULL, 2)
        if ending == "schemata":
            assert not guard.end()
    assert node.limit("bronze") == "MB:0=90"
    assert (host.state / NAME).exists()
    node.pass_time(guard, FULL, 60)
    assert node.limit("bronze") == "MB:0=20"
    assert guard.end()
    assert node.limit("bronze") == "MB:0=100"


def test_watcher_keeps_its_containers_if_the_ledger_does_not_answer(tmp_path: Path, no_answer: OSError) -> None:
    cluster = Cluster(tmp_path)
    id_, _ = cluster.start(1)
    containers = Containers(cluster.context().ledger)
    containers.refresh()
    with failing("posix", "stat", no_answer), contextlib.suppress(HookError):
        containers.refresh()
    assert containers.of_id(id_) is not None


def test_reserve_for_runtimes_survives_a_record_that_cannot_be_read(tmp_path: Path, no_answer: OSError) -> None:
    ledger = Cluster(tmp_path).context().ledger
    runtimes.note(ledger, 7)
    with failing(runtimes, "read_file", no_answer), contextlib.suppress(LedgerError):
        runtimes.note(ledger, 3)
    assert max(runtimes.read_peaks(ledger).values()) == 7


@pytest.mark.parametrize("content", ["", "{", '{"boot": 1}'])
def test_damaged_record_of_previous_values_is_set_aside_with_one_line(host: Host, content: str) -> None:
    node = ClassHost(host)
    node.start("a", 500)
    record = host.state / "placement.cpus"
    record.write_text(content)
    for _ in range(2):
        assert reconcile(host.context()).ok
    assert (host.state / "placement.cpus.damaged").read_text() == content
    (line,) = [line for line in host.log.read_text().splitlines() if "set aside" in line]
    assert f"{record} is damaged (" in line
    assert "the previous values of CPU classes are lost, so those that are changed now stay until a reboot" in line


def test_previous_values_of_the_node_survive_a_record_that_cannot_be_read(host: Host, no_answer: OSError) -> None:
    node = ClassHost(host)
    node.start("a", 500)
    with failing(node_values, "read_file", no_answer):
        reconcile(host.context())
        node.start("b", 500)
    assert node.cpufreq.changed() == on("0-3", FAST_VALUES)
    for name in ("a", "b"):
        node.stop(name)
    assert reconcile(host.context()).ok
    assert node.cpufreq.changed() == {}


CPUS = "cpus.resctrl-hooks.io"
PLACEMENT: dict[str, tuple[Any, str]] = {
    "allocations and topology": (allocations, "read_file"),
    "online CPUs": (allocations, "kernel_text"),
    "kubelet's state": (kubelet, "read_file"),
    "folders of others": (others, "list_folder"),
    "/proc": (procfs, "read_kernel_file"),
    "records of containers": (Ledger, "read_member"),
}
"""Reads of placement in a pass of reconcile: each one's owner and name."""


@pytest.mark.parametrize("operation", PLACEMENT.values(), ids=PLACEMENT)
def test_exclusive_cpus_stay_while_placement_cannot_read(
    host: Host, operation: tuple[Any, str], no_answer: OSError
) -> None:
    node = PlacedHost(host)
    (host.root / "kubelet").mkdir()
    (host.root / "kubelet/cpu_manager_state").write_text('{"policyName": "none"}')
    node.start("gold", 4000, **{CPUS: "exclusive"})
    node.start("bronze", 500)
    before = {name: node.cpus(name) for name in ("gold", "bronze")}
    assert parse_list(before["gold"]).bit_count() == 4
    asked: list[Any] = []
    context = host.context()

    def ask(*words: Any, **_: Any) -> bool:
        asked.append(words)
        return True

    with failing(*operation, no_answer, when=ask), contextlib.suppress(HookError):
        reconcile(context)
    assert asked
    assert {name: node.cpus(name) for name in before} == before
    reconcile(host.context())
    assert {name: node.cpus(name) for name in before} == before
    node.start("new", 4000, **{CPUS: "exclusive"})
    assert not parse_list(node.cpus("new")) & parse_list(before["gold"])
