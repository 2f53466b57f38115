"""A read that fails says nothing: neither that a value is gone, nor that it is another's."""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
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
CONTENTS: dict[str, tuple[Any, str]] = {
    "/proc": (procfs, "read_kernel_file"),
    "tasks of a cgroup": (cgroup_tasks, "read_kernel_file"),
    "groups and tasks": (Filesystem, "read"),
}
"""Reads of a pass of reconcile and of the exec watcher that return a file's content."""
READS: dict[str, tuple[Any, str]] = {
    **CONTENTS,
    "folders of cgroups": ("resctrl_hooks.core.node.lifecycle", "is_folder"),
    "list of groups": (Filesystem, "listdir"),
    "existence of groups": (Filesystem, "is_folder"),
    "records of pods": (Ledger, "read_pod"),
    "records of containers": (Ledger, "read_member"),
    "list of containers": (Ledger, "containers"),
    "marks": (Ledger, "marked"),
}


@contextmanager
def answering(read: tuple[Any, str], answer: bytes) -> Iterator[None]:
    """Let a read return this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*read, lambda *_, **__: answer)
        yield


TROUBLES: dict[str, Any] = {
    f"{name}, {errno.errorcode[number]}": partial(failing, *read, OSError(number, "no answer", "/some/file"))
    for name, read in READS.items()
    for number in ERRORS
} | {
    f"{name}, {what}": partial(answering, read, content)
    for name, read in CONTENTS.items()
    for what, content in ANSWERS.items()
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_living_pod_is_neither_released_nor_forgotten_while_nothing_can_tell(
    tmp_path: Path, trouble: Callable[[], AbstractContextManager[None]]
) -> None:
    cluster = Cluster(tmp_path)
    id_, pid = cluster.start(1)
    member = next((cluster.state / "pods").rglob(f"c-{id_}"))
    context = cluster.context()
    containers = Containers(context.ledger)
    containers.refresh()
    with trouble(), suppress(HookError, OSError):
        cluster.reconcile()
    assert cluster.groups_of(pid) == {("", POD)}
    assert member.exists()
    entered = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}")
    with trouble(), suppress(HookError, OSError):
        serve(context, containers, entered)
    if cluster.groups_of(entered) != {("", POD)}:
        assert serve(context, containers, entered).what == MOVED
    cluster.reconcile()
    assert cluster.groups_of(pid) == cluster.groups_of(entered) == {("", POD)}
    assert containers.of_id(id_) is not None
