"""Assignment of the assignable counters, with totals kept for pods that lose one."""

import pytest
from conftest import Host

from resctrl_hooks.core.node.resctrl.assignment import parse
from resctrl_hooks.core.node.resctrl.bandwidth import EVENTS
from resctrl_hooks.core.node.resctrl.counter_share import FOREIGN, OURS, UNGROUPED, Change, Holder, rearrange, share

TOTAL, LOCAL = EVENTS


def holder(name: str, total: str = "_", local: str = "_", kind: str = OURS) -> Holder:
    """Return a holder in two domains at most: `ee` is both, `_e` the second alone."""
    states = {
        event: {domain: letter == "e" for domain, letter in enumerate(letters)}
        for event, letters in ((TOTAL, total), (LOCAL, local))
    }
    return Holder(f"/{name}", states, kind, name if kind == OURS else "")


def ranked(name: str, priority: int, turn: tuple[int, float] | None = None, total: str = "_") -> Holder:
    """Return a holder of a priority, and in a round of turns of a place."""
    made = holder(name, total)
    made.priority, made.turn = priority, turn
    return made


def after(holders: list[Holder], number: int, *, keep_ungrouped: bool = False) -> dict[str, str]:
    """Return the counters in a domain after all changes: `tl`, `t`, `l` or nothing."""
    changes = share(holders, {0: number}, EVENTS, keep_ungrouped=keep_ungrouped)
    for change in changes:
        assert change.holder.has(change.event, change.domain) is not change.give
        change.holder.states[change.event][change.domain] = change.give
    found = {
        one.folder: "".join(mark for mark, event in zip("tl", EVENTS, strict=True) if one.has(event, 0))
        for one in holders
    }
    assert sum(len(marks) for marks in found.values()) <= number
    return found


def test_assignment_file_is_parsed() -> None:
    assert parse("mbm_total_bytes:0=e;1=_\nmbm_local_bytes:0=_;1=_\n") == {
        TOTAL: {0: True, 1: False},
        LOCAL: {0: False, 1: False},
    }
    assert parse("") == {}


ROOT = ("root", "e", "e", UNGROUPED)


@pytest.mark.parametrize(
    "holders, number, keep_ungrouped, marks",
    [
        # Every pod has its first event before any has its second. The kernel leaves four counters to these two.
        ([holder(*ROOT), holder("a", "e", "e"), holder("b"), holder("c")], 4, False, ["", "tl", "t", "t"]),
        ([holder(*ROOT), holder("a")], 3, False, ["t", "tl"]),  # the remaining ones go to classes
        ([holder(*ROOT), holder("a", "e"), holder("b")], 3, True, ["tl", "t", ""]),
        ([holder("a"), holder("b"), holder("c", "e")], 2, False, ["t", "", "t"]),  # a holder keeps its counter
        ([holder("x", "e", "e", FOREIGN), holder("a"), holder("b")], 3, False, ["tl", "t", ""]),
        # The highest priority is served first, and preempts a lower one but no equal.
        ([ranked("a", 0, total="e"), ranked("b", 5), ranked("c", 0, total="e")], 2, False, ["t", "t", ""]),
        ([ranked("a", 5, total="e"), ranked("b", 5)], 1, False, ["t", ""]),
        # Equal pods in a round are served by place.
        ([ranked("a", 0, (2, -1.0), "e"), ranked("b", 0, (1, 5.0)), ranked("c", 0, (1, 3.0))], 1, False, ["", "", "t"]),
        ([ranked("a", 0, (2, -1.0)), ranked("b", 0, (1, 5.0)), ranked("d", 0, (0, 0.0), "e")], 1, False, ["", "", "t"]),
    ],
)
def test_counters_of_a_domain_after_all_changes(
    holders: list[Holder], number: int, keep_ungrouped: bool, marks: list[str]
) -> None:
    found = after(holders, number, keep_ungrouped=keep_ungrouped)
    assert found == {one.folder: mark for one, mark in zip(holders, marks, strict=True)}


def test_domains_are_assigned_independently() -> None:
    one, two = holder("a", "e_", "__"), holder("b", "__", "__")
    changes = share([one, two], {0: 1, 1: 2}, [TOTAL])
    assert {(change.holder.folder, change.domain, change.give) for change in changes} == {
        ("/a", 1, True),
        ("/b", 1, True),
    }


@pytest.mark.parametrize("number", range(9))
def test_assignment_is_done_once(number: int) -> None:
    holders = [holder("root", "e", "e", UNGROUPED), *(holder(name) for name in "abc")]
    after(holders, max(number, 2))
    assert share(holders, {0: max(number, 2)}, EVENTS) == []


def test_unwanted_event_releases_its_counter() -> None:
    (change,) = share([holder("a", "e", "e")], {0: 2}, [TOTAL])
    assert (change.event, change.give) == (LOCAL, False)


def test_refused_change_is_not_reported_as_done(host: Host) -> None:
    here, gone = holder("a"), holder("b")
    here.folder = str(host.resctrl)
    gone.folder = str(host.root / "gone")
    for one in (here, gone):
        one.key = ""  # no totals to keep
    (host.resctrl / "mbm_L3_assignments").touch()
    changes = [Change(gone, TOTAL, 0, give=True), Change(here, LOCAL, 1, give=True), Change(here, TOTAL, 0, give=False)]
    assert rearrange(host.context().monitor, changes) == changes[1:]
    assert (here.has(LOCAL, 1), here.has(TOTAL, 0), gone.has(TOTAL, 0)) == (True, False, False)
