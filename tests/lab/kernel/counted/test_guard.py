"""The bandwidth guard on a memory that runs out: the processor queues for it and obeys MB values (vm/rdt.c)."""

import signal
import time
from typing import Any

import pytest

from kernel.bandwidth import MEGABYTE, NOISY, VICTIM, configure, guard, limits, share, status, workers
from kernel.counted.conftest import COUNTED
from kernel.counted.said import NEAR
from kernel.counted.truth import Truth
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import wait_until
from resctrl_hooks.observe.inventory.memory_load import memory_usage
from resctrl_hooks.observe.node.guard.snapshots import domains_of
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take

HOUSES = ("observe",)
# Two memories of four processors; on AMD each processor has its own L3 domain, as this emulator's cache ids say.
INTEL = pytest.param("Intel", marks=pytest.mark.guest(cpus=8, numa=2, bandwidth=640, core=320))
AMD = pytest.param(
    "AMD",
    marks=[
        pytest.mark.guest(amd=1, cpus=8, sockets=8, numa=2, bandwidth=1000, core=500, memory_cpus=4),
        pytest.mark.nightly,
    ],
)
HERE, NEIGHBOURS, THERE = range(1), range(1, 4), range(4, 5)
"""Processors: of the first memory, and one of the second."""
GUARDS = 6

pytestmark = [*COUNTED, pytest.mark.parametrize("processor", [INTEL, AMD], indirect=True)]


@pytest.fixture(autouse=True)
def classes(resctrl: Resctrl) -> None:
    resctrl.make(VICTIM)
    resctrl.make(NOISY)


@pytest.mark.usefixtures("processor")
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


@pytest.mark.usefixtures("processor")
def test_load_of_two_memories_is_the_truth(resctrl: Resctrl, installed: Installed, boot: dict[str, Any]) -> None:
    configure(installed, "off", int(boot["bandwidth"]))
    context, files = installed.context(), open_files()
    with workers(resctrl, VICTIM, HERE) as here, workers(resctrl, NOISY, THERE) as there:
        both = [*here, *there]
        for worker in both:
            worker.stop()
        for _ in range(3):
            take(context, files)  # the first ones cost more, and their own traffic is not the workers'
        truth = Truth(int(boot["rmids"]), int(boot["sockets"]) or 2)
        before = take(context, files)
        for worker in both:
            worker.go_on()
        time.sleep(10)
        for worker in both:
            worker.stop()
        moved = truth.by_domain()
        now = take(context, files)
    domains = domains_of(context, now)
    assert len(domains) == 2
    for one in memory_usage(before, now, domains, context.settings.monitoring["capacity"], {}):
        real = sum(moved[number] for number in one.l3) / (now.when - before.when)
        assert one.memory_bandwidth_bytes_per_second == pytest.approx(real, rel=NEAR)
        assert one.load_percent == pytest.approx(real / int(boot["bandwidth"]) / MEGABYTE * 100, rel=NEAR)
        assert not one.estimated
