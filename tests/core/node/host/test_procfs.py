"""Processes in /proc and in cgroups: their identity, threads, cgroups and groups."""

from pathlib import Path

import pytest
from conftest import Host, stat_line, temporary_host
from hosts.processes import headless_process, is_headless, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.host import cgroup_tasks as tasks
from resctrl_hooks.core.node.host.procfs import (
    cgroups_of,
    groups_of_process,
    lives,
    living_thread,
    resctrl_groups_of,
    start_time,
    threads_of,
)

ENDED = "ZXx"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n/"), min_size=1, max_size=6)
"""Names of cgroups: the kernel refuses a line feed only, not Python's other line separators."""


def found_in(host: Host, text: str) -> list[tuple[str, str]]:
    host.process(7)
    (host.proc / "7/cgroup").write_bytes(text.encode())
    return [(cgroup.hierarchy, cgroup.path) for cgroup in cgroups_of(str(host.proc), 7)]


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(("memory", "cpu,cpuacct", "name=systemd", "pids")), NAMES), NAMES)
def test_cgroups_of_each_hierarchy_are_read(controllers: dict[str, str], unified: str) -> None:
    lines = [f"{number}:{name}:/{path}\n" for number, (name, path) in enumerate(controllers.items(), 1)]
    with temporary_host() as host:
        found = found_in(host, "".join([*lines, f"0::/{unified}\n", "rubbish\njunk:x\n"]))
    expected = [(name.replace("name=", ""), f"/{path}") for name, path in controllers.items()]
    assert found == [("unified" if controllers else "", f"/{unified}"), *expected]


def test_ended_process_has_nothing(host: Host) -> None:
    proc = str(host.proc)
    assert (cgroups_of(proc, 7), threads_of(proc, 7), start_time(proc, 7), living_thread(proc, 7)) == ([], [], 0, 0)
    for place in ((7,), (7, 8)):
        with pytest.raises(ProcessLookupError):
            resctrl_groups_of(proc, *place)
    host.process(0)  # a poststop's state may name it; /proc has no such folder, but a made-up one might
    assert [start_time(proc, pid) for pid in (0, -1)] == [0, 0]


@settings(max_examples=60)
@given(
    st.integers(1, 1 << 22), st.integers(1, 1 << 50), st.sampled_from("RSDTtI" + ENDED),
    st.lists(st.sampled_from("SR" + ENDED), max_size=4),
)  # fmt: skip
def test_process_lives_with_its_own_start_time_until_its_last_thread_ends(
    pid: int, start: int, letter: str, others: list[str]
) -> None:
    """A process lives on after its main thread's end, which is a zombie then."""
    tids = tuple(range(pid + 1, pid + 1 + len(others)))
    living = [tid for tid, state in zip((pid, *tids), (letter, *others), strict=True) if state not in ENDED]
    with temporary_host() as host:
        proc = str(host.proc)
        host.process(pid, threads=tids)
        fields = stat_line(pid, start, letter).split(" ")
        fields[4 + 17] = str(1 + len(others))
        (host.proc / str(pid) / "stat").write_text(" ".join(fields))
        for tid, state in zip(tids, others, strict=True):
            (host.proc / f"{pid}/task/{tid}/stat").write_text(stat_line(tid, 600, state))
        assert threads_of(proc, pid) == [pid, *tids]
        assert living_thread(proc, pid) == (living[0] if living else 0)
        assert start_time(proc, pid) == (start if living else 0)
        assert lives(proc, pid, start) == bool(living)
        assert not any(lives(proc, *other) for other in ((pid, start + 1), (pid, 0), (pid, None), (pid + 9, start)))


@pytest.mark.parametrize(
    "text",
    ["", "1", "1 (x", "1 (x) S 2 3", ")", "1 (x) Z 2", f"7 (x) S{' x' * 30}"]
    + [" ".join(stat_line(7, 1000).split(" ")[: 5 + fields]) for fields in (17, 18)],
)
def test_stat_line_of_another_form_says_neither_that_it_lives_nor_that_it_ended(host: Host, text: str) -> None:
    host.process(7)
    (host.proc / "7/stat").write_text(" ".join(stat_line(7, 1000).split(" ")[: 5 + 19]))
    assert start_time(str(host.proc), 7) == 1000, "up to the last field that is read"
    (host.proc / "7/stat").write_text(text)
    with pytest.raises(OSError, match="not of the form"):
        start_time(str(host.proc), 7)


def test_real_process_lives_after_the_end_of_its_main_thread() -> None:
    with headless_process() as process:
        start = start_time("/proc", process.pid)
        assert start
        wait_until(lambda: is_headless(process.pid), "the main thread has ended")
        (other,) = [tid for tid in threads_of("/proc", process.pid) if tid != process.pid]
        assert start_time("/proc", process.pid) == start
        assert lives("/proc", process.pid, start)
        assert living_thread("/proc", process.pid) == other
        assert tasks.threads_of_container("/proc", "", process.pid) == [other]
        assert process.stdin is not None
        process.stdin.close()
        wait_until(lambda: not lives("/proc", process.pid, start), "its last thread has ended")
        assert living_thread("/proc", process.pid) == 0
        assert process.poll() is not None


def test_class_and_cgroups_of_process_without_main_thread_are_those_of_a_living_thread(host: Host) -> None:
    host.process(7, threads=(8,))
    (host.proc / "7/stat").write_text(stat_line(7, 500, "Z"))
    (host.proc / "7/cpu_resctrl_groups").write_text("res:/\nmon:\n")
    (host.proc / "7/cgroup").write_text("4:memory:/\n1:name=systemd:/\n0::/init\n")
    other = host.proc / "7/task/8"
    (other / "stat").write_text(stat_line(8, 600))
    (other / "cpu_resctrl_groups").write_text("res:gold\nmon:pod\n")
    (other / "cgroup").write_text("4:memory:/pod/x\n1:name=systemd:/pod/x\n0::/init\n")
    assert groups_of_process(str(host.proc), 7) == ("gold", "pod")
    found = [(cgroup.hierarchy, cgroup.path) for cgroup in cgroups_of(str(host.proc), 7)]
    assert found == [("unified", "/init"), ("memory", "/pod/x"), ("systemd", "/pod/x")]
    (other / "stat").write_text(stat_line(8, 600, "Z"))
    assert {cgroup.path for cgroup in cgroups_of(str(host.proc), 7)[1:]} == {"/"}


# Threads of a container


def listed(folder: Path, *tids: int, name: str = "cgroup.threads") -> Path:
    """Return a cgroup with these threads."""
    folder.mkdir()
    (folder / name).write_text("".join(f"{tid}\n" for tid in tids))
    return folder


def test_nested_cgroups_are_searched_nearest_first_up_to_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = listed(tmp_path / "c", 10)
    for number in range(2):
        listed(listed(top / f"b{number}", 20 + number) / "deep", 30 + number)
    whole = tasks.CgroupThreads(str(top))
    assert (whole.tids[0], sorted(whole.tids[1:3]), sorted(whole.tids[3:]), whole.is_partial) == (
        *(10, [20, 21], [30, 31], False),
    )
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "MOST_CGROUPS", 4)
        found = tasks.CgroupThreads(str(top))
        assert (found.tids[:3], len(found.tids), found.is_partial) == (whole.tids[:3], 4, True)
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "_LONGEST_PATH", len(f"{top}/b0/") + 1)
        assert sorted(tasks.CgroupThreads(str(top)).tids) == [10, 20, 21]
    monkeypatch.setattr(tasks, "_may_have_folders", lambda _folder: False)
    assert tasks.CgroupThreads(str(top)).tids == [10], "a leaf is not listed"


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
    cgroup = tmp_path / "cgroup"
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == [], "the container has ended, and pid 5 may be"
    cgroup.mkdir()
    assert sorted(tasks.threads_of_container(str(tmp_path), str(cgroup), 5)) == found, "a plain folder has no list"
    (cgroup / "cgroup.threads").touch()
    assert tasks.threads_of_container(str(tmp_path), str(cgroup), 5) == []
