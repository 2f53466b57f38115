"""Threads of a container are moved into their group from all places except foreign groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resctrl_hooks.node.errors import ClassMismatchError
from resctrl_hooks.node.reconcile import tasks

if TYPE_CHECKING:
    from conftest import Host

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
    found = tasks.outside(host.context(), "k", {"gold", ""}, "/c", 1)
    assert found == [(2, "gold", ""), (3, "gold", "pqos"), (4, "silver", "k")]


def test_outside_threads_are_found_in_group_lists_without_proc(host: Host, threads: Where) -> None:
    host.add_class("gold")
    for folder, listed in (("mon_groups/k", "1\n"), ("gold/mon_groups/k", "3\n"), ("gold/mon_groups/other", "2\n")):
        (host.resctrl / folder).mkdir()
        (host.resctrl / folder / "tasks").write_text(listed)
    threads.update({1: None, 2: None, 3: None})
    assert tasks.outside(host.context(), "k", {"", "gold"}, "/c", 1) == [(2, "?", "")]
    assert tasks.outside(host.context(), "k", {"gold"}, "/c", 1) == [(1, "?", ""), (2, "?", "")]
    assert tasks.outside(host.context(), "k", set(), "/c", 1) == [(1, "?", ""), (2, "?", ""), (3, "?", "")]


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
    assert tasks.outside(host.context(), "k", {""}, "/c", 1) == [(4, "", "")]
    assert looked_up == [4]


@pytest.mark.parametrize("take_over", [False, True])
def test_member_of_foreign_group_stays_unless_claimed(host: Host, threads: Where, take_over: bool) -> None:
    context = host.context()
    context.settings.monitoring["takeOver"] = take_over
    threads.update({1: ("", "pqos"), 2: ("", "")})
    with context.monitor.hold("k") as locked:
        locked.ensure_group()
        moved = _moves(threads, context)
        gathering = tasks.gather(locked, context, "/c", 1, "")
    assert moved == ([1, 2] if take_over else [2])
    assert gathering.moved == len(moved)
    assert (gathering.left, gathering.foreign) == (0, set() if take_over else {"pqos"})


def _moves(threads: Where, context: Any, refused: tuple[str, ...] = ()) -> list[int]:
    """Return the threads that were moved; classes that refuse them all, as the kernel does with threads of another."""
    moved: list[int] = []

    def add_tasks(rdt_class: str, name: str, tids: list[int]) -> None:
        if rdt_class in refused or any((threads.get(tid) or [rdt_class])[0] != rdt_class for tid in tids):
            raise ClassMismatchError("Can't move task to different control group")
        moved.extend(tids)
        for tid in tids:
            threads[tid] = (rdt_class, name)

    context.monitor.resctrl.add_tasks = add_tasks
    return moved


def test_threads_of_several_classes_join_group_of_their_class(host: Host, threads: Where) -> None:
    host.add_class("gold")
    threads.update({1: ("", ""), 2: ("gold", ""), 3: ("gold", "k")})
    context = host.context()
    with context.monitor.hold("k") as locked:
        moved = _moves(threads, context)
        gathering = tasks.gather(locked, context, "/c", 1, "")
        assert set(locked.origins) == {"", "gold"}
    assert (sorted(moved), gathering.left) == ([1, 2, 3], 0)  # 3 was in an unrecorded group
    assert gathering.moved == 3


@pytest.mark.parametrize("shared, asked", [(True, ["", "gold"]), (False, [])])
def test_missing_group_is_admitted_under_sharing_rules(
    host: Host, threads: Where, monkeypatch: pytest.MonkeyPatch, shared: bool, asked: list[str]
) -> None:
    host.add_class("gold")
    if shared:
        host.configure(monitoring={"share": {"interval": 60}})
    found: list[str] = []
    monkeypatch.setattr(
        "resctrl_hooks.node.sharing.admission.ensure_by_rules",
        lambda locked, rdt_class, *_, **_named: found.append(locked.ensure_group(rdt_class).rdt_class),
    )
    threads.update({1: ("", ""), 2: ("gold", "")})
    context = host.context()
    with context.monitor.hold("k") as locked:
        locked.ensure_group()
        _moves(threads, context)
        tasks.gather(locked, context, "/c", 1, "")
    assert found == asked


def test_unknown_class_tries_other_groups_of_key(host: Host, threads: Where) -> None:
    for name in ("bronze", "gold"):
        host.add_class(name)
    threads.update({1: None})
    context = host.context()
    with context.monitor.hold("k") as locked:
        for name in ("", "bronze", "gold"):
            locked.ensure_group(name)
        moved = _moves(threads, context, refused=("", "bronze"))
        gathering = tasks.gather(locked, context, "/c", 1, "")
    assert (moved, threads[1], gathering.moved, gathering.left) == ([1], ("gold", "k"), 1, 0)


def test_thread_that_changes_class_meanwhile_is_not_counted_as_moved(host: Host, threads: Where) -> None:
    threads.update({1: ("", "")})
    context = host.context()
    with context.monitor.hold("k") as locked:
        locked.ensure_group()
        _moves(threads, context, refused=("",))
        gathering = tasks.gather(locked, context, "/c", 1, "")
    assert (gathering.moved, gathering.left) == (0, 1)


def test_refusing_class_does_not_stop_others(host: Host, threads: Where) -> None:
    host.add_class("gold")
    threads.update({1: ("", ""), 2: ("gold", "")})
    context = host.context()
    with context.monitor.hold("k") as locked:
        moved = _moves(threads, context, refused=("",))
        gathering = tasks.gather(locked, context, "/c", 1, "")
    assert (moved, gathering.moved, gathering.left) == ([2], 1, 1)


@pytest.mark.parametrize("late, rounds", [([], 1), ([(7, "", "")], 100)])
def test_search_for_outside_threads_repeats_a_limited_number_of_times(
    host: Host, monkeypatch: pytest.MonkeyPatch, late: list[tuple[int, str, str]], rounds: int
) -> None:
    looks: list[str] = []

    def outside(_context: object, name: str, *_given: object) -> list[tuple[int, str, str]]:
        looks.append(name)
        return late

    monkeypatch.setattr(tasks, "outside", outside)
    context = host.context()
    with context.monitor.hold("k") as locked:
        _moves({}, context)
        gathering = tasks.gather(locked, context, "/c", 1, "")
    assert (len(looks), gathering.moved, gathering.left) == (rounds, len(late) * rounds, len(late))
