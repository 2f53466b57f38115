"""Rates: counted amount by counted seconds, without a value if these are too few or unknown."""

from dataclasses import replace

import pytest

from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    WAITING,
    Reading,
    slot_at,
)
from resctrl_hooks.observe.inventory.columns import BY_KEY, LLC, LOCAL, MBM, POWER
from resctrl_hooks.observe.inventory.rates import Line, added, of_pod, of_values
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, Values

TOTAL = "mon_L3_00/mbm_total_bytes"
LOCAL_BYTES = "mon_L3_00/mbm_local_bytes"
OTHER = "mon_L3_01/mbm_total_bytes"
OCCUPANCY = "mon_L3_00/llc_occupancy"
PART = "mon_L3_00/mon_sub_L3_01"
ENERGY = "mon_PERF_PKG_01/core_energy"
KEY = "web"


def reading(
    value: float | None, seconds: float, state: str = AVAILABLE, rdt_class: str = "", path: str = TOTAL
) -> Reading:
    slot = slot_at(path)
    return Reading(slot.domain, slot.counter, value, state, rdt_class, seconds)


def snapshot(when: float, *readings: Reading, held: tuple[str, ...] | None = None, tracked: bool = True) -> Snapshot:
    """Return a snapshot of one pod with groups in the classes ``held``, or in those of its readings."""
    classes = {one.rdt_class or "" for one in readings if one.state != WAITING} if held is None else set(held)
    return Snapshot(when, {}, {KEY: list(readings)} if tracked else {}, {KEY: classes} if classes else {})


def _use(*values: float | None) -> Line:
    return Line(values={**dict.fromkeys(BY_KEY), **dict(zip(BY_KEY, values, strict=False))})


def rates(before: Snapshot, now: Snapshot) -> Line:
    return of_pod(before, now, KEY)


def test_rate_of_counted_pod_is_growth_by_interval() -> None:
    found = rates(snapshot(100, reading(50, 7)), snapshot(102, reading(90, 9)))
    assert (found[MBM], found.counted, found.estimated) == (20, 1, False)


def test_rate_of_a_waiting_pod_is_unknown() -> None:
    found = rates(snapshot(100, reading(50, 7, WAITING)), snapshot(102, reading(50, 7, WAITING)))
    assert (found[MBM], found.counted, found.moved) == (None, None, {"mbm_total_bytes": 0})


@pytest.mark.parametrize("seconds, expected", [(1.2, 50), (1.0, 50), (0.9, None)])
def test_rate_after_handover_uses_counted_seconds(seconds: float, expected: float | None) -> None:
    """The giver: its counts until then are read at the handover."""
    found = rates(snapshot(100, reading(0, 7)), snapshot(102, reading(50 * seconds, 7 + seconds, WAITING)))
    assert found[MBM] == (pytest.approx(expected) if expected else None)
    assert found.counted == (pytest.approx(seconds / 2) if expected else None)
    assert found.moved == {"mbm_total_bytes": pytest.approx(50 * seconds)}


def test_rate_of_preempting_pod_uses_counted_seconds() -> None:
    found = rates(snapshot(100, reading(None, 0, WAITING)), snapshot(102, reading(60, 1.5)))
    assert (found[MBM], found.counted) == (40, 0.75)
    assert found.estimated


def test_rate_is_unknown_if_counter_was_unassigned_for_most_of_interval() -> None:
    found = rates(snapshot(100, reading(50, 7)), snapshot(102, reading(60, 7.5, UNASSIGNED)))
    assert found[MBM] is None


@pytest.mark.parametrize("state", [UNAVAILABLE, ERROR])
def test_rate_is_unknown_in_the_interval_after_a_missing_value(state: str) -> None:
    """The increase is that of several intervals, and its seconds are those of the last one."""
    missing, after = snapshot(102, reading(50, 7, state)), snapshot(104, reading(130, 9))
    assert rates(snapshot(100, reading(50, 7)), missing)[MBM] is None
    found = rates(missing, after)
    assert (found[MBM], found.counted, found.moved) == (None, None, {"mbm_total_bytes": 80})
    assert rates(after, snapshot(106, reading(170, 11)))[MBM] == 20
    joules = [
        snapshot(when, reading(value, when, of, path=ENERGY)) for when, value, of in ((0, 0, state), (2, 8, AVAILABLE))
    ]
    assert rates(*joules)[POWER] == 4, "a package in which a pod never ran"


@pytest.mark.parametrize("held", [("gold",), ("", "gold")])
def test_rate_is_unknown_in_the_interval_of_a_class_change(held: tuple[str, ...]) -> None:
    """The kernel does not report when tasks left their class, so the old group's seconds are not valid."""
    before = snapshot(100, reading(50, 7))
    now = snapshot(102, reading(50, 8.2), reading(20, 1.1, rdt_class="gold"), held=held)
    assert rates(before, now)[MBM] is None
    assert rates(before, now).moved == {"mbm_total_bytes": 20}
    after = snapshot(104, reading(50, 8.2), reading(60, 3.1, rdt_class="gold"), held=held)
    assert rates(now, after)[MBM] == 20


def test_rate_is_unknown_if_classes_counted_for_different_times() -> None:
    before = snapshot(100, reading(0, 7), reading(0, 7, rdt_class="gold"))
    now = snapshot(102, reading(40, 9), reading(40, 8.2, rdt_class="gold"))
    assert rates(before, now)[MBM] is None


def test_rate_of_two_classes_is_their_sum() -> None:
    before = snapshot(100, reading(0, 7), reading(0, 5, rdt_class="gold"))
    now = snapshot(102, reading(40, 9), reading(20, 7, rdt_class="gold"))
    assert rates(before, now)[MBM] == 30


def test_rate_is_unknown_if_a_domain_has_none() -> None:
    before = snapshot(100, reading(0, 7), reading(0, 7, path=OTHER))
    now = snapshot(102, reading(40, 9), reading(0, 7, UNAVAILABLE, path=OTHER))
    assert rates(before, now)[MBM] is None


def test_power_ignores_package_without_energy() -> None:
    here = "mon_PERF_PKG_00/core_energy"
    before = snapshot(100, reading(0, 7, path=here), reading(None, 0, UNAVAILABLE, path=ENERGY))
    now = snapshot(102, reading(8, 9, path=here), reading(None, 0, UNAVAILABLE, path=ENERGY))
    assert rates(before, now)[POWER] == 4


@pytest.mark.parametrize("seconds, total, moved", [(1.6, 25, 40), (0.4, None, 40), (60, None, None)])
def test_rate_of_new_pod_covers_time_since_start(seconds: float, total: float | None, moved: float | None) -> None:
    found = rates(snapshot(100, tracked=False), snapshot(102, reading(40, seconds)))
    assert found[MBM] == (pytest.approx(total) if total else None)
    assert found.moved == {"mbm_total_bytes": moved}


def test_sum_is_unknown_if_a_pod_is_unknown() -> None:
    assert added([_use(1, 2, 3, 4), _use(1, None, 3, 4)]) == replace(_use(2, None, 6, 8), members=2)
    assert added([Line(values={"mbm": 2}, counted=0.6), Line(values={"mbm": 3}, counted=1.0)]).counted == 0.6


@pytest.mark.parametrize("seconds, counted", [(1.95, 0.975), (1.96, 1.0), (2.0, 1.0)])
def test_interval_counts_as_covered_from_98_per_cent(seconds: float, counted: float) -> None:
    found = rates(snapshot(100, reading(0, 7)), snapshot(102, reading(40, 7 + seconds)))
    assert found.counted == pytest.approx(counted)
    assert found.estimated == (counted < 1)


def test_rate_of_an_empty_interval_is_unknown() -> None:
    found = rates(snapshot(100, reading(0, 7)), snapshot(100, reading(0, 7)))
    assert (found[MBM], found.counted) == (None, None)


@pytest.mark.parametrize("state, amount", [(AVAILABLE, 50), (UNAVAILABLE, None)])
def test_occupancy_of_a_pod_is_the_sum_of_whole_domains(state: str, amount: float | None) -> None:
    readings = [reading(value, 0, path=path) for value, path in ((30, OCCUPANCY), (9, f"{PART}/llc_occupancy"))]
    other = reading(20, 0, state, path=OCCUPANCY.replace("00", "01"))
    assert rates(snapshot(100), snapshot(102, *readings, other))[LLC] == amount


@pytest.mark.parametrize(
    "before, now, rate, moved",
    [
        ({TOTAL: 100}, {TOTAL: 300}, 100, 200),
        ({TOTAL: 300}, {TOTAL: 100}, 0, 0),  # the group was created again under the same identity
        ({TOTAL: 100, OTHER: 0}, {TOTAL: 300, OTHER: 20}, 110, 220),
        ({TOTAL: 100, OTHER: 0}, {TOTAL: 300, OTHER: UNAVAILABLE}, None, None),
        ({TOTAL: 100, OTHER: UNASSIGNED}, {TOTAL: 300, OTHER: 20}, None, None),
        ({TOTAL: 100}, {TOTAL: 300, f"{PART}/mbm_total_bytes": 80}, 100, 200),
        ({TOTAL: 100}, {TOTAL: 300, OTHER: None}, 100, 200),
        ({}, {TOTAL: 300}, None, None),
    ],
)
def test_group_without_a_pod_has_the_rate_of_its_values(
    before: Values, now: Values, rate: float | None, moved: float | None
) -> None:
    found = of_values(before, now, _slots(now), 2, is_new=False)
    assert (found[MBM], found.moved) == (rate, {"mbm_total_bytes": moved})
    assert found.counted == (None if rate is None else 1.0)
    assert of_values(before, now, _slots(now), 0, is_new=False)[MBM] is None


def test_group_and_sum_with_a_local_rate_only_are_counted() -> None:
    now: Values = {TOTAL: UNAVAILABLE, LOCAL_BYTES: 300}
    found = of_values({TOTAL: 100, LOCAL_BYTES: 100}, now, _slots(now), 2, is_new=False)
    assert (found[MBM], found[LOCAL], found.counted) == (None, 100, 1.0)
    assert added([found]).counted == 1.0


@pytest.mark.parametrize("value, expected", [(4096, 4096), (UNAVAILABLE, None)])
def test_occupancy_of_a_group_is_its_present_value(value: float | str, expected: float | None) -> None:
    found = of_values(None, {OCCUPANCY: value}, _slots({OCCUPANCY: 0}), 2, is_new=False)
    assert (found.values, found.counted, found.moved) == ({LLC.key: expected}, None, {})


@pytest.mark.parametrize("is_new, moved", [(True, 300), (False, None)])
def test_traffic_of_a_new_group_is_known_but_not_its_rate_and_energy(*, is_new: bool, moved: float | None) -> None:
    """A group gets an RMID whose energy counter goes on; its traffic counts from 0."""
    now: Values = {TOTAL: 300, ENERGY: 7.5}
    found = of_values(None, now, _slots(now), 2, is_new=is_new)
    assert found.moved == {"mbm_total_bytes": moved, "core_energy": None}
    assert (found[MBM], found[POWER], found.counted) == (None, None, None)


@pytest.mark.parametrize(
    "before, now, watts",
    [(UNAVAILABLE, 10.0, 5), (UNAVAILABLE, UNAVAILABLE, 0), (10.0, 14.0, 2), (10.0, "Error", None)],
)
def test_energy_of_a_package_without_tasks_counts_as_0(
    before: float | str, now: float | str, watts: float | None
) -> None:
    assert of_values({ENERGY: before}, {ENERGY: now}, _slots({ENERGY: 0}), 2, is_new=False)[POWER] == watts


def test_sum_has_the_amounts_of_all_parts() -> None:
    one, other = Line(moved={"mbm_total_bytes": 2}), Line(moved={"mbm_total_bytes": 3})
    assert added([one, other]).moved == {"mbm_total_bytes": 5}
    assert added([one, Line()]).moved == {"mbm_total_bytes": None}
    assert added([]) == Line(values=dict.fromkeys(BY_KEY), members=0)
    assert added([Line(values={"llc": 1}, counted=0.6)]).counted is None


def _slots(values: Values) -> Snapshot:
    return Snapshot(102, {path: slot_at(path) for path in values})
