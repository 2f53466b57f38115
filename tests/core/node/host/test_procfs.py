import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from conftest import BOOT, Host, stat_line, temporary_host
from hosts.processes import headless_process, is_headless, wait_until
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.procfs import (
    Cgroup,
    boot_id,
    cgroups_of,
    groups_of_process,
    in_initial_user_namespace,
    lives,
    living_thread,
    resctrl_groups_of,
    start_time,
    threads_of,
)


def test_unified_host_is_parsed(host: Host) -> None:
    host.process(7, "/kubepods/pod1/crio-x")
    (found,) = cgroups_of(str(host.proc), 7)
    assert (found.hierarchy, found.path) == ("", "/kubepods/pod1/crio-x")
    assert found.folder("/sys/fs/cgroup") == "/sys/fs/cgroup/kubepods/pod1/crio-x"
    assert found.folder("/sys/fs/cgroup", "/kubepods") == "/sys/fs/cgroup/kubepods"


def test_both_cgroup_versions_are_parsed(host: Host) -> None:
    host.process(7)
    (host.proc / "7/cgroup").write_text("9:name=systemd:/a\n4:memory:/b:c\n1:cpu,cpuacct:/\n0::/d\nrubbish\njunk:x\n")
    found = [(cgroup.hierarchy, cgroup.path) for cgroup in cgroups_of(str(host.proc), 7)]
    assert found == [("unified", "/d"), ("systemd", "/a"), ("memory", "/b:c"), ("cpu,cpuacct", "/")]
    assert Cgroup("memory", "/b").folder("/c") == "/c/memory/b"
    assert Cgroup("memory", "/").folder("/c") == "/c/memory"


@pytest.mark.parametrize("feed", ["\f", "\v", "\x1c", "\x85", "\u2028", "\r"])
def test_newline_in_cgroup_name_starts_no_line(host: Host, feed: str) -> None:
    """The kernel refuses only a line feed in a cgroup's name, not Python's other line separators."""
    host.process(7)
    path = f"/own/a{feed}0::/kubepods/pod1"
    (host.proc / "7/cgroup").write_bytes(f"0::{path}\n".encode())
    assert [(cgroup.hierarchy, cgroup.path) for cgroup in cgroups_of(str(host.proc), 7)] == [("", path)]


def test_ended_process_has_no_cgroup(host: Host) -> None:
    proc = str(host.proc)
    assert cgroups_of(proc, 7) == []
    assert threads_of(proc, 7) == []
    assert start_time(proc, 7) == 0
    with pytest.raises(ProcessLookupError):
        resctrl_groups_of(proc, 7)
    with pytest.raises(ProcessLookupError):
        resctrl_groups_of(proc, 7, 8)


@pytest.mark.parametrize(
    "text, found",
    [
        ("res:/\nmon:\n", ("", "")),
        ("res:gold\nmon:podA\n", ("gold", "podA")),
        ("res:with space\nmon:a:b\n", ("with space", "a:b")),
        ("res:\nmon:\n", None),
        ("", None),
        ("rubbish\n", None),
    ],
)
def test_place_of_task_is_read(host: Host, text: str, found: tuple[str, str] | None) -> None:
    host.process(7, threads=(8,))
    for folder in ("7", "7/task/8"):
        (host.proc / folder / "cpu_resctrl_groups").write_text(text)
    assert resctrl_groups_of(str(host.proc), 7) == found
    assert resctrl_groups_of(str(host.proc), 7, 8) == found


def test_threads_of_real_process_are_listed() -> None:
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(3)]
    for other in others:
        other.start()
    try:
        found = threads_of("/proc", os.getpid())
        assert {os.getpid(), *(other.native_id for other in others)} <= set(found)
    finally:
        stop.set()
        for other in others:
            other.join()


def test_start_time_identifies_process() -> None:
    mine = start_time("/proc", os.getpid())
    assert mine == start_time("/proc", os.getpid()) > 0
    with subprocess.Popen(["sleep", "60"]) as child:
        assert start_time("/proc", child.pid) >= mine
        child.kill()
        deadline = time.monotonic() + 300
        while start_time("/proc", child.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert start_time("/proc", child.pid) == 0  # a zombie: ended, and its parent has not looked yet
    for none in (0, -1):
        assert start_time("/proc", none) == 0


def test_stat_line_has_the_start_time_in_its_last_read_field(host: Host) -> None:
    host.process(7)
    (host.proc / "7/stat").write_text(" ".join(stat_line(7, 1000).split(" ")[: 5 + 19]))
    assert start_time(str(host.proc), 7) == 1000


def test_process_lives_with_its_own_start_time_only(host: Host) -> None:
    host.process(7, start=500)
    proc = str(host.proc)
    assert lives(proc, 7, 500)
    assert not any(lives(proc, *other) for other in ((7, 501), (7, 0), (7, None), (8, 500), (8, 0)))


@given(st.integers(1, 1 << 22), st.integers(1, 1 << 50), st.sampled_from("RSDTtIZXx"))
def test_any_stat_line_is_parsed(pid: int, start: int, letter: str) -> None:
    with temporary_host() as host:
        host.process(pid)
        (host.proc / str(pid) / "stat").write_text(stat_line(pid, start, letter))
        assert start_time(str(host.proc), pid) == (0 if letter in "ZXx" else start)


@pytest.mark.parametrize(
    "text",
    ["", "1", "1 (x", "1 (x) S 2 3", ")", "1 (x) Z 2", f"7 (x) S{' x' * 30}"]
    + [" ".join(stat_line(7, 1000).split(" ")[: 5 + fields]) for fields in (17, 18)],
)
def test_stat_line_of_another_form_says_neither_that_it_lives_nor_that_it_ended(host: Host, text: str) -> None:
    host.process(7)
    (host.proc / "7/stat").write_text(text)
    with pytest.raises(OSError, match="not of the form"):
        start_time(str(host.proc), 7)


def test_boot_id_is_read(host: Host, tmp_path: Path) -> None:
    assert boot_id(str(host.proc)) == BOOT
    assert boot_id(str(tmp_path)) == ""
    assert boot_id("/proc") == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_user_namespace_is_recognized() -> None:
    mapped = Path("/proc/self/uid_map").read_text().split()
    assert in_initial_user_namespace() == (mapped == ["0", "0", "4294967295"])


def test_process_0_does_not_exist(host: Host) -> None:
    """A poststop's state may say so; /proc has no such folder, but a made-up one might."""
    host.process(0)
    assert start_time(str(host.proc), 0) == 0


def test_process_lives_after_the_end_of_its_main_thread() -> None:
    with headless_process() as process:
        start = start_time("/proc", process.pid)
        assert start
        wait_until(lambda: is_headless(process.pid), "the main thread has ended")
        (other,) = [tid for tid in threads_of("/proc", process.pid) if tid != process.pid]
        assert start_time("/proc", process.pid) == start
        assert lives("/proc", process.pid, start)
        assert living_thread("/proc", process.pid) == other
        assert process.stdin is not None
        process.stdin.close()
        wait_until(lambda: not lives("/proc", process.pid, start), "its last thread has ended")
        assert living_thread("/proc", process.pid) == 0
        assert process.poll() is not None


def headless_in(host: Host, letters: str, cgroup: str = "0::/a\n") -> None:
    """Make process 7 whose main thread has ended, with a thread in each of these states."""
    host.process(7, threads=tuple(range(8, 8 + len(letters))), start=500)
    ended = stat_line(7, 500, "Z").split(" ")
    ended[4 + 17] = str(1 + len(letters))
    (host.proc / "7/stat").write_text(" ".join(ended))
    for tid, letter in enumerate(letters, 8):
        (host.proc / f"7/task/{tid}/stat").write_text(stat_line(tid, 600, letter))
        (host.proc / f"7/task/{tid}/cgroup").write_text(cgroup)


@pytest.mark.parametrize("letters, living", [("S", 8), ("ZR", 9), ("Z", 0), ("XxZ", 0), ("", 0)])
def test_process_without_main_thread_lives_with_its_last_thread(host: Host, letters: str, living: int) -> None:
    headless_in(host, letters)
    assert lives(str(host.proc), 7, 500) == bool(living)
    assert living_thread(str(host.proc), 7) == living


def test_rdt_class_of_process_without_main_thread_is_that_of_a_living_thread(host: Host) -> None:
    headless_in(host, "S")
    (host.proc / "7/cpu_resctrl_groups").write_text("res:/\nmon:\n")
    (host.proc / "7/task/8/cpu_resctrl_groups").write_text("res:gold\nmon:pod\n")
    assert groups_of_process(str(host.proc), 7) == ("gold", "pod")
    assert groups_of_process(str(host.proc), host.process(9, rdt="silver")) == ("silver", "")


def test_cgroups_v1_of_process_without_main_thread_are_those_of_a_living_thread(host: Host) -> None:
    own = "4:memory:/pod/x\n1:name=systemd:/pod/x\n"
    headless_in(host, "S", cgroup=f"{own}0::/init\n")
    (host.proc / "7/cgroup").write_text("4:memory:/\n1:name=systemd:/\n0::/init\n")
    found = [(cgroup.hierarchy, cgroup.path) for cgroup in cgroups_of(str(host.proc), 7)]
    assert found == [("unified", "/init"), ("memory", "/pod/x"), ("systemd", "/pod/x")]
    (host.proc / "7/task/8/stat").write_text(stat_line(8, 600, "Z"))
    assert {cgroup.path for cgroup in cgroups_of(str(host.proc), 7)[1:]} == {"/"}
