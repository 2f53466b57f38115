"""The account of owners in random states of real kernels: pods come and go, and so do groups and classes of others.

The sum over all owners is the kernel's number, as many groups can be created as are free or in limbo, and a pod's
bandwidth is to the byte the sum of its groups' files.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.groups import Resctrl
from kernel.local_pods import LocalPod, Pods
from resctrl_hooks.core.inventory.base import class_text
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.resctrl.rmids import free_rmids, total_closids, total_rmids

SUITE, MEASURED = 16, 200
PROBE = 20
"""Every so many states all free RMIDs are used up, which takes seconds: they are in limbo afterwards."""
TOTAL = "mbm_total_bytes"
NIGHTLY = pytest.mark.nightly
KINDS = [
    pytest.param(marks=pytest.mark.guest(rmids=12, count=1, cpus=1), id="intel"),
    pytest.param(marks=[pytest.mark.guest(rmids=24, count=1, cpus=4, numa=4, snc=2), NIGHTLY], id="snc"),
    pytest.param(marks=[pytest.mark.guest(rmids=12, count=1, cpus=1, amd=1, counters=8), NIGHTLY], id="amd"),
    pytest.param(marks=pytest.mark.guest(cpus=4, aet=1, perf_rmids=5, arguments="rdt=energy,perf"), id="aet"),
]


@pytest.fixture
def pods(context: Context, tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path, context)
    yield made
    made.clean()


class Churn:
    """Random events, each of which the kernel may refuse; only those on full nodes are refused."""

    def __init__(self, pods: Pods, resctrl: Resctrl, context: Context) -> None:
        self._pods, self._resctrl, self._context = pods, resctrl, context
        self._chances = random.Random(44)
        self._made: list[str] = []
        self._events: list[Callable[[], object]] = [
            pods.start,
            pods.start,
            self._start_own,
            self._end,
            self._add,
            self._add_class,
            self._remove,
            self._reconcile,
        ]

    def step(self) -> None:
        """Let one event happen."""
        try:
            self._chances.choice(self._events)()
        except OSError:
            return

    def _start_own(self) -> None:
        self._pods.start(own_group=True)

    def _end(self) -> None:
        if self._pods.running:
            self._pods.end(self._chances.randrange(len(self._pods.running)))

    def _add(self) -> None:
        parents = ["", *(name for name in self._made if "/" not in name)]
        parent = self._chances.choice(parents)
        self._mkdir(f"{parent}/mon_groups/pqos-{len(self._made)}-{self._chances.randrange(99)}".lstrip("/"))

    def _add_class(self) -> None:
        self._mkdir(f"class{self._chances.randrange(9)}")

    def _mkdir(self, name: str) -> None:
        os.mkdir(f"{self._resctrl.root}/{name}")
        self._made.append(name)

    def _remove(self) -> None:
        if self._made:
            name = self._chances.choice(self._made)
            self._made = [one for one in self._made if one != name and not one.startswith(f"{name}/")]
            os.rmdir(f"{self._resctrl.root}/{name}")

    def _reconcile(self) -> None:
        reconcile(self._context, Options(wait=False))


def files_of(pod: LocalPod, resctrl: Resctrl) -> list[str]:
    """Return the contents of a pod's total-bandwidth files, those of its own group and of its runtime's."""
    folders = [Path(resctrl.path("", name)) for name in (pod.key, pod.group) if name]
    return [path.read_text().strip() for folder in folders for path in folder.glob(f"mon_data/mon_L3_*/{TOTAL}")]


def compare(pods: Pods, held: dict[str, bool], resctrl: Resctrl, context: Context) -> tuple[int, list[str]]:
    """Return how many pods were compared, and the differing ones.

    Pods that once had no group or no counter are left out: parts of their totals are in no file any more.
    """
    pods.settle()
    checked, wrong = 0, []
    for pod in pods.running:
        before = files_of(pod, resctrl)
        counted = bool(before) and all(text.isdecimal() for text in before)
        held[pod.key] = held.get(pod.key, True) and counted
        if not held[pod.key]:  # such a pod may not even have a record yet
            continue
        readings = context.monitor.read(pod.key)
        if files_of(pod, resctrl) != before:
            continue
        total = sum(int(one.value or 0) for one in readings if one.counter.name == TOTAL and one.domain.node is None)
        checked += 1
        if total != sum(map(int, before)):
            wrong.append(f"{pod.key}: {total} instead of {sum(map(int, before))}")
    return checked, wrong


def check(states: int, pods: Pods, resctrl: Resctrl, context: Context) -> str:
    """Return the row of the table."""
    churn = Churn(pods, resctrl, context)
    held: dict[str, bool] = {}
    probes = compared = 0
    seen: set[str] = set()
    for number in range(1, states + 1):
        churn.step()
        found = gather(context).account
        assert found is not None
        numbers = total_rmids(context.monitor.resctrl), total_closids(context.monitor.resctrl)
        assert (sum(found.rmids.values()), sum(found.closids.values())) == numbers, f"state {number}: {found.as_line()}"
        seen |= {owner for owner, count in found.rmids.items() if count}
        checked, wrong = compare(pods, held, resctrl, context)
        compared += checked
        assert wrong == []
        if number % PROBE == 0 or number == states:
            made = resctrl.use_up()
            for folder in made:
                os.rmdir(folder)
            probes += 1
            assert len(made) == found.rmids["free"] + found.rmids["limbo"], f"state {number}: {found.as_line()}"
    assert states < MEASURED or seen >= {"pods", "classes", "runtimes", "foreign"}
    return f"{numbers[0]} | {numbers[1]} | {states} | 0 | 0 of {probes} | 0 of {compared} |"


@pytest.mark.parametrize("", KINDS)
def test_account_and_bytes_are_exact_in_random_states(pods: Pods, resctrl: Resctrl, context: Context) -> None:
    check(SUITE, pods, resctrl, context)


@pytest.mark.guest(rmids=12)
@pytest.mark.parametrize("name", [b"\xff", b"a\tb", b"x" * 300])
def test_class_with_a_refused_name_takes_rmids_and_a_closid(resctrl: Resctrl, context: Context, name: bytes) -> None:
    resctrl.settle()
    before = gather(context).account
    folder = os.fsencode(resctrl.root) + b"/" + name
    os.mkdir(folder)
    try:
        os.mkdir(folder + b"/mon_groups/3f0ac7f2-8a3b-4f0e-9a55-000000000001")
        found = gather(context)
        account, free = found.account, free_rmids(context.monitor.resctrl, "")
        made = resctrl.use_up()
        for path in made:
            os.rmdir(path)
    finally:
        os.rmdir(folder)
    assert before is not None
    assert account is not None
    assert len(made) == free == account.rmids["free"] == before.rmids["free"] - 2
    assert account.closids["free"] == before.closids["free"] - 1
    assert [one.rdt_class for one in found.foreign] == [class_text(os.fsdecode(name))]


@pytest.mark.measures
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("", KINDS)
def test_account_and_bytes_are_exact_in_hundreds_of_states(
    pods: Pods, resctrl: Resctrl, context: Context, request: pytest.FixtureRequest
) -> None:
    """Print a row of the table in docs/dev/sharing.md."""
    print(f"\n| {request.node.callspec.id} | {check(MEASURED, pods, resctrl, context)}", flush=True)
