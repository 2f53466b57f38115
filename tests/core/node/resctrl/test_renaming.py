"""Renaming of groups: a refusal for one group is distinguished from a kernel that cannot rename."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node.resctrl.renaming import can_rename, rename

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
def test_refused_rename_of_one_group_leaves_others_renamable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    node = SharedNode(tmp_path, rmids=8)
    one, other = node.start(), node.start()
    move = node.kernel.rename

    def refuse(old: str, new: str) -> None:
        if old.endswith(one.key):
            raise OSError(number, "Cannot move a MON group that monitors CPUs", old)
        move(old, new)

    monkeypatch.setattr(node.kernel, "rename", refuse)
    monitor = node.context().monitor
    assert not rename(monitor, "", one.key, "", "one")
    assert can_rename(monitor)
    assert rename(monitor, "", other.key, "", "other")
    assert node.kernel.groups() == {("", one.key), ("", "other")}


def test_kernel_that_renames_nothing_is_remembered(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=8)
    pod = node.start()
    node.kernel.refuse_rename = errno.EPERM
    monitor = node.context().monitor
    assert can_rename(monitor)
    assert not rename(monitor, "", pod.key, "", "other")
    assert not can_rename(monitor)
    monitor.boot = "another boot"
    assert can_rename(monitor)
