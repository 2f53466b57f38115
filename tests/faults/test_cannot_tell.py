"""A read that fails says nothing: neither that a value is gone, nor that it is another's."""

import contextlib
import errno
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hosts.cluster import POD, Cluster
from hosts.faults import failing
from hosts.no_answer import ANSWERS, ERRORS

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host import cgroup_tasks, procfs
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import MOVED, serve

HOUSES = ("lab",)
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

CONTENTS = ("/proc", "tasks of a cgroup", "groups and tasks")
"""Those of the reads above that return a file's content."""


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
