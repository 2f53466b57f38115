"""Assignment of the assignable counters, with totals kept for pods that lose one."""

import pytest
from conftest import Host

from resctrl_hooks.node.resctrl.assignment import EVENTS, parse
from resctrl_hooks.node.resctrl.counter_share import FOREIGN, OURS, UNGROUPED, Change, Holder, rearrange, share

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


def test_every_pod_has_first_event_before_any_has_second() -> None:
    # As the kernel leaves it with four counters: the root group and the first pod have all of them.
    found = after([holder("root", "e", "e", UNGROUPED), holder("a", "e", "e"), holder("b"), holder("c")], 4)
    assert found == {"/root": "", "/a": "tl", "/b": "t", "/c": "t"}


def test_remaining_counters_go_to_classes() -> None:
    assert after([holder("root", "e", "e", UNGROUPED), holder("a")], 3) == {"/root": "t", "/a": "tl"}


def test_classes_keep_counters_if_configured() -> None:
    found = after([holder("root", "e", "e", UNGROUPED), holder("a", "e"), holder("b")], 3, keep_ungrouped=True)
    assert found == {"/root": "tl", "/a": "t", "/b": ""}


def test_holder_keeps_counter_and_others_follow_in_order() -> None:
    assert after([holder("a"), holder("b"), holder("c", "e")], 2) == {"/a": "t", "/b": "", "/c": "t"}


def test_foreign_groups_are_left_alone() -> None:
    assert after([holder("x", "e", "e", FOREIGN), holder("a"), holder("b")], 3) == {"/x": "tl", "/a": "t", "/b": ""}


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


def test_highest_priority_is_served_first_and_preempts_lower_but_not_equal() -> None:
    assert after([ranked("a", 0, total="e"), ranked("b", 5), ranked("c", 0, total="e")], 2) == {
        "/a": "t",
        "/b": "t",
        "/c": "",
    }
    assert after([ranked("a", 5, total="e"), ranked("b", 5)], 1) == {"/a": "t", "/b": ""}


def test_equal_pods_in_a_round_are_served_by_place() -> None:
    holders = [ranked("a", 0, (2, -1.0), "e"), ranked("b", 0, (1, 5.0)), ranked("c", 0, (1, 3.0))]
    assert after(holders, 1) == {"/a": "", "/b": "", "/c": "t"}
    assert after([*holders[:2], ranked("d", 0, (0, 0.0), "e")], 1) == {"/a": "", "/b": "", "/d": "t"}


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
