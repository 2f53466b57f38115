"""Which threads belong to a container: those of its cgroup and of the cgroups below."""

from pathlib import Path

import pytest
from hosts.processes import headless_process, is_headless, wait_until

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host import cgroup_tasks as tasks


def listed(folder: Path, *tids: int, name: str = "cgroup.threads") -> Path:
    """Return a cgroup with these threads."""
    folder.mkdir()
    (folder / name).write_text("".join(f"{tid}\n" for tid in tids))
    return folder


def test_thread_of_another_pid_namespace_is_ignored(tmp_path: Path) -> None:
    top = listed(tmp_path / "top", 0, 1, 7)  # 0 written to `tasks` would move the hook itself
    assert tasks.CgroupThreads(str(top)).tids == [1, 7]


def test_nested_cgroups_are_searched_nearest_first_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_CGROUPS", 4)
    top = listed(tmp_path / "c", 10)
    for number in range(2):
        listed(listed(top / f"b{number}", 20 + number) / "deep", 30 + number)
    found = tasks.CgroupThreads(str(top)).tids
    assert (found[0], sorted(found[1:3]), len(found)) == (10, [20, 21], 4)


def test_leaf_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = listed(tmp_path / "top", 7)
    monkeypatch.setattr(tasks, "_may_have_folders", lambda _folder: False)
    listed(top / "below", 8)
    assert tasks.CgroupThreads(str(top)).tids == [7]


def test_removed_cgroup_has_no_tasks(tmp_path: Path) -> None:
    assert tasks.CgroupThreads(str(tmp_path / "gone")).tids == []


def test_unreadable_cgroup_is_reported(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / tasks._LISTS[0]).mkdir()
    with pytest.raises(HookError, match="cannot read") as raised:
        tasks.CgroupThreads(str(tmp_path / "top"))
    assert raised.value.errno


def test_threads_two_hundred_cgroups_deep_are_found(tmp_path: Path) -> None:
    folder = tmp_path
    for depth in range(200):
        folder = listed(folder / "c", depth + 10)
    assert tasks.threads_of_container("", str(tmp_path / "c"), 1) == list(range(10, 210))


def test_path_longer_than_kernel_limit_ends_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_LONGEST_PATH", len(str(tmp_path)) + 5)
    folder = tmp_path
    for depth in range(4):
        folder = listed(folder / "c", depth + 10)
    assert tasks.threads_of_container("", str(tmp_path / "c"), 1) == [10, 11]


def test_version_2_thread_list_suffices(tmp_path: Path) -> None:
    top = listed(tmp_path / "top", 7)
    (top / "tasks").write_text("8\n")
    assert tasks.threads_of_container("", str(top), 1) == [7]


def process(proc: Path, pid: int, **children: str) -> None:
    """A process whose threads have these children, or have "ended" a moment ago."""
    for tid, listed_children in children.items():
        folder = proc / str(pid) / "task" / tid.removeprefix("t")
        folder.mkdir(parents=True)
        if listed_children != "ended":
            (folder / "children").write_text(listed_children)


@pytest.mark.parametrize(
    "children, others, found",
    [
        ({"t5": "ended", "t6": "8", "t7": "ended"}, "9 ", [5, 6, 7, 8, 9]),  # ending threads hide no descendants
        ({"t5": "9 8", "t6": "8"}, "", [5, 6, 8, 9]),  # 8 went from one to the other between our looks
    ],
)
def test_each_descendant_of_a_container_without_cgroup_is_found_once(
    tmp_path: Path, children: dict[str, str], others: str, found: list[int]
) -> None:
    process(tmp_path, 5, **children)
    process(tmp_path, 8, t8=others)
    process(tmp_path, 9, t9="")
    assert sorted(tasks.threads_of_container(str(tmp_path), "", 5)) == found


def test_ended_main_thread_is_no_thread_of_a_container_without_cgroup() -> None:
    with headless_process() as headless:
        wait_until(lambda: is_headless(headless.pid), "its main thread has ended")
        (other,) = tasks.threads_of_container("/proc", "", headless.pid)
        assert other != headless.pid


def test_processes_file_is_read_only_in_plain_folders(tmp_path: Path) -> None:
    process(tmp_path, 5, t5="8")
    process(tmp_path, 8, t8="")
    cgroup = tmp_path / "cgroup"
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == [], (
        "the container has ended, and pid 5 may be reused"
    )
    cgroup.mkdir()
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == [5, 8]
    (cgroup / "cgroup.threads").touch()
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == []
