"""The bandwidth guard on a memory that runs out (vm/rdt.c), experiments, and performance counters of cgroups."""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.counted.conftest import COUNTED
from kernel.counted.truth import NEAR, Truth
from kernel.groups import Resctrl
from kernel.installed import Installed, resctrl_hook
from kernel.runtimes import CGROUPS, Podman, wait_until
from resctrl_hooks.observe.inventory.memory_load import memory_usage
from resctrl_hooks.observe.node.capacity.capacity import Capacities
from resctrl_hooks.observe.node.guard.snapshots import domains_of
from resctrl_hooks.observe.node.slowdown.causes.remedy import CPU_WEIGHT
from resctrl_hooks.observe.node.slowdown.evidence.perf.counters import PerfCount, PerfCounters, PerfError
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take
from resctrl_hooks.observe.node.temporary.file import TemporaryError
from resctrl_hooks.observe.slowdown.experiment.class_trial import TrialError
from resctrl_hooks.observe.slowdown.experiment.proof import Experiment
from resctrl_hooks.observe.slowdown.experiment.value_trial import Plan

HOUSES = ("observe",)
pytestmark = COUNTED

VICTIM, NOISY = "gold", "bronze"
MEGABYTE = 1_000_000
SPIN = "while :; do :; done"


class Worker:
    """A process on some processors, in a class, that does the same piece of work again and again."""

    def __init__(self, resctrl: Resctrl, rdt_class: str, cpus: Iterable[int]) -> None:
        self._rounds = ctypes.c_uint64.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
        self.pid = os.fork()
        if self.pid:
            return
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.sched_setaffinity(0, cpus)
            resctrl.join(os.getpid(), rdt_class)
            while True:
                for _ in range(2000):
                    pass
                self._rounds.value += 1
        finally:
            os._exit(1)

    @property
    def rounds(self) -> int:
        return int(self._rounds.value)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)
        if number != signal.SIGCONT:
            os.waitpid(self.pid, os.WUNTRACED)


@contextlib.contextmanager
def workers(resctrl: Resctrl, rdt_class: str, cpus: range, may_run: Iterable[int] = ()) -> Iterator[list[Worker]]:
    """Workers on some processors, one on each; or each may run on all of the others."""
    made = [Worker(resctrl, rdt_class, [*may_run] or [cpu]) for cpu in cpus]
    try:
        yield made
    finally:
        for worker in made:
            worker.send(signal.SIGKILL)


def share(some: list[Worker], others: list[Worker], seconds: float = 3.0) -> float:
    """Return the part of all work that some workers do. It does not depend on the speed of the emulator."""
    before = [worker.rounds for worker in (*some, *others)]
    time.sleep(seconds)
    done = [worker.rounds - count for worker, count in zip((*some, *others), before, strict=True)]
    return sum(done[: len(some)]) / max(1, sum(done))


def configure(installed: Installed, mode: str, capacity: int, floor: int = 20) -> None:
    """Have the guard protect the victim's class; ``capacity`` is of each memory domain, in MB/s."""
    guard = {"mode": mode, "protect": [VICTIM], "throttle": {NOISY: {"floor": floor}}}
    installed.configure(rdt={"guard": guard}, monitoring={"capacity": {"*": capacity * MEGABYTE}})


@contextlib.contextmanager
def guard(installed: Installed, cpu: int) -> Iterator["subprocess.Popen[str]"]:
    """A running guard on a processor of its own; it ends by SIGTERM."""
    words = ["taskset", "-c", str(cpu), *installed.command("guard", "run")]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def limits(resctrl: Resctrl, rdt_class: str = NOISY) -> list[int]:
    (line,) = [line for line in resctrl.lines(rdt_class, "schemata") if line.startswith("MB:")]
    return [int(part.split("=")[1]) for part in line.removeprefix("MB:").split(";")]


def status(installed: Installed) -> dict[str, Any]:
    """The guard's own record, empty before its first look."""
    path = Path(installed.state, "guard.json")
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


# Two memories of four processors; on AMD each processor has its own L3 domain, as this emulator's cache ids say.
SCARCE = pytest.mark.guest(cpus=8, numa=2, bandwidth=640, core=320)
EIGHT = pytest.mark.guest(amd=1, cpus=8, sockets=8, numa=2, bandwidth=1000, core=500, memory_cpus=4)
INTEL = pytest.param("Intel", marks=SCARCE)
AMD = pytest.param("AMD", marks=[EIGHT, pytest.mark.nightly])
HERE, NEIGHBOURS, THERE = range(1), range(1, 4), range(4, 5)  # processors: of the first memory, and one of the second
GUARDS = 6


@pytest.fixture
def classes(resctrl: Resctrl) -> None:
    resctrl.make(VICTIM, NOISY)


@pytest.mark.parametrize("processor", [INTEL, AMD], indirect=True)
@pytest.mark.usefixtures("processor", "classes")
def test_observed_victim_waits_and_guarded_victim_works(
    resctrl: Resctrl, installed: Installed, boot: dict[str, Any]
) -> None:
    declared = limits(resctrl)
    with workers(resctrl, VICTIM, HERE) as victims, workers(resctrl, NOISY, NEIGHBOURS) as neighbours:
        # A slow machine does not fill the memory, so the guard believes it to be smaller.
        configure(installed, "observe", int(boot["bandwidth"]) // 2)
        with guard(installed, GUARDS):
            wait_until(lambda: status(installed).get("actions", {}).get("lower"), "the guard would lower the class")
            crowded = share(victims, neighbours)
        assert limits(resctrl) == declared, "observe writes nothing"
        configure(installed, "act", int(boot["bandwidth"]) // 2)
        with guard(installed, GUARDS) as process:
            wait_until(lambda: sum(limits(resctrl)) < sum(declared), "the class is lowered")
            wait_until(lambda: share(victims, neighbours) > 1.2 * crowded, "the victim does more of the work")
            process.send_signal(signal.SIGKILL)
        assert sum(limits(resctrl)) < sum(declared), "a killed guard leaves its values"
        installed.reconcile()
    assert limits(resctrl) == declared
    assert limits(resctrl, VICTIM) == limits(resctrl, "") == declared


@pytest.mark.parametrize("processor", [INTEL, AMD], indirect=True)
@pytest.mark.usefixtures("processor", "classes")
def test_load_of_two_memories_is_the_truth(resctrl: Resctrl, installed: Installed, boot: dict[str, Any]) -> None:
    configure(installed, "off", int(boot["bandwidth"]))
    context, files = installed.context(), open_files()
    with workers(resctrl, VICTIM, HERE) as here, workers(resctrl, NOISY, THERE) as there:
        both = [*here, *there]
        for worker in both:
            worker.send(signal.SIGSTOP)
        for _ in range(3):
            take(context, files)  # the first ones cost more, and their own traffic is not the workers'
        truth = Truth(int(boot["rmids"]), int(boot["sockets"]) or 2)
        before = take(context, files)
        for worker in both:
            worker.send(signal.SIGCONT)
        time.sleep(10)
        for worker in both:
            worker.send(signal.SIGSTOP)
        # The second one moves something itself, before it reads and after.
        moved, now = [truth.by_domain()], take(context, files)
        moved.append(truth.by_domain())
    domains = domains_of(context, now)
    assert len(domains) == 2
    for one in memory_usage(before, now, domains, Capacities(context.settings.monitoring["capacity"]), {}):
        least, most = (sum(of[number] for number in one.l3) / (now.when - before.when) for of in moved)
        assert least * (1 - NEAR) <= (one.memory_bandwidth_bytes_per_second or 0) <= most * (1 + NEAR)
        whole = int(boot["bandwidth"]) * MEGABYTE / 100
        assert least * (1 - NEAR) <= (one.load_percent or 0) * whole <= most * (1 + NEAR)
        assert not one.estimated


FOUR = range(4)  # the first memory's processors
THREADED = pytest.mark.guest(cpus=8, numa=2, bandwidth=640, core=320, threads=2)


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize(
    "threads, shared",
    [
        pytest.param(1, True, marks=SCARCE, id="shared"),
        pytest.param(1, False, marks=[SCARCE, pytest.mark.nightly], id="pinned"),
        pytest.param(2, True, marks=[THREADED, pytest.mark.nightly], id="shared-threads"),
        pytest.param(2, False, marks=[THREADED, pytest.mark.nightly], id="pinned-threads"),
    ],
)
def test_class_is_lowered_whichever_processors_it_may_use(
    resctrl: Resctrl, installed: Installed, boot: dict[str, Any], threads: int, shared: bool
) -> None:
    assert resctrl.read("info/MB/thread_throttle_mode").strip() == "max"
    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").read_text().strip()
    assert siblings == ("0" if threads == 1 else "0-1")
    declared, may_run = limits(resctrl), FOUR if shared else ()
    with workers(resctrl, VICTIM, FOUR[:2], may_run), workers(resctrl, NOISY, FOUR[2:], may_run):
        configure(installed, "act", int(boot["bandwidth"]) // 2)
        with guard(installed, GUARDS):
            wait_until(lambda: sum(limits(resctrl)) < sum(declared), "the class is lowered")
            (domain,) = [one for one in status(installed)["domains"].values() if 0 in one["l3"]]
            assert not domain["classes"][NOISY]["kept"]
    wait_until(lambda: limits(resctrl) == declared, "the guard restores the values at its end")


@pytest.mark.guest(cpus=4, numa=2, pmu=1)
@pytest.mark.nightly
@pytest.mark.only(runtime_name="crun")
def test_experiment_measures_a_container_and_restores_the_class(
    podman: Callable[..., Podman], image: str, resctrl: Resctrl, installed: Installed
) -> None:
    resctrl.make(NOISY)
    declared = limits(resctrl)
    guard = {"throttle": {NOISY: {"floor": 20}}}
    installed.configure(rdt={"enabled": True, "allow": {"": [NOISY]}, "guard": guard})
    engine = podman(installed.write_hooks_d())
    engine.run(image, SPIN, "-d", "--name=victim", "--cpuset-cpus=0")
    engine.run(image, SPIN, "-d", "--cpuset-cpus=1", f"--annotation=class.rdt.resctrl-hooks.io={NOISY}")
    (victim,) = installed.items("diagnose", engine.inspect("victim", "{{.Id}}"), "--experiment", "--for", "10s")
    (effect,) = victim["experiments"]
    assert (effect["class"], effect["unit"], effect["reason"]) == (NOISY, "cycles per instruction", "")
    assert effect["costOff"] > 0
    assert effect["costOn"] > 0
    assert effect["effectLow"] <= effect["effect"] <= effect["effectHigh"]
    assert limits(resctrl) == declared


@pytest.mark.nightly
@pytest.mark.parametrize("processor", [INTEL], indirect=True)
@pytest.mark.only(runtime_name="crun")
@pytest.mark.usefixtures("processor", "classes")
def test_guard_and_experiment_leave_a_limit_beside_them(
    podman: Callable[..., Podman], image: str, resctrl: Resctrl, installed: Installed, boot: dict[str, Any]
) -> None:
    rules = {"mode": "act", "protect": [VICTIM], "throttle": {NOISY: {"floor": 20}}}
    rdt = {"enabled": True, "allow": {"": [NOISY]}, "guard": rules}
    capacity = int(boot["bandwidth"]) // 2 * MEGABYTE
    installed.configure(rdt=rdt, monitoring={"capacity": {"*": capacity}})
    engine, declared = podman(installed.write_hooks_d()), limits(resctrl)
    for name in ("limited", "other"):
        engine.run(image, SPIN, "-d", f"--name={name}", f"--annotation=class.rdt.resctrl-hooks.io={NOISY}")
    key, other = (engine.inspect(name, "{{.Id}}") for name in ("limited", "other"))
    installed.prints("limit", key, "--mb", "10", "--cpu-weight", "10")
    (own,) = {*resctrl.classes()} - {VICTIM, NOISY}
    lowered = limits(resctrl, own)
    (folder,) = (value["of"] for value in installed.items("limits")[0]["values"] if value["name"] == "cpu.weight")
    plan = Plan(CPU_WEIGHT, "limited", (folder,))
    with (
        pytest.raises(TemporaryError, match=r"`limit` of root has changed cpu\.weight"),
        Experiment(installed.context(), other, [folder], [NOISY], planned=[plan]) as experiment,
    ):
        list(experiment.run())
    with workers(resctrl, VICTIM, HERE), workers(resctrl, NOISY, NEIGHBOURS), guard(installed, GUARDS):
        wait_until(lambda: sum(limits(resctrl)) < sum(declared), "the guard lowers the class")
        assert limits(resctrl, own) == lowered < declared
        refused = resctrl_hook("--config", installed.config, "limit", other, "--mb", "10")
        assert f"keeps MB of RDT class {NOISY} changed" in refused.output
        with pytest.raises(TrialError, match="the bandwidth guard changes values"):
            Experiment(installed.context(), other, [folder], [NOISY], planned=[plan])
        installed.prints("unlimit", key)
        assert resctrl.classes() == sorted((VICTIM, NOISY))
    wait_until(lambda: limits(resctrl) == declared, "the guard restores the values at its end")
    assert Path(folder, "cpu.weight").read_text().strip() == "100"


ROUNDS = 20_000


def work_in(folder: Path) -> None:
    """Let a process enter a cgroup, and work."""
    work = f"echo $$ > $0/cgroup.procs; i=0; while [ $i -lt {ROUNDS} ]; do i=$((i+1)); done"
    subprocess.run(["/bin/sh", "-c", work, folder], check=True)


def at_rest(counters: PerfCounters) -> PerfCount:
    """Return the counts when they stand still: the kernel still ends a process after waitpid has returned."""
    seen = [counters.read()]

    def stands_still() -> bool:
        seen.append(counters.read())
        return seen[-1][:2] == seen[-2][:2]

    wait_until(stands_still, "the counts stand still")
    return seen[-1]


@pytest.fixture
def pod() -> Iterator[Path]:
    folder = CGROUPS / "perf-pod"
    (folder / "container").mkdir(parents=True)
    yield folder
    (folder / "container").rmdir()
    folder.rmdir()


@pytest.mark.guest(rmids=12, count=1, cpus=1, pmu=1)
def test_work_below_a_cgroup_is_counted_and_work_beside_it_is_not(pod: Path) -> None:
    beside = CGROUPS / "perf-beside"
    beside.mkdir()
    own, other = PerfCounters([str(pod)]), PerfCounters([str(beside)])
    try:
        work_in(pod / "container")
        count = at_rest(own)
        assert count.instructions > ROUNDS
        assert count.cycles > 0
        assert 0 < float(count.running) <= float(count.enabled)
        assert (other.read().cycles, other.read().instructions) == (0, 0)
        work_in(beside)
        assert other.read().instructions > ROUNDS
        assert own.read()[:2] == count[:2]
    finally:
        own.close()
        other.close()
        beside.rmdir()


def test_a_processor_without_counters_is_named_as_the_reason(pod: Path) -> None:
    with pytest.raises(PerfError, match="no performance counters here"):
        PerfCounters([str(pod)])
