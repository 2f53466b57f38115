"""Which threads belong to a container: those of its cgroup and of the cgroups below."""

from pathlib import Path

import pytest

from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.host import cgroup_tasks as tasks


def listed(folder: Path, *tids: int, name: str = "cgroup.threads") -> Path:
    """A cgroup with these threads."""
    folder.mkdir()
    (folder / name).write_text("".join(f"{tid}\n" for tid in tids))
    return folder


def test_a_thread_of_another_pid_namespace_is_nobody(tmp_path: Path) -> None:
    top = listed(tmp_path / "top", 0, 1, 7)  # 0 written to `tasks` would move the hook itself
    assert tasks._threads_in_cgroup(str(top), 0) == [1, 7]


def test_cgroups_below_are_searched_to_a_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_MOST_DEPTH", 2)
    folder = tmp_path
    for depth in range(4):
        folder = listed(folder / "c", depth + 10)
    assert tasks._threads_in_cgroup(str(tmp_path / "c"), 0) == [10, 11, 12]


def test_a_leaf_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = listed(tmp_path / "top", 7)
    monkeypatch.setattr(tasks, "_may_have_folders", lambda _folder: False)
    listed(top / "below", 8)
    assert tasks._threads_in_cgroup(str(top), 0) == [7]


def test_a_cgroup_that_is_gone_has_none(tmp_path: Path) -> None:
    assert tasks._threads_in_cgroup(str(tmp_path / "gone"), 0) == []


def test_what_can_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / tasks._LISTS[0]).mkdir()
    with pytest.raises(HookError, match="can't be read") as raised:
        tasks._threads_in_cgroup(str(tmp_path / "top"), 0)
    assert raised.value.errno
