"""The simulation's model without FUSE, with a clock and a /proc that tests can turn."""

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.simulation import cpus, schemata
from resctrl_hooks.simulation.errors import RefusedError
from resctrl_hooks.simulation.files import File
from resctrl_hooks.simulation.machine import (
    BYTES_PER_SECOND,
    CACHE_BYTES,
    FULL_MASK,
    LINES_PER_TASK,
    UNIT_BYTES,
    WATTS_PER_TASK,
    Machine,
)
from resctrl_hooks.simulation.model import Resctrl
from resctrl_hooks.simulation.proc import Life, Procfs
from resctrl_hooks.simulation.tree import Directory, Tree

ROOT_CALLER = (1, 0)


class Processes:
    """A /proc of numbers: each thread's process, parent, start and owner."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.zombies: set[int] = set()
        self.uids: dict[int, int] = {}
        self.affinities: dict[int, str] = {}
        self._ticks = 0

    def start(self, tid: int, parent: int = 1, leader: int | None = None) -> int:
        """Start a process, or with `leader` a thread of one."""
        self._ticks += 1
        self.starts[tid], self.parents[tid], self.leaders[tid] = self._ticks, parent, leader or tid
        return tid

    def end(self, tid: int) -> None:
        """End it."""
        del self.starts[tid], self.leaders[tid]
        for child in [child for child, parent in self.parents.items() if parent == tid]:
            self.parents[child] = 1
        del self.parents[tid]

    def life(self, tid: int) -> Life | None:
        return Life(self.starts[tid], tid in self.zombies) if tid in self.starts else None

    def lineage(self, tid: int) -> tuple[int, int] | None:
        return (self.leaders[tid], self.parents[tid]) if tid in self.starts else None

    def owners(self, tid: int) -> tuple[int, int] | None:
        return (self.uids.get(tid, 0),) * 2 if tid in self.starts else None

    def children(self, tid: int) -> set[int]:
        return {child for child, parent in self.parents.items() if parent == tid and self.leaders[child] == child}

    def threads(self, pid: int) -> set[int]:
        return {tid for tid, leader in self.leaders.items() if leader == pid}

    def cpus(self, tid: int) -> str:
        return self.affinities.get(tid, "")

    def everything(self) -> list[int]:
        return list(self.starts)


class Bench:
    """A model with paths, a clock and processes."""

    def __init__(self, **machine: float | bool) -> None:
        self.now = 1000.0
        self.proc = Processes()
        machine.setdefault("cpus", 4)
        self.sim = Resctrl(Machine(**machine), self.proc, lambda: self.now)  # type: ignore[arg-type]
        self.tree = Tree(self.sim)

    def folder(self, path: str) -> Directory:
        found = self.tree.find(path)
        assert isinstance(found, Directory)
        return found

    def make(self, *paths: str) -> None:
        for path in paths:
            parent, _, name = path.rpartition("/")
            self.tree.make(self.folder(parent), name)

    def remove(self, path: str) -> None:
        self.tree.remove(self.folder(path))

    def rename(self, old: str, new: str) -> None:
        parent, _, name = new.rpartition("/")
        self.tree.rename(self.tree.find(old), self.tree.find(parent), name)

    def read(self, path: str) -> str:
        found = self.tree.find(path)
        assert isinstance(found, File)
        return found.read()

    def write(self, path: str, text: str, caller: tuple[int, int] = ROOT_CALLER) -> None:
        found = self.tree.find(path)
        assert isinstance(found, File)
        assert found.write is not None
        found.write(text, caller)

    def tasks(self, group: str) -> set[int]:
        return {int(line) for line in self.read(f"{group}/tasks").split()}

    def number(self, group: str, counter: str) -> float:
        return float(self.read(f"{group}/mon_data/{counter}"))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_limbo_lasts_as_configured() -> None:
    bench = Bench(rmids=2, limbo=5)
    bench.make("mon_groups/a")
    bench.remove("mon_groups/a")
    bench.now += 4.9
    with pytest.raises(RefusedError) as caught:
        bench.make("mon_groups/b")
    assert caught.value.errno == errno.EBUSY
    bench.now += 0.1
    bench.make("mon_groups/b")
    with pytest.raises(RefusedError) as caught:
        bench.make("mon_groups/c")
    assert caught.value.errno == errno.ENOSPC


def test_rmids_return_at_once_without_limbo() -> None:
    bench = Bench(rmids=2, limbo=0)
    for _ in range(10):
        bench.make("mon_groups/a")
        bench.remove("mon_groups/a")


def test_task_adds_its_rate_while_it_lives(bench: Bench) -> None:
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.now += 10
    wanted = 10 * BYTES_PER_SECOND / 2
    assert bench.number("mon_groups/a", "mon_L3_00/mbm_total_bytes") == pytest.approx(wanted, abs=UNIT_BYTES)
    assert bench.number("mon_groups/a", "mon_L3_01/mbm_local_bytes") == pytest.approx(wanted * 0.75, abs=UNIT_BYTES)
    bench.proc.end(50)
    stopped = bench.number("mon_groups/a", "mon_L3_00/mbm_total_bytes")
    bench.now += 10
    assert bench.number("mon_groups/a", "mon_L3_00/mbm_total_bytes") == stopped


def test_zombie_adds_nothing(bench: Bench) -> None:
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.proc.zombies.add(50)
    before = bench.number("mon_groups/a", "mon_L3_00/mbm_total_bytes")
    bench.now += 10
    assert bench.number("mon_groups/a", "mon_L3_00/mbm_total_bytes") == before
    assert bench.tasks("mon_groups/a") == {50}


def test_rate_follows_number_of_tasks(bench: Bench) -> None:
    bench.make("mon_groups/a", "mon_groups/b")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.write("mon_groups/a/tasks", str(bench.proc.start(51)))
    bench.now += 10
    bench.write("mon_groups/b/tasks", "51")
    bench.now += 10
    total = "mon_L3_00/mbm_total_bytes"
    assert bench.number("mon_groups/a", total) == pytest.approx(30 * BYTES_PER_SECOND / 2, abs=UNIT_BYTES)
    assert bench.number("mon_groups/b", total) == pytest.approx(10 * BYTES_PER_SECOND / 2, abs=UNIT_BYTES)


def test_class_counts_exactly_its_own_and_mon_group_tasks(bench: Bench) -> None:
    bench.make("gold", "gold/mon_groups/a")
    for task in (50, 51, 52):
        bench.write("gold/tasks", str(bench.proc.start(task)))
    bench.write("gold/mon_groups/a/tasks", "50,51")
    bench.now += 10
    total = "mon_L3_00/mbm_total_bytes"
    assert bench.number("gold", total) == pytest.approx(30 * BYTES_PER_SECOND / 2, abs=2 * UNIT_BYTES)
    assert bench.number("gold/mon_groups/a", total) == pytest.approx(20 * BYTES_PER_SECOND / 2, abs=UNIT_BYTES)


def test_energy_is_a_known_number_of_watts_per_task() -> None:
    bench = Bench(energy=True)
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", f"{bench.proc.start(50)},{bench.proc.start(51)}")
    energies = [f"mon_PERF_PKG_0{number}/core_energy" for number in range(2)]
    bench.now += 1
    before = sum(bench.number("mon_groups/a", name) for name in energies)
    bench.now += 7
    joules = sum(bench.number("mon_groups/a", name) for name in energies) - before
    assert joules / 7 == pytest.approx(2 * WATTS_PER_TASK, abs=1e-5)
    assert bench.read("mon_groups/a/mon_data/mon_PERF_PKG_00/activity").strip().partition(".")[2].isdecimal()
    assert bench.read("info/PERF_PKG_MON/mon_features").split() == ["core_energy", "activity"]


def test_energy_continues_at_value_of_previous_rmid_user() -> None:
    bench = Bench(energy=True, rmids=2, limbo=0)
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.now += 10
    used = bench.number("mon_groups/a", "mon_PERF_PKG_00/core_energy")
    bench.remove("mon_groups/a")
    bench.make("mon_groups/b")
    assert bench.number("mon_groups/b", "mon_PERF_PKG_00/core_energy") == used > 0
    assert bench.number("mon_groups/b", "mon_L3_00/mbm_total_bytes") == 0


def test_energy_is_unavailable_in_package_until_a_task_ran_there() -> None:
    bench = Bench(energy=True, rmids=2, limbo=0)
    bench.make("mon_groups/a")
    here, there = (f"mon_groups/a/mon_data/mon_PERF_PKG_0{number}/core_energy" for number in range(2))
    bench.now += 5
    assert bench.read(here) == bench.read(there) == "Unavailable\n"
    bench.proc.affinities[50] = "0-1"
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.now += 5
    assert float(bench.read(here)) == pytest.approx(5 * WATTS_PER_TASK)
    assert bench.read(there) == "Unavailable\n"
    bench.proc.affinities[50] = "2"
    bench.now += 5
    bench.read(there)  # tasks that ran until now are counted where they ran
    bench.now += 5
    assert float(bench.read(there)) == pytest.approx(5 * WATTS_PER_TASK)
    assert bench.read("mon_data/mon_PERF_PKG_01/core_energy") != "Unavailable\n"
    bench.remove("mon_groups/a")
    bench.make("mon_groups/b")
    assert float(bench.read(there.replace("/a/", "/b/"))) == pytest.approx(5 * WATTS_PER_TASK)


@pytest.mark.parametrize(
    "cpus, domains, listed, packages",
    [
        (4, 2, "0-3", {0, 1}),
        (4, 2, "2", {1}),
        (4, 2, "0,3", {0, 1}),
        (8, 4, "2-5,7", {1, 2, 3}),
        (1, 2, "0", {0, 1}),
        (2, 2, "0-63", {0, 1}),
        (2, 2, "5", set()),
        (2, 2, "", set()),
    ],
)
def test_packages_share_cpus_evenly(cpus: int, domains: int, listed: str, packages: set[int]) -> None:
    assert Machine(cpus=cpus, l3_domains=domains).packages(listed) == packages


def test_cache_lines_of_previous_user_fade() -> None:
    bench = Bench(rmids=2, limbo=0)
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.now += 10
    assert bench.number("mon_groups/a", "mon_L3_00/llc_occupancy") == pytest.approx(LINES_PER_TASK, abs=UNIT_BYTES)
    bench.remove("mon_groups/a")
    bench.make("mon_groups/b")
    assert bench.number("mon_groups/b", "mon_L3_00/llc_occupancy") > 0
    bench.now += 10
    assert bench.number("mon_groups/b", "mon_L3_00/llc_occupancy") == 0


@pytest.mark.parametrize("clusters", [1, 2])
def test_groups_share_a_full_cache_by_their_tasks(clusters: int) -> None:
    bench = Bench(rmids=16, limbo=0, clusters=clusters)
    for number, tasks in enumerate((60, 20), 1):
        bench.make(f"mon_groups/{number}")
        for task in range(tasks):
            bench.write(f"mon_groups/{number}/tasks", str(bench.proc.start(1000 * number + task)))
    bench.now += 10
    many, few, whole = (
        bench.number(group, "mon_L3_00/llc_occupancy") for group in ("mon_groups/1", "mon_groups/2", "")
    )
    assert 0.9 * CACHE_BYTES < whole <= CACHE_BYTES
    assert many == pytest.approx(3 * few, abs=4 * clusters * UNIT_BYTES)
    for task in range(60):
        bench.proc.end(1000 + task)
    bench.number("mon_groups/1", "mon_L3_00/llc_occupancy")
    bench.now += 10
    assert bench.number("mon_groups/1", "mon_L3_00/llc_occupancy") == 0
    assert bench.number("mon_groups/2", "mon_L3_00/llc_occupancy") > few


def test_counter_reads_its_fixed_value(bench: Bench) -> None:
    bench.make("gold", "gold/mon_groups/a", "gold/mon_groups/b")
    name = ("mon_L3_00", "llc_occupancy")
    first, second = (bench.folder(f"gold/mon_groups/{group}").group for group in "ab")
    first.readings[name], second.readings[name] = "Unavailable", "4096"
    assert bench.read("gold/mon_groups/a/mon_data/mon_L3_00/llc_occupancy") == "Unavailable\n"
    # The kernel leaves out missing values as long as another one exists.
    assert bench.number("gold", "mon_L3_00/llc_occupancy") == 4096


def test_later_children_join_group(bench: Bench) -> None:
    bench.make("gold", "gold/mon_groups/a")
    bench.proc.start(50)
    bench.proc.start(51, parent=50)
    bench.write("gold/tasks", "50")
    bench.write("gold/mon_groups/a/tasks", "50")
    bench.proc.start(52, parent=50)
    bench.proc.start(53, parent=52)
    bench.proc.start(54, leader=50)
    assert bench.tasks("gold/mon_groups/a") == {50, 52, 53, 54}
    assert bench.tasks("") == {51}


def test_earlier_children_stay_behind(bench: Bench) -> None:
    bench.make("mon_groups/a", "mon_groups/b")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.proc.start(51, parent=50)
    bench.write("mon_groups/b/tasks", "50")
    bench.proc.start(52, parent=50)
    assert (bench.tasks("mon_groups/a"), bench.tasks("mon_groups/b")) == ({51}, {50, 52})


def test_unread_child_is_in_class_of_its_parent(bench: Bench) -> None:
    bench.make("gold", "gold/mon_groups/a")
    bench.write("gold/tasks", str(bench.proc.start(50)))
    bench.proc.start(51, parent=50)
    bench.proc.start(52, parent=51)
    bench.write("gold/mon_groups/a/tasks", "52")
    assert bench.tasks("gold") == {50, 51, 52}


def test_child_written_to_its_own_group_keeps_its_children(bench: Bench) -> None:
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.proc.start(51, parent=50)
    bench.proc.start(52, parent=51)
    bench.write("mon_groups/a/tasks", "51")
    assert bench.tasks("mon_groups/a") == {50, 51, 52}


def test_child_moved_to_root_class_stays_there(bench: Bench) -> None:
    bench.make("gold")
    bench.write("gold/tasks", str(bench.proc.start(50)))
    bench.proc.start(51, parent=50)
    bench.write("tasks", "51")
    assert bench.tasks("gold") == {50}
    assert bench.tasks("") == {51}


def test_reused_thread_id_is_another_task(bench: Bench) -> None:
    bench.make("mon_groups/a")
    bench.write("mon_groups/a/tasks", str(bench.proc.start(50)))
    bench.proc.end(50)
    bench.proc.start(50)
    assert bench.tasks("mon_groups/a") == set()


def test_dead_tasks_are_forgotten(bench: Bench) -> None:
    bench.make("gold")
    for task in range(100, 3000):
        bench.write("gold/tasks", str(bench.proc.start(task)))
        bench.write("tasks", str(task))
        bench.proc.end(task)
    assert len(bench.sim.tasks._known) <= 512


def test_names_of_removed_folder_disappear(bench: Bench) -> None:
    bench.make("gold")
    folder = bench.folder("gold")
    bench.remove("gold")
    assert list(bench.tree.names(folder)) == [".", ".."]


def test_new_class_gets_contiguous_remainder_of_exclusive_ones(bench: Bench) -> None:
    bench.make("gold")
    bench.write("schemata", "L3:0=1;1=1\n")
    bench.write("gold/schemata", "L3:0=2;1=4\n")
    bench.write("gold/mode", "exclusive\n")
    bench.make("silver")
    # Way 0 is left too, but cut off from the others, or in the second domain with a neighbour.
    assert "L3:0=1;1=3" in bench.read("silver/schemata")


@pytest.mark.parametrize("name", ["rmids", "closids", "l3_domains", "cpus"])
def test_machine_has_at_least_one_of_each(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        Machine(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_limbo_ends(seconds: float) -> None:
    with pytest.raises(ValueError, match="limbo"):
        Machine(limbo=seconds)


def test_procfs_describes_this_process() -> None:
    proc = Procfs()
    me = os.getpid()
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with subprocess.Popen(["sleep", "100"]) as child:
            assert child.pid in proc.children(threading.get_native_id())
            assert proc.lineage(child.pid) == (child.pid, me)
            child.kill()
        assert thread.native_id is not None
        assert proc.threads(me) >= {me, thread.native_id}
        assert proc.threads(thread.native_id) == set()
        assert proc.lineage(thread.native_id) == (me, os.getppid())
        assert {me, thread.native_id, 1} <= set(proc.everything())
        life, other = proc.life(me), proc.life(thread.native_id)
        assert life is not None
        assert other is not None
        assert 0 < life.start <= other.start
        assert proc.owners(me) == (os.getuid(), os.getuid())
    finally:
        end.set()
        thread.join()
    gone = 4_194_305
    assert (proc.life(gone), proc.lineage(gone), proc.owners(gone)) == (None, None, None)
    assert proc.children(gone) == proc.threads(gone) == set()


MACHINE = Machine(cpus=70)


@given(st.integers(0, MACHINE.all_cpus))
def test_masks_and_lists_round_trip(mask: int) -> None:
    assert cpus.parse_mask(cpus.mask_text(mask, MACHINE) + "\n", MACHINE) == mask
    assert cpus.parse_list(cpus.list_text(mask) + "\n", MACHINE) == mask


def test_masks_are_shown_in_chunks() -> None:
    assert cpus.mask_text(MACHINE.all_cpus, MACHINE) == "3f,ffffffff,ffffffff"
    assert cpus.mask_text(1, Machine(cpus=4)) == "1"


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
    for mask in bench.folder("gold").group.masks["L3"].values():
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
    "remove": lambda bench, _, path, __: bench.remove(path),
    "rename": lambda bench, _, old, new: bench.rename(old, new),
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


def test_full_schemata_line_round_trips(bench: Bench) -> None:
    bench.make("gold")
    group = bench.folder("gold").group
    bench.write("gold/schemata", "L3:0=ff0;1=3\nMB:0=30;1=70\n")
    text = schemata.schemata_text(group)
    assert [line.strip() for line in text.splitlines()] == ["MB:0=30;1=70", "L3:0=ff0;1=3"]
    bench.write("gold/schemata", text)
    assert schemata.schemata_text(group) == text
