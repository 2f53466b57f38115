"""The simulation's model without FUSE, with a clock and a /proc that tests can turn, by any text and any commands."""

import errno
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path

import pytest
from click.testing import CliRunner
from hosts.simulated_kernel import ROOT_CALLER, Processes
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host.cpulist import format_list
from resctrl_hooks.lab.cli.simulate import command as simulate
from resctrl_hooks.lab.simulation import cpus, schemata
from resctrl_hooks.lab.simulation.errors import RefusedError
from resctrl_hooks.lab.simulation.group import Group
from resctrl_hooks.lab.simulation.machine import (
    BYTES_PER_SECOND,
    CACHE_BYTES,
    FULL_MASK,
    LINES_PER_TASK,
    UNIT_BYTES,
    WATTS_PER_TASK,
    Machine,
)
from resctrl_hooks.lab.simulation.model import Resctrl
from resctrl_hooks.lab.simulation.proc import Proc
from resctrl_hooks.lab.simulation.tree import Tree


class Bench:
    """A model with paths, a clock and processes."""

    def __init__(self, **machine: float | bool) -> None:
        self.now = 1000.0
        self.proc = Processes()
        machine.setdefault("cpus", 4)
        self.sim = Resctrl(Machine(**machine), self.proc, lambda: self.now)  # type: ignore[arg-type]
        self.tree = Tree(self.sim)

    def group(self, path: str) -> Group:
        return self.tree.find(path).group

    def make(self, *paths: str) -> None:
        for path in paths:
            self.tree.make(path)

    def read(self, path: str) -> str:
        node = self.tree.find(path)
        return node.file.read(node.group)

    def write(self, path: str, text: str) -> None:
        node = self.tree.find(path)
        assert node.file.write is not None
        node.file.write(node.group, text, ROOT_CALLER)

    def join(self, group: str, *tasks: int) -> None:
        """Start processes in a group, which is created if it does not exist."""
        above, _, name = group.rpartition("/")
        if name not in self.tree.entries(self.tree.find(above)):
            self.make(group)
        for task in tasks:
            self.write(f"{group}/tasks", str(self.proc.start(task)))

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
    bench.tree.remove("mon_groups/a")
    bench.now += 4.9
    for name, number in (("b", errno.EBUSY), ("c", errno.ENOSPC)):
        with pytest.raises(RefusedError) as caught:
            bench.make(f"mon_groups/{name}")
        assert caught.value.errno == number
        bench.now += 0.1
        if name == "b":
            bench.make("mon_groups/b")


def test_rate_follows_number_of_living_tasks(bench: Bench) -> None:
    bench.make("mon_groups/a", "mon_groups/b")
    bench.join("mon_groups/a", 50, 51)
    bench.now += 10
    local = bench.number("mon_groups/a", "mon_L3_01/mbm_local_bytes")
    assert local == pytest.approx(20 * BYTES_PER_SECOND / 2 * 0.75, abs=UNIT_BYTES)
    bench.write("mon_groups/b/tasks", "51")
    bench.now += 10
    total = "mon_L3_00/mbm_total_bytes"
    assert bench.number("mon_groups/a", total) == pytest.approx(30 * BYTES_PER_SECOND / 2, abs=UNIT_BYTES)
    assert bench.number("mon_groups/b", total) == pytest.approx(10 * BYTES_PER_SECOND / 2, abs=UNIT_BYTES)
    bench.proc.end(50)
    bench.proc.zombies.add(51)
    stopped = [bench.number(f"mon_groups/{name}", total) for name in "ab"]
    bench.now += 10
    assert [bench.number(f"mon_groups/{name}", total) for name in "ab"] == stopped
    assert bench.tasks("mon_groups/b") == {51}


def test_class_counts_exactly_its_own_and_mon_group_tasks(bench: Bench) -> None:
    bench.make("gold", "gold/mon_groups/a")
    bench.join("gold", 50, 51, 52)
    bench.write("gold/mon_groups/a/tasks", "50,51")
    bench.now += 10
    total = "mon_L3_00/mbm_total_bytes"
    assert bench.number("gold", total) == pytest.approx(30 * BYTES_PER_SECOND / 2, abs=2 * UNIT_BYTES)
    assert bench.number("gold/mon_groups/a", total) == pytest.approx(20 * BYTES_PER_SECOND / 2, abs=UNIT_BYTES)


def test_energy_is_unavailable_in_package_until_a_task_ran_there() -> None:
    bench = Bench(energy=True, rmids=2, limbo=0)
    bench.make("mon_groups/a")
    here, there = (f"mon_groups/a/mon_data/mon_PERF_PKG_0{number}/core_energy" for number in range(2))
    bench.now += 5
    assert bench.read(here) == bench.read(there) == "Unavailable\n"
    bench.proc.affinities[50] = "0-1"
    bench.join("mon_groups/a", 50)
    bench.now += 5
    assert float(bench.read(here)) == pytest.approx(5 * WATTS_PER_TASK)
    assert bench.read(there) == "Unavailable\n"
    bench.proc.affinities[50] = "2"
    bench.now += 5
    bench.read(there)  # tasks that ran until now are counted where they ran
    bench.now += 5
    assert float(bench.read(there)) == pytest.approx(5 * WATTS_PER_TASK)
    assert bench.read("mon_data/mon_PERF_PKG_01/core_energy") != "Unavailable\n"
    bench.tree.remove("mon_groups/a")
    bench.make("mon_groups/b")
    assert float(bench.read(there.replace("/a/", "/b/"))) == pytest.approx(5 * WATTS_PER_TASK)
    assert bench.read("mon_groups/b/mon_data/mon_PERF_PKG_00/activity").strip().partition(".")[2].isdecimal()
    assert bench.read("info/PERF_PKG_MON/mon_features").split() == ["core_energy", "activity"]
    assert bench.number("mon_groups/b", "mon_L3_00/mbm_total_bytes") == 0


PACKAGES: dict[tuple[int, int], dict[str, set[int]]] = {
    (4, 2): {"0-3": {0, 1}, "2": {1}, "0,3": {0, 1}},
    (8, 4): {"2-5,7": {1, 2, 3}},
    (1, 2): {"0": {0, 1}},
    (2, 2): {"0-63": {0, 1}, "5": set(), "": set()},
}
"""By CPUs and L3 domains: the packages of a list of CPUs."""


def test_packages_share_cpus_evenly() -> None:
    for (number, domains), lists in PACKAGES.items():
        machine = Machine(cpus=number, l3_domains=domains)
        assert {listed: machine.packages(listed) for listed in lists} == lists


def test_cache_lines_of_previous_user_fade() -> None:
    bench = Bench(rmids=2, limbo=0)
    bench.join("mon_groups/a", 50)
    bench.now += 10
    assert bench.number("mon_groups/a", "mon_L3_00/llc_occupancy") == pytest.approx(LINES_PER_TASK, abs=UNIT_BYTES)
    bench.tree.remove("mon_groups/a")
    bench.make("mon_groups/b")
    assert bench.number("mon_groups/b", "mon_L3_00/llc_occupancy") > 0
    bench.now += 10
    assert bench.number("mon_groups/b", "mon_L3_00/llc_occupancy") == 0


@pytest.mark.parametrize("clusters", [1, 2])
def test_groups_share_a_full_cache_by_their_tasks(clusters: int) -> None:
    bench = Bench(rmids=16, limbo=0, clusters=clusters)
    for number, tasks in enumerate((60, 20), 1):
        bench.join(f"mon_groups/{number}", *range(1000 * number, 1000 * number + tasks))
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
    first, second = (bench.group(f"gold/mon_groups/{group}") for group in "ab")
    first.readings[name], second.readings[name] = "Unavailable", "4096"
    assert bench.read("gold/mon_groups/a/mon_data/mon_L3_00/llc_occupancy") == "Unavailable\n"
    # The kernel leaves out missing values as long as another one exists.
    assert bench.number("gold", "mon_L3_00/llc_occupancy") == 4096


def test_later_children_join_group_and_earlier_ones_stay(bench: Bench) -> None:
    bench.make("gold", "gold/mon_groups/a")
    bench.proc.start(50)
    bench.proc.start(51, parent=50)
    for path in ("gold", "gold/mon_groups/a"):
        bench.write(f"{path}/tasks", "50")
    bench.proc.start(52, parent=50)
    bench.proc.start(53, parent=52)
    bench.proc.start(54, leader=50)
    assert bench.tasks("gold/mon_groups/a") == {50, 52, 53, 54}
    assert bench.tasks("") == {51}
    bench.make("gold/mon_groups/b")
    bench.write("gold/mon_groups/b/tasks", "50")
    bench.proc.start(55, parent=50)
    assert (bench.tasks("gold/mon_groups/a"), bench.tasks("gold/mon_groups/b")) == ({52, 53, 54}, {50, 55})


@pytest.mark.parametrize(
    "path, task, groups",
    [
        ("gold/mon_groups/a/tasks", 52, {"gold": {50, 51, 52}, "gold/mon_groups/a": {52}}),
        ("gold/tasks", 51, {"gold": {50, 51, 52}}),
        ("tasks", 51, {"gold": {50, 52}, "": {51}}),
    ],
)
def test_unread_child_is_in_class_of_its_parent_until_it_is_written_elsewhere(
    bench: Bench, path: str, task: int, groups: dict[str, set[int]]
) -> None:
    bench.make("gold", "gold/mon_groups/a")
    bench.join("gold", 50)
    bench.proc.start(51, parent=50)
    bench.proc.start(52, parent=51)
    bench.write(path, str(task))
    assert {name: bench.tasks(name) for name in groups} == groups


def test_dead_tasks_are_forgotten_and_a_reused_thread_id_is_another_task(bench: Bench) -> None:
    bench.join("mon_groups/a", 50)
    bench.proc.end(50)
    bench.proc.start(50)
    assert bench.tasks("mon_groups/a") == set()
    bench.make("gold")
    for task in range(100, 3000):
        bench.join("gold", task)
        bench.write("tasks", str(task))
        bench.proc.end(task)
    assert len(bench.sim.tasks._known) <= 512


def test_new_class_gets_contiguous_remainder_of_exclusive_ones(bench: Bench) -> None:
    bench.make("gold")
    bench.write("schemata", "L3:0=1;1=1\n")
    bench.write("gold/schemata", "L3:0=2;1=4\n")
    bench.write("gold/mode", "exclusive\n")
    bench.make("silver")
    # Way 0 is left too, but cut off from the others, or in the second domain with a neighbour.
    assert "L3:0=1;1=3" in bench.read("silver/schemata")


def test_machine_has_at_least_one_of_each_and_its_limbo_ends() -> None:
    for name in ("rmids", "closids", "l3_domains", "cpus"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            Machine(**{name: 0})  # type: ignore[arg-type]
    for seconds in (-1.0, inf, nan):
        with pytest.raises(ValueError, match="limbo"):
            Machine(limbo=seconds)


@pytest.mark.parametrize(
    "options",
    [
        *("--rmids=99999999999", "--closids=1000000", "--l3-domains=1000000", "--clusters=1000"),
        *("--vendor=amd --assignable-counters=99999999", "--limbo=9999h", "--limbo=inf", "--limbo=-1"),
        *("--rmids=4 --clusters=8", "--assignable-counters=8", "--rmids=0", "--closids=x", "--l3-domains=0"),
        *("--vendor=arm", "--pmg=2", "--vendor=arm --pmg=2 --partids=2 --cdp"),
    ],
)
def test_impossible_machine_is_wrong_use(tmp_path: Path, options: str) -> None:
    done = CliRunner().invoke(simulate, [str(tmp_path / "r"), "--background", *options.split()])
    assert done.exit_code == 2, done.output
    named = ("Arm's processors", "AMD processors", "clusters", *re.findall(r"--[a-z0-9-]+", options))
    assert any(word in done.output for word in named), done.output
    assert not (tmp_path / "r").exists()


def test_procfs_describes_this_process() -> None:
    proc, me, end = Proc(), os.getpid(), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with subprocess.Popen(["sleep", "100"]) as child:
            assert child.pid in proc.children(threading.get_native_id())
            assert proc.lineage(child.pid) == (child.pid, me)
            child.kill()
        tid = thread.native_id
        assert tid
        assert proc.threads(me) >= {me, tid}
        assert proc.threads(tid) == set()
        assert proc.lineage(tid) == (me, os.getppid())
        assert {me, tid, 1} <= set(proc.everything())
        life, other = proc.life(me), proc.life(tid)
        assert life
        assert other
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
    assert cpus.parse_list(format_list(mask) + "\n", MACHINE) == mask


def test_full_schemata_line_round_trips_and_masks_are_shown_in_chunks(bench: Bench) -> None:
    assert cpus.mask_text(MACHINE.all_cpus, MACHINE) == "3f,ffffffff,ffffffff"
    assert cpus.mask_text(1, Machine(cpus=4)) == "1"
    bench.make("gold")
    group = bench.group("gold")
    bench.write("gold/schemata", "L3:0=ff0;1=3\nMB:0=30;1=70\n")
    text = schemata.schemata_text(group)
    assert [line.strip() for line in text.splitlines()] == ["MB:0=30;1=70", "L3:0=ff0;1=3"]
    bench.write("gold/schemata", text)
    assert schemata.schemata_text(group) == text


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


COMMANDS = ("make", "remove", "rename", "tasks", "cpus", "wait", "fork", "end")


def run(bench: Bench, command: str, number: int, path: str, new: str) -> None:
    """Run a command on a group, or on one of the four first processes if it lives."""
    task = 50 + number % 4
    if command == "make" and path not in groups(bench):  # the VFS refuses existing names
        bench.make(path)
    elif command == "remove":
        bench.tree.remove(path)
    elif command == "rename":
        bench.tree.rename(path, new)
    elif command == "tasks":
        bench.write(f"{path}/tasks", str(task))
    elif command == "cpus":
        bench.write(f"{path}/cpus_list", f"{number % 4}\n")
    elif command == "wait":
        bench.now += 0.6
    elif task in bench.proc.starts and command == "fork":
        bench.proc.start(1000 + number, parent=task)
    elif task in bench.proc.starts and command == "end":
        bench.proc.end(task)


def groups(bench: Bench) -> Iterator[str]:
    """Yield the paths of all groups."""
    yield ""
    for above in ("", *bench.sim.classes):
        if above:
            yield above
        for name in (bench.sim.classes[above] if above else bench.sim.root).monitored:
            yield f"{above}/mon_groups/{name}"


@given(st.lists(st.tuples(st.sampled_from(COMMANDS), PATHS, PATHS), max_size=40))
def test_every_task_cpu_and_id_is_in_one_place_after_any_command(commands: list[tuple[str, str, str]]) -> None:
    bench = Bench(rmids=6, closids=3)
    for task in range(50, 54):
        bench.proc.start(task)
    numbers: set[int | None] = set()
    for number, (command, first, second) in enumerate(commands):
        try:
            run(bench, command, number, first, second)
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
