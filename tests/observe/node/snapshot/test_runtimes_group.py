"""A look at groups that runtimes create for their containers."""

from __future__ import annotations

import posix
from typing import TYPE_CHECKING, Any

from hosts.shared_node import SharedNode

from resctrl_hooks.observe.node.snapshot.snapshot import take

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


HOUSES = ("lab",)


def test_runtimes_group_is_not_foreign(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=16, limbo=0)
    pod = node.start("shop", threads=3, own_group=True)
    for _ in range(2):
        node.reconcile()
    snapshot = take(node.context())
    assert (snapshot.foreign, snapshot.held) == ({}, {pod.key: {""}})


def opened_by_a_read(node: SharedNode, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that a read opens, in its folder's terms."""
    found: list[str] = []
    real = posix.open

    def open_(path: Any, *rest: Any, **named: Any) -> int:
        found.append(str(path).removeprefix(str(node.host.root)))
        return real(path, *rest, **named)

    context = node.context()
    take(context)
    with monkeypatch.context() as patch:
        patch.setattr(posix, "open", open_)
        take(context)
    return found


def test_look_reads_nothing_more_without_groups_of_runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path, rmids=8)
    shop = [node.start("shop") for _ in range(3)]
    before = opened_by_a_read(node, monkeypatch)
    folders = {path for path in before if path.startswith("/resctrl/mon_groups/")}
    assert folders == {f"/resctrl/mon_groups/{pod.key}" for pod in shop}
    foreign = ("/crun", "/bundle", "/runtimes", "/cdi", "features.d", "/proc/")
    assert [path for path in before if any(part in path for part in foreign)] == []
    node.start("own", own_group=True, beside=shop[0])
    more = opened_by_a_read(node, monkeypatch)
    assert len(more) > len(before)  # the runtime's group
