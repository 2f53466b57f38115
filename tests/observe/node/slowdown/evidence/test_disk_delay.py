"""What a shared disk costs a pod: against a simulated disk with units, a queue, and tasks that compute and read."""

from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observe.node.slowdown.samples import SECONDS, use
from resctrl_hooks.observe.node.slowdown.constants import FEWEST
from resctrl_hooks.observe.node.slowdown.evidence.alone import Alone, alone_of, teaches
from resctrl_hooks.observe.node.slowdown.evidence.disk_delay import disk_delay
from resctrl_hooks.observe.node.slowdown.evidence.disk_kinds import BY_BFQ, BY_COST, read_kind
from resctrl_hooks.observe.node.slowdown.evidence.disks import DiskUse, DiskWork, Kind, Moved
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.waiting import waiting_of
from resctrl_hooks.observe.node.slowdown.units import WallPart

BLOCK = 65536.0
ANY_KIND = Kind()


class Run(NamedTuple):
    """A window of the simulated disk."""

    use: Use
    rate: float
    """The victim's operations by second."""


def run(
    tasks: int, think: float, others: int, units: int, service: float, seed: int,
    *, kind: Kind = ANY_KIND, rest: float = 0.0, heavy: float = 1.0,
) -> Run:  # fmt: skip
    """Let a pod's tasks compute and read one block after the other, beside others that read (heavier ones) and rest."""
    random, now, queue = Random(seed), 0.0, 0.0
    service = service if units == 1 else service / 4  # no heads
    left = 200 * (think + service)
    events: list[tuple[float, int, int]] = []  # time, 0: has computed, 1: was served; the task
    waiting: list[int] = []
    free, blocked, done, busy, some, full = units, 0, [0] * (tasks + others), 0.0, 0.0, 0.0

    def draw(mean: float) -> float:
        return mean * random.uniform(0.8, 1.2)

    for task in range(tasks):
        heappush(events, (draw(think), 0, task))
    waiting += range(tasks, tasks + others)
    while now < left:
        while free and waiting:
            free -= 1
            task = waiting.pop(0)
            heappush(events, (now + draw(service if task < tasks else service * heavy), 1, task))
        then, step, task = heappop(events)
        then = min(then, left)
        part, now = then - now, then
        serving = units - free
        busy += part * (serving > 0)
        queue += part * (serving + len(waiting))
        some += part * (blocked > 0)
        full += part * (blocked == tasks)
        if step == 0:
            blocked += task < tasks
            waiting.append(task)
            continue
        free, done[task] = free + 1, done[task] + 1
        blocked -= task < tasks
        heappush(events, (now + draw(think if task < tasks else rest), 0, task))
    own, beside = sum(done[:tasks]) / left, sum(done[tasks:]) / left
    moved = {"victim": Moved(own * BLOCK, own), "others": Moved(beside * BLOCK, beside)}
    disk = DiskUse("sda", busy / left, moved, queue / left, kind)
    values: dict[str, Any] = {"blocked": WallPart(some / left), "blocked_fully": WallPart(full / left)}
    return Run(use(None, user=own * think, cpu=own * think, disk=disk.work_of("victim"), **values), own)


TASKS, THINK, SERVICE = st.integers(1, 6), st.floats(0.0003, 0.02), st.floats(0.002, 0.01)
SCENE = st.tuples(TASKS, THINK, TASKS, st.sampled_from([1, 1, 2, 8]), SERVICE, st.integers(0, 999))


def known(*calm: Use) -> Alone:
    """Return what these windows teach."""
    found = Alone()
    for one in calm:
        assert teaches(one)
        found.learn(one, SECONDS)
    return alone_of(found.as_record())


@given(SCENE, st.sampled_from([1.0, 1.0, 3.0]))
def test_delay_against_earlier_windows_is_within_15_per_cent(
    scene: tuple[int, float, int, int, float, int], heavy: float
) -> None:
    tasks, think, others, units, service, seed = scene
    heavy = heavy if tasks == 1 else 1.0  # the kernel does not count whose operations take longer
    calm = run(tasks, think, 0, units, service, seed)
    now = run(tasks, think, others, units, service, seed, heavy=heavy)
    alone = known(*[calm.use] * FEWEST)
    found = waiting_of([(now.use, SECONDS)] * 3, alone)
    truth = calm.rate / now.rate
    if disk_delay([(now.use, SECONDS)], alone) is not None and truth >= 1.05:
        assert found.stretch == pytest.approx(truth, rel=0.15)
    assert found.stretch <= truth * 1.15, "no alarm where a disk serves all as fast as one"


@given(SCENE)
def test_delay_without_earlier_windows_is_within_bounds(scene: tuple[int, float, int, int, float, int]) -> None:
    tasks, think, others, units, service, seed = scene
    now = run(tasks, think, others, units, service, seed, kind=Kind(rotates=units == 1))
    found = disk_delay([(now.use, SECONDS)], None)
    if found is None:
        return
    truth = run(tasks, think, 0, units, service, seed).rate / now.rate
    assert found.most >= truth / 1.15
    if found.is_known:
        assert waiting_of([(now.use, SECONDS)]).stretch == pytest.approx(truth, rel=0.2)


def test_pod_that_sleeps_while_its_disk_is_written_loses_nothing() -> None:
    work = DiskWork("sda", 100.0, 4096.0, 1.0, 0.1, 0.9, is_full=False)
    first = Use("", None, None, 0.5, None, {}, blocked=WallPart(0.6), blocked_fully=WallPart(0.6))
    asleep = Use("", None, None, 0.0, None, {}, blocked=WallPart(0.01), blocked_fully=WallPart(0.0), disk=work)
    assert waiting_of([(first, SECONDS), (asleep, SECONDS)]).stretch == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("operations", [{"sda/16": 1.0}, {"user": [1, -1, 1]}, {"user": [1, float("inf"), 1]}])
def test_damaged_record_is_an_error_and_an_empty_one_is_none(operations: dict[str, object]) -> None:
    assert not len(alone_of({}))
    with pytest.raises((ValueError, TypeError)):
        alone_of(operations)


@given(st.floats(0.1, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.booleans())
def test_lack_of_memory_costs_what_the_kernel_does_more(
    user: float, kernel: float, reclaim: float, wait: float, rereads: bool
) -> None:
    took, takes = user + kernel, user + kernel + reclaim + wait
    alone = known(*[use(None, user=user / took, cpu=1.0, reclaimed=0.0)] * FEWEST)
    stalls = WallPart((reclaim + wait) / takes)
    waits: dict[str, Any] = {"reclaimed": stalls, "reclaimed_fully": stalls}
    if rereads:
        stalls = WallPart(wait / takes)
        waits = {"reclaimed": stalls, "blocked": stalls, "blocked_fully": stalls, "again": 1.0}
    now = use(None, user=user / takes, cpu=(took + reclaim) / takes, memory_events=9, **waits)
    truth, least = takes / took, waiting_of([(now, SECONDS)]).stretch
    if float(stalls) >= 0.05:
        assert waiting_of([(now, SECONDS)], alone).stretch == pytest.approx(min(truth, 20.0), rel=0.02)
    assert least <= truth * 1.001, "without earlier windows it is a lower bound"
    assert not teaches(now) or float(stalls) < 0.05


QUEUE, COST = "dev/block/8:0/queue", "io.cost.qos"


@pytest.mark.parametrize(
    "files, kind",
    [
        ({f"{QUEUE}/scheduler": "none [bfq]", f"{QUEUE}/rotational": "1"}, Kind(rotates=True, weight=BY_BFQ)),
        ({f"{QUEUE}/scheduler": "[none] bfq", COST: "8:0 enable=0 ctrl=auto"}, Kind()),
        ({COST: "8:16 enable=1 ctrl=auto\n8:0 enable=1 ctrl=user"}, Kind(weight=BY_COST)),
        ({COST: "8:16 enable=1 ctrl=auto"}, Kind()),  # of another disk
        ({}, Kind()),
    ],
)
def test_kind_of_a_disk(tmp_path: Path, files: dict[str, str], kind: Kind) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert read_kind(str(tmp_path), str(tmp_path), "8:0") == kind
