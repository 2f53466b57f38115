"""Threads of a container are moved into their group from all places except foreign groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resctrl_hooks.core.node.errors import ClassMismatchError
from resctrl_hooks.core.node.reconcile import tasks

if TYPE_CHECKING:
    from conftest import Host

    from resctrl_hooks.core.node.context import Context
    from resctrl_hooks.core.node.reconcile.tasks import Gathering

Where = dict[int, "tuple[str, str] | None"]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Where:
    """Return a container's threads, by id: class and group, or None where /proc doesn't say. 0 has just ended."""
    found: Where = {}

    def groups_of(_proc: str, tid: int) -> tuple[str, str] | None:
        if not tid:
            raise ProcessLookupError
        return found[tid]

    monkeypatch.setattr(tasks, "threads_of_container", lambda *_given: list(found))
    monkeypatch.setattr(tasks, "resctrl_groups_of", groups_of)
    return found


def test_outside_threads_are_found_in_proc(host: Host, threads: Where) -> None:
    threads.update({1: ("gold", "k"), 0: None, 2: ("gold", ""), 3: ("gold", "pqos"), 4: ("silver", "k"), 5: ("", "k")})
    found = tasks.outside(host.context(), {"gold": "k", "": "k"}, "/c", 1)
    assert found == [(2, "gold", ""), (3, "gold", "pqos"), (4, "silver", "k")]


def test_outside_threads_are_found_in_group_lists_without_proc(host: Host, threads: Where) -> None:
    host.add_class("gold")
    for folder, listed in (("mon_groups/k", "1\n"), ("gold/mon_groups/k", "3\n"), ("gold/mon_groups/other", "2\n")):
        (host.resctrl / folder).mkdir()
        (host.resctrl / folder / "tasks").write_text(listed)
    threads.update({1: None, 2: None, 3: None})
    assert tasks.outside(host.context(), {"": "k", "gold": "k"}, "/c", 1) == [(2, "?", "")]
    assert tasks.outside(host.context(), {"gold": "k"}, "/c", 1) == [(1, "?", ""), (2, "?", "")]
    assert tasks.outside(host.context(), {}, "/c", 1) == [(1, "?", ""), (2, "?", ""), (3, "?", "")]


def test_threads_that_the_group_lists_are_not_looked_up_one_by_one(
    host: Host, threads: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.resctrl / "mon_groups/k").mkdir()
    (host.resctrl / "mon_groups/k/tasks").write_text("1\n2\n3\n")
    threads.update({1: ("", "k"), 2: ("", "k"), 3: ("", "k"), 4: ("", "")})
    looked_up: list[int] = []

    def groups_of(_proc: str, tid: int) -> tuple[str, str] | None:
        looked_up.append(tid)
        return threads[tid]

    monkeypatch.setattr(tasks, "resctrl_groups_of", groups_of)
    assert tasks.outside(host.context(), {"": "k"}, "/c", 1) == [(4, "", "")]
    assert looked_up == [4]


def gathered(
    context: Context, threads: Where, *classes: str, refused: tuple[str, ...] = ()
) -> tuple[list[int], Gathering]:
    """Gather the threads of key ``k``, which has groups in these classes; return the moved ones and the result.

    The classes ``refused`` refuse them all, and each class those of another, as the kernel does.
    """
    moved: list[int] = []

    def add_tasks(rdt_class: str, name: str, tids: list[int]) -> None:
        if rdt_class in refused or any((threads.get(tid) or [rdt_class])[0] != rdt_class for tid in tids):
            raise ClassMismatchError("Can't move task to different control group")
        moved.extend(tids)
        for tid in tids:
            threads[tid] = (rdt_class, name)

    with context.monitor.hold("k") as locked:
        for name in classes:
            locked.ensure_group(name)
        context.monitor.resctrl.add_tasks = add_tasks  # type: ignore[assignment, method-assign]
        return moved, tasks.gather(locked, context, "/c", 1, "")


@pytest.mark.parametrize("take_over", [False, True])
def test_member_of_foreign_group_stays_unless_claimed(host: Host, threads: Where, take_over: bool) -> None:
    context = host.context()
    context.settings.monitoring["takeOver"] = take_over
    threads.update({1: ("", "pqos"), 2: ("", "")})
    moved, found = gathered(context, threads, "")
    assert moved == ([1, 2] if take_over else [2])
    assert (found.moved, found.left, found.foreign) == (len(moved), 0, set() if take_over else {"pqos"})


@pytest.mark.parametrize(
    "places, groups, refused, moved, left",
    [
        # Each thread joins the group of its class; 3 was in an unrecorded group.
        ({1: ("", ""), 2: ("gold", ""), 3: ("gold", "k")}, (), (), [1, 2, 3], 0),
        # A thread of an unknown class is tried in the other groups of its key.
        ({1: None}, ("", "bronze", "gold"), ("", "bronze"), [1], 0),
        # One that changes its class meanwhile is not moved, and a class that refuses stops no other.
        ({1: ("", "")}, ("",), ("",), [], 1),
        ({1: ("", ""), 2: ("gold", "")}, (), ("",), [2], 1),
    ],
)
def test_threads_join_a_group_that_accepts_them(
    host: Host, threads: Where, places: Where, groups: Any, refused: Any, moved: list[int], left: int
) -> None:
    for name in ("bronze", "gold"):
        host.add_class(name)
    threads.update(places)
    context = host.context()
    done, found = gathered(context, threads, *groups, refused=refused)
    assert (sorted(done), found.moved, found.left) == (moved, len(moved), left)
    expected = {tid: ((places[tid] or ["gold"])[0], "k") for tid in moved}
    assert {tid: threads[tid] for tid in moved} == expected
    assert {place[0] for place in expected.values()} <= set((context.ledger.read_pod("k") or {})["groups"])


@pytest.mark.parametrize("shared, asked", [(True, ["", "gold"]), (False, [])])
def test_missing_group_is_admitted_under_sharing_rules(
    host: Host, threads: Where, monkeypatch: pytest.MonkeyPatch, shared: bool, asked: list[str]
) -> None:
    host.add_class("gold")
    if shared:
        host.configure(monitoring={"share": {"interval": 60}})
    found: list[str] = []
    monkeypatch.setattr(
        "resctrl_hooks.core.node.sharing.admission.ensure_by_rules",
        lambda locked, rdt_class, *_, **_named: found.append(locked.ensure_group(rdt_class).rdt_class),
    )
    threads.update({1: ("", ""), 2: ("gold", "")})
    gathered(host.context(), threads, "")
    assert found == asked


@pytest.mark.parametrize("late, rounds", [([], 1), ([(7, "", "")], 100)])
def test_search_for_outside_threads_repeats_a_limited_number_of_times(
    host: Host, monkeypatch: pytest.MonkeyPatch, late: list[tuple[int, str, str]], rounds: int
) -> None:
    looks: list[str] = []

    def outside(_context: object, name: str, *_given: object) -> list[tuple[int, str, str]]:
        looks.append(name)
        return late

    monkeypatch.setattr(tasks, "outside", outside)
    _, found = gathered(host.context(), {})
    assert (len(looks), found.moved, found.left) == (rounds, len(late) * rounds, len(late))
