"""The simulation's model by any text and any commands."""

import errno
from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.lab.simulation.errors import RefusedError
from resctrl_hooks.lab.simulation.machine import (
    FULL_MASK,
)
from simulation.bench import Bench

TEXT = st.text(st.sampled_from("0123456789abcdefxL3MB:=;,-+ \n\t\0N/all") | st.characters(), max_size=60)


@given(TEXT)
def test_any_write_is_done_or_refused(text: str) -> None:
    bench = Bench()
    bench.make("gold", "mon_groups/a")
    numbers: set[int | None] = set()
    for path in ("gold/tasks", "gold/schemata", "gold/mode", "gold/cpus", "gold/cpus_list", "mon_groups/a/cpus_list"):
        try:
            bench.write(path, text)
        except RefusedError as refused:
            numbers.add(refused.errno)
        assert bench.read("info/last_cmd_status").endswith("\n")
    assert numbers <= {errno.EINVAL, errno.ESRCH, errno.ERANGE, errno.EOVERFLOW}
    for mask in bench.group("gold").masks["L3"].values():
        assert 0 < mask <= FULL_MASK


PATHS = st.sampled_from(
    [f"{above}{name}" for above in ("", "mon_groups/", "gold/mon_groups/", "silver/mon_groups/") for name in ("a", "b")]
    + ["gold", "silver"]
)


def make_new(bench: Bench, path: str) -> None:
    """Create a group if it does not exist; the VFS refuses existing names."""
    if path not in groups(bench):
        bench.make(path)


def fork(bench: Bench, number: int) -> None:
    """Have one of the four first processes start another, if it lives."""
    if 50 + number % 4 in bench.proc.starts:
        bench.proc.start(1000 + number, parent=50 + number % 4)


def end(bench: Bench, number: int) -> None:
    """End one of the four first processes, if it lives."""
    if 50 + number % 4 in bench.proc.starts:
        bench.proc.end(50 + number % 4)


def wait(bench: Bench) -> None:
    """Let some time pass."""
    bench.now += 0.6


COMMANDS: dict[str, Callable[[Bench, int, str, str], None]] = {
    "make": lambda bench, _, path, __: make_new(bench, path),
    "remove": lambda bench, _, path, __: bench.tree.remove(path),
    "rename": lambda bench, _, old, new: bench.tree.rename(old, new),
    "tasks": lambda bench, number, path, _: bench.write(f"{path}/tasks", str(50 + number % 4)),
    "cpus": lambda bench, number, path, _: bench.write(f"{path}/cpus_list", f"{number % 4}\n"),
    "wait": lambda bench, *_: wait(bench),
    "fork": lambda bench, number, *_: fork(bench, number),
    "end": lambda bench, number, *_: end(bench, number),
}


def groups(bench: Bench) -> Iterator[str]:
    """Yield the paths of all groups."""
    yield ""
    for above in ("", *bench.sim.classes):
        if above:
            yield above
        for name in (bench.sim.classes[above] if above else bench.sim.root).monitored:
            yield f"{above}/mon_groups/{name}"


@given(st.lists(st.tuples(st.sampled_from(sorted(COMMANDS)), PATHS, PATHS), max_size=40))
def test_every_task_cpu_and_id_is_in_one_place_after_any_command(commands: list[tuple[str, str, str]]) -> None:
    bench = Bench(rmids=6, closids=3)
    for task in range(50, 54):
        bench.proc.start(task)
    numbers: set[int | None] = set()
    for number, (command, first, second) in enumerate(commands):
        try:
            COMMANDS[command](bench, number, first, second)
        except OSError as error:
            numbers.add(error.errno)
    ids = {errno.EBUSY, errno.ENOSPC}
    assert numbers <= ids | {errno.EPERM, errno.EINVAL, errno.ENOENT, errno.ESRCH, errno.EEXIST}
    classes = [bench.tasks(name) for name in ("", *bench.sim.classes)]
    assert sorted(task for tasks in classes for task in tasks) == sorted(bench.proc.everything())
    for name in ("", *bench.sim.classes):
        monitored = (bench.sim.classes[name] if name else bench.sim.root).monitored
        below = [bench.tasks(f"{name}/mon_groups/{group}") for group in monitored]
        assert sum(map(len, below)) == len(set().union(*below))
        assert set().union(*below) <= bench.tasks(name)
    assert sum(group.cpus for group in bench.sim.all_classes()) == bench.sim.machine.all_cpus
    everything = [member for group in bench.sim.all_classes() for member in group.family()]
    assert len({group.rmid for group in everything}) == len(everything)
    assert len({group.closid for group in bench.sim.all_classes()}) == len(bench.sim.all_classes())
