"""`tasks`, `cpus` and `cpus_list`: permitted moves, accepted writes, and what is listed."""

import errno
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from .filesystem import PATIENCE, Resctrl, eventually

GONE = 4_194_305  # higher than any thread id can be
NO_TASK = f"No task {GONE}\nError while processing task {GONE}"


@contextmanager
def waiting_thread(first: Callable[[], object] = int) -> Iterator[int]:
    """A second thread of this process, which does something first; its id."""
    begun, end = threading.Event(), threading.Event()

    def run() -> None:
        first()
        begun.set()
        end.wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield thread.native_id or 0
    finally:
        end.set()
        thread.join()


@pytest.fixture
def own_process(resctrl: Resctrl) -> Iterator[int]:
    """Return this process, brought back to the root group afterwards."""
    yield os.getpid()
    resctrl.write("tasks", str(os.getpid()))


@pytest.mark.parametrize("origin", ["tasks", "mon_groups/a/tasks", "silver/tasks"])
def test_mon_group_of_another_class_is_einval(resctrl: Resctrl, task: int, origin: str) -> None:
    resctrl.make("gold", "silver", "mon_groups/a", "gold/mon_groups/a")
    resctrl.write(origin, str(task))
    words = f"Can't move task to different control group\nError while processing task {task}"
    with resctrl.refused(errno.EINVAL, words):
        resctrl.write("gold/mon_groups/a/tasks", str(task))
    assert resctrl.tasks("gold/mon_groups/a") == set()
    assert task in resctrl.tasks(os.path.dirname(origin))


@pytest.mark.parametrize(
    "moves, groups",
    [
        (["gold", "gold/mon_groups/c"], ["gold", "gold/mon_groups/c"]),
        (["mon_groups/a", "mon_groups/b"], ["", "mon_groups/b"]),
        (["mon_groups/a", "mon_groups/a"], ["", "mon_groups/a"]),
        (["mon_groups/a", ""], [""]),
        (["mon_groups/a", "gold"], ["gold"]),
        (["gold", "gold/mon_groups/c", "gold"], ["gold"]),
    ],
)
def test_task_is_in_one_class_and_at_most_one_mon_group(
    resctrl: Resctrl, task: int, moves: list[str], groups: list[str]
) -> None:
    made = ["mon_groups/a", "mon_groups/b", "gold", "gold/mon_groups/c"]
    resctrl.make(*made)
    for group in moves:
        resctrl.write(f"{group}/tasks".lstrip("/"), str(task))
    assert [group for group in ["", *made] if task in resctrl.tasks(group)] == groups


def test_class_lists_the_tasks_of_its_mon_groups_too(resctrl: Resctrl, process: Callable[[], int]) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "mon_groups/a")
    first, second, third = process(), process(), process()
    moves = (("gold", first), ("gold", second), ("gold/mon_groups/a", second), ("mon_groups/a", third))
    for group, task in moves:
        resctrl.write(f"{group}/tasks", str(task))
    assert (resctrl.tasks("gold"), resctrl.tasks("gold/mon_groups/a")) == ({first, second}, {second})
    assert {1, third, os.getpid()} <= resctrl.tasks() - {first, second}
    assert not {first, second} & resctrl.tasks()


def test_pid_moves_one_thread_and_no_child(resctrl: Resctrl, own_process: int, task: int) -> None:
    resctrl.make("mon_groups/a")
    with waiting_thread() as tid:
        resctrl.write("mon_groups/a/tasks", str(own_process))
        assert resctrl.tasks("mon_groups/a") == {own_process}
        assert {tid, task} <= resctrl.tasks()
        resctrl.write("mon_groups/a/tasks", str(tid))
        assert resctrl.tasks("mon_groups/a") == {own_process, tid}
    eventually(lambda: resctrl.tasks("mon_groups/a") == {own_process})


def test_zero_means_the_writing_thread(resctrl: Resctrl, own_process: int) -> None:
    resctrl.make("mon_groups/a", "mon_groups/b")
    assert resctrl.write("mon_groups/a/tasks", "0") == 1
    assert resctrl.tasks("mon_groups/a") == {own_process}
    with waiting_thread(lambda: resctrl.write("mon_groups/b/tasks", "0")) as tid:
        assert resctrl.tasks("mon_groups/b") == {tid}


def test_missing_task_is_esrch(resctrl: Resctrl) -> None:
    with resctrl.refused(errno.ESRCH, NO_TASK):
        resctrl.write("tasks", str(GONE))


def test_dead_task_is_listed_until_reaped(resctrl: Resctrl) -> None:
    resctrl.make("mon_groups/a")
    with subprocess.Popen(["sleep", "1000"]) as started:
        resctrl.write("mon_groups/a/tasks", str(started.pid))
        started.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
        assert resctrl.tasks("mon_groups/a") == {started.pid}
        resctrl.write("mon_groups/a/tasks", str(started.pid))
    assert resctrl.tasks("mon_groups/a") == set()
    with resctrl.refused(errno.ESRCH):
        resctrl.write("mon_groups/a/tasks", str(started.pid))


@pytest.mark.parametrize("text", ["-1", "-2147483648", "-1,0"])
def test_negative_id_is_einval(resctrl: Resctrl, text: str) -> None:
    with resctrl.refused(errno.EINVAL, f"Invalid pid {text.partition(',')[0]}"):
        resctrl.write("tasks", text)


@pytest.mark.parametrize("form", ["{}", "{}\n", " {} ", "\t{}", "+{}", "{:#x}", "0{:o}"])
def test_id_is_accepted_in_number_formats_of_the_kernel(resctrl: Resctrl, task: int, form: str) -> None:
    resctrl.make("mon_groups/a")
    text = form.format(task)
    resctrl.poison()
    assert resctrl.write("mon_groups/a/tasks", text) == len(text)
    assert (resctrl.tasks("mon_groups/a"), resctrl.status) == ({task}, "ok")


def test_empty_write_succeeds_without_effect(resctrl: Resctrl) -> None:
    resctrl.make("mon_groups/a")
    assert (resctrl.write("mon_groups/a/tasks", ""), resctrl.tasks("mon_groups/a")) == (0, set())


def test_each_write_to_open_file_is_a_command(resctrl: Resctrl, process: Callable[[], int]) -> None:
    resctrl.make("mon_groups/a")
    first, second = process(), process()
    with resctrl.opened(os.O_RDWR, "mon_groups/a/tasks") as descriptor:
        for task in (first, second):
            assert os.write(descriptor, str(task).encode()) == len(str(task))
        os.lseek(descriptor, 0, os.SEEK_SET)
        assert os.read(descriptor, 4096).split() == [str(task).encode() for task in sorted((first, second))]


@pytest.mark.parametrize(
    "form, number, words, moved",
    [
        ("{0},{1}", 0, None, [0, 1]),
        ("{0}, {1},\n", 0, None, [0, 1]),
        (f"{{0}},{GONE},{{1}}", errno.ESRCH, NO_TASK, [0]),
        ("{0},abc,{1}", errno.EINVAL, "Task list parsing error pid abc", [0]),
    ],
)
def test_task_list_moves_all_up_to_the_first_bad_id(
    resctrl: Resctrl, process: Callable[[], int], form: str, number: int, words: str | None, moved: list[int]
) -> None:
    resctrl.make("mon_groups/a")
    tasks = [process(), process()]
    with resctrl.refused(number, words) if number else nullcontext():
        assert resctrl.write("mon_groups/a/tasks", form.format(*tasks))
    assert resctrl.tasks("mon_groups/a") == {tasks[place] for place in moved}


def test_only_root_and_the_owner_can_move_a_task(resctrl: Resctrl, task: int) -> None:
    resctrl.make("mon_groups/a")
    with resctrl.opened(os.O_WRONLY, "mon_groups/a/tasks") as descriptor:
        words = ["/usr/bin/python3", "-I", "-S", "-c", f"import os; os.write({descriptor}, b'{task}')"]
        other: dict[str, Any] = {"user": 65534, "extra_groups": [], "cwd": "/", "pass_fds": [descriptor]}
        done = subprocess.run(words, **other, capture_output=True, text=True, check=False)
    assert "PermissionError: [Errno 1]" in done.stderr
    assert resctrl.status in resctrl.as_said(f"No permission to move task {task}\nError while processing task {task}")
    assert resctrl.tasks("mon_groups/a") == set()


def in_group(tid: int) -> list[str]:
    with open(f"/proc/{tid}/cpu_resctrl_groups", encoding="utf-8") as file:
        return file.read().split()


@pytest.mark.kernel_only
def test_proc_shows_place_of_task(resctrl: Resctrl, task: int) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "mon_groups/b")
    assert in_group(task) == ["res:/", "mon:"]
    for path, rdt_class, group in ("mon_groups/b", "/", "b"), ("gold", "gold", ""), ("gold/mon_groups/a", "gold", "a"):
        resctrl.write(f"{path}/tasks", str(task))
        assert in_group(task) == [f"res:{rdt_class}", f"mon:{group}"]
    resctrl.rmdir("gold")
    assert in_group(task) == ["res:/", "mon:"]


@pytest.mark.kernel_only
def test_children_inherit_the_group_and_orphans_stay(
    resctrl: Resctrl, own_process: int, process: Callable[[], int]
) -> None:
    resctrl.make("mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(own_process))
    child = process()
    assert in_group(child) == ["res:/", "mon:a"]
    assert resctrl.tasks("mon_groups/a") == {own_process, child}
    # Its parents are gone before the first read: /proc alone no longer shows its origin.
    script = "(sleep 1000 >/dev/null & echo $!) & wait"
    orphan = int(subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout)
    try:
        assert in_group(orphan) == ["res:/", "mon:a"]
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.kernel_only
def test_new_thread_inherits_group_of_the_starting_thread(resctrl: Resctrl) -> None:
    resctrl.make("mon_groups/a")
    places = list[list[str]]()

    def start() -> None:
        resctrl.write("mon_groups/a/tasks", "0")
        with waiting_thread() as tid:
            places.append(in_group(tid))

    with waiting_thread(start):
        assert places == [["res:/", "mon:a"]]
    assert in_group(os.getpid()) == ["res:/", "mon:"]


@pytest.fixture
def last(resctrl: Resctrl) -> int:
    mask = int(resctrl.read("cpus").replace(",", ""), 16)
    assert mask & 3 == 3, "needs two CPUs"
    return mask.bit_length() - 1


def cpus(resctrl: Resctrl, group: str = "") -> int:
    """Return the mask of a group after checking that both files agree."""
    mask = int(resctrl.read(group, "cpus").replace(",", ""), 16)
    spans = [span.partition("-") for span in resctrl.read(group, "cpus_list").strip().split(",") if span]
    assert mask == sum(1 << cpu for first, _, end in spans for cpu in range(int(first), int(end or first) + 1))
    return mask


def test_class_takes_cpus_from_root_which_cannot_drop_them_and_returns_them(resctrl: Resctrl, last: int) -> None:
    everything = cpus(resctrl)
    assert everything == (1 << (last + 1)) - 1
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "1\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl)) == (2, everything & ~2)
    resctrl.write("gold/cpus", "1\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl)) == (1, everything & ~1)
    resctrl.rmdir("gold")
    assert cpus(resctrl) == everything
    with resctrl.refused(errno.EINVAL, "Can't drop CPUs from default group"):
        resctrl.write("cpus_list", "0\n")
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "1\n")
    resctrl.write("cpus_list", f"0-{last}\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl)) == (0, everything)


def test_class_takes_cpus_from_another_class_and_mon_group_has_those_of_its_class_only(resctrl: Resctrl) -> None:
    resctrl.make("gold", "silver", "gold/mon_groups/a", "gold/mon_groups/b")
    for group, text, shown in (
        ("gold", "0-1\n", {"gold": 3}),
        ("silver", "1\n", {"gold": 1, "silver": 2}),
        ("gold", "1\n", {"gold": 2, "silver": 0}),
        ("gold/mon_groups/a", "1\n", {"gold/mon_groups/a": 2, "gold": 2}),
        ("gold/mon_groups/b", "1\n", {"gold/mon_groups/a": 0, "gold/mon_groups/b": 2}),
        ("gold", "0-1\n", {"gold/mon_groups/b": 0}),  # a write to the class takes them
    ):
        resctrl.write(f"{group}/cpus_list", text)
        assert {name: cpus(resctrl, name) for name in shown} == shown


ALL, LAST = -1, -2
LISTS = {"0,1\n": 3, "0-1\n": 3, " 1 \n": 2, "1,\n": 2, "1": 2, "1\n0\n": 2, "\n": 0, "all\n": ALL, "N\n": LAST}
MASKS = {"1\n": 1, "3 \n": 3, "1,\n": 1, "2": 2}


@pytest.mark.parametrize(
    "name, text, mask", [*(("cpus_list", *one) for one in LISTS.items()), *(("cpus", *one) for one in MASKS.items())]
)
def test_accepted_lists_and_masks_are_those_of_the_kernel(
    resctrl: Resctrl, last: int, name: str, text: str, mask: int
) -> None:
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "0-1\n")
    resctrl.write(f"gold/{name}", text)
    assert cpus(resctrl, "gold") == {ALL: (1 << last + 1) - 1, LAST: 1 << last}.get(mask, mask)
