"""The lines of `top`: pods by class, each pod with its share of each class."""

import pytest

from inventory.test_rates import KEY, TOTAL, reading, snapshot
from resctrl_hooks.inventory.columns import MBM
from resctrl_hooks.inventory.usage import POD, UNGROUPED, Line, grouped, usage
from resctrl_hooks.node.resctrl.counters import UNASSIGNED, WAITING, slot_at
from resctrl_hooks.node.snapshot.snapshot import ClassCounts, Snapshot


def by_class(before: Snapshot, now: Snapshot) -> dict[str, Line]:
    lines = usage(before, now)
    return {line.name: line for line in grouped(lines, "class") if line.kind == POD}


def rates(before: Snapshot, now: Snapshot) -> dict[str, float | None]:
    return {name: line.rates[MBM] for name, line in by_class(before, now).items()}


def test_pod_in_two_classes_has_its_share_in_each() -> None:
    before = snapshot(100, reading(0, 7), reading(0, 7, rdt_class="gold"))
    now = snapshot(102, reading(40, 9), reading(20, 9, rdt_class="gold"))
    assert rates(before, now) == {"/": 20, "gold": 10}
    assert [line.members for line in by_class(before, now).values()] == [1, 1]


def test_share_of_a_class_is_unknown_only_in_the_class_that_is_not_counted() -> None:
    before = snapshot(100, reading(0, 7, UNASSIGNED), reading(0, 7, rdt_class="gold"), held=("", "gold"))
    now = snapshot(102, reading(0, 7, UNASSIGNED), reading(20, 9, rdt_class="gold"), held=("", "gold"))
    assert rates(before, now) == {"/": None, "gold": 10}
    assert {name: line.uncounted for name, line in by_class(before, now).items()} == {"/": 1, "gold": 0}


def test_pod_that_left_a_class_long_ago_has_no_share_in_it() -> None:
    before = snapshot(100, reading(50, 7, WAITING), reading(0, 7, rdt_class="gold"), held=("gold",))
    now = snapshot(102, reading(50, 7, WAITING), reading(20, 9, rdt_class="gold"), held=("gold",))
    assert rates(before, now) == {"gold": 10}


def test_pod_that_changes_its_class_has_unknown_rates_in_both() -> None:
    before = snapshot(100, reading(0, 7))
    now = snapshot(102, reading(20, 8, WAITING), reading(20, 1, rdt_class="gold"), held=("gold",))
    assert rates(before, now) == {"/": None, "gold": None}


@pytest.mark.parametrize("by", ["pod", "namespace"])
def test_pod_in_two_classes_is_one_pod_elsewhere(by: str) -> None:
    before = snapshot(100, reading(0, 7), reading(0, 7, rdt_class="gold"))
    now = snapshot(102, reading(40, 9), reading(20, 9, rdt_class="gold"))
    (line,) = [line for line in grouped(usage(before, now), by) if line.kind == POD]
    assert (line.rates[MBM], line.members, line.rdt_class) == (30, 1, None)


@pytest.mark.parametrize("identity, rate", [("1", 20.0), ("2", None)])
def test_ungrouped_tasks_of_a_class_created_again_have_no_rate(identity: str, rate: float | None) -> None:
    def look(when: float, which: str, value: float) -> Snapshot:
        classes = {"gold": ClassCounts(which, {}, {TOTAL: value}, {}, {})}
        return Snapshot(when, {TOTAL: slot_at(TOTAL)}, classes=classes)

    (line,) = [line for line in usage(look(100, "1", 10), look(102, identity, 50)) if line.kind == UNGROUPED]
    assert line.rates[MBM] == rate


def test_waiting_pod_is_in_no_class() -> None:
    waiting = snapshot(100, reading(0, 7, WAITING)), snapshot(102, reading(0, 7, WAITING))
    assert rates(*waiting) == {"(no group)": None}
    assert KEY in waiting[0].pods
