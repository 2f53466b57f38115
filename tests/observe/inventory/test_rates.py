"""Rates: counted amount by counted seconds, without a value if these are too few or unknown."""

from typing import Any

import pytest
from conftest import examples
from golden import Golden
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    ERROR,
    UNASSIGNED,
    UNAVAILABLE,
    WAITING,
    Reading,
    slot_at,
)  # fmt: skip
from resctrl_hooks.observe.inventory.columns import BY_KEY, COLUMNS, LOCAL, MBM, POWER
from resctrl_hooks.observe.inventory.rates import Line, added, of_pod, of_values
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, Values

TOTAL, LOCAL_BYTES, OTHER = "mon_L3_00/mbm_total_bytes", "mon_L3_00/mbm_local_bytes", "mon_L3_01/mbm_total_bytes"
OCCUPANCY, PART = "mon_L3_00/llc_occupancy", "mon_L3_00/mon_sub_L3_01"
HERE, ENERGY = "mon_PERF_PKG_00/core_energy", "mon_PERF_PKG_01/core_energy"
KEY = "web"


def reading(
    value: float | None, seconds: float, state: str = AVAILABLE, rdt_class: str = "", path: str = TOTAL
) -> Reading:
    slot = slot_at(path)
    return Reading(slot.domain, slot.counter, value, state, rdt_class, seconds)


def gold(value: float, seconds: float, state: str = AVAILABLE) -> Reading:
    return reading(value, seconds, state, rdt_class="gold")


def snapshot(when: float, *readings: Reading, held: tuple[str, ...] | None = None, tracked: bool = True) -> Snapshot:
    """Return a snapshot of one pod with groups in the classes ``held``, or in those of its readings."""
    classes = {one.rdt_class or "" for one in readings if one.state != WAITING} if held is None else set(held)
    return Snapshot(when, {}, {KEY: list(readings)} if tracked else {}, {KEY: classes} if classes else {})


def rates(before: Snapshot, now: Snapshot) -> Line:
    return of_pod(before, now, KEY)


SHARES = st.sampled_from([0.0, 0.01, 0.3, 0.49, 0.5, 0.75, 0.975, 0.98, 1.0])
PLACES = st.dictionaries(
    st.tuples(st.sampled_from(["mbm_total_bytes", "mbm_local_bytes"]), st.sampled_from(["00", "01", "02"])),
    st.tuples(st.lists(st.integers(0, 1000), min_size=1, max_size=2), SHARES, st.booleans()),
    min_size=1,
)


@settings(max_examples=examples(60))
@given(PLACES, st.sampled_from([2, 100]), st.sampled_from([AVAILABLE, UNASSIGNED, WAITING]))
def test_pod_of_constant_traffic_has_that_rate_if_half_of_the_interval_is_counted(
    places: dict[tuple[str, str], tuple[list[int], float, bool]], interval: int, state: str
) -> None:
    """Each class of the pod moves a number of bytes per second, and its counter counts for a part of the interval."""
    before, now = [], []
    for (counter, domain), (by_class, share, is_known) in places.items():
        for rdt_class, rate in zip(("", "gold"), by_class, strict=False):
            path = f"mon_L3_{domain}/{counter}"
            value, seconds = (50, 7) if is_known else (None, 0)
            before.append(reading(value, seconds, AVAILABLE if is_known else WAITING, rdt_class, path))
            counted = share * interval
            now.append(reading((value or 0) + rate * counted, seconds + counted, state, rdt_class, path))
    held = ("", "gold")
    found = rates(snapshot(100, *before, held=held), snapshot(100 + interval, *now, held=held))
    known = [share for _, share, _ in places.values() if share >= 0.5]
    for column in (MBM, LOCAL):
        of = [(sum(by_class), share) for (name, _), (by_class, share, _) in places.items() if name == column.counter]
        is_whole = bool(of) and all(share >= 0.5 for _, share in of)
        assert found[column] == (pytest.approx(sum(rate for rate, _ in of)) if is_whole else None)
        if of:
            assert found.moved[column.counter] == pytest.approx(sum(rate * share * interval for rate, share in of))
    whole = found[MBM] is not None or found[LOCAL] is not None
    counted = min(known, default=0)
    assert found.counted == (None if not whole else 1.0 if counted >= 0.98 else pytest.approx(counted))
    assert found.estimated == (whole and counted < 0.98)
    assert found.counted_percent == (round(found.counted * 100, 1) if found.counted else None)


Snapshots = tuple[Snapshot, Snapshot]
CASES: dict[str, Snapshots] = {
    "waiting pod": (snapshot(100, reading(50, 7, WAITING)), snapshot(102, reading(50, 7, WAITING))),
    "no value": (snapshot(100, reading(50, 7)), snapshot(102, reading(50, 7, ERROR))),
    # The increase is that of several intervals, and its seconds are those of the last one.
    **{
        f"after {state}": (snapshot(102, reading(50, 7, state)), snapshot(104, reading(130, 9)))
        for state in (UNAVAILABLE, ERROR)
    },
    "package in which the pod never ran before": (
        snapshot(0, reading(0, 0, UNAVAILABLE, path=ENERGY)), snapshot(2, reading(8, 2, path=ENERGY)),
    ),
    "package in which the pod never ran": (
        snapshot(100, reading(0, 7, path=HERE), reading(None, 0, UNAVAILABLE, path=ENERGY)),
        snapshot(102, reading(8, 9, path=HERE), reading(None, 0, UNAVAILABLE, path=ENERGY)),
    ),
    # The kernel does not report when tasks left their class, so the old group's seconds are not valid.
    **{
        f"class change to {held}": (
            snapshot(100, reading(50, 7)), snapshot(102, reading(50, 8.2), gold(20, 1.1), held=held),
        )
        for held in (("gold",), ("", "gold"))
    },
    "after a class change": (
        snapshot(102, reading(50, 8.2), gold(20, 1.1), held=("gold",)),
        snapshot(104, reading(50, 8.2), gold(60, 3.1), held=("gold",)),
    ),
    "classes counted for different times": (
        snapshot(100, reading(0, 7), gold(0, 7)), snapshot(102, reading(40, 9), gold(40, 8.2)),
    ),
    "domain without a value": (
        snapshot(100, reading(0, 7), reading(0, 7, path=OTHER)),
        snapshot(102, reading(40, 9), reading(0, 7, UNAVAILABLE, path=OTHER)),
    ),
    "new pod": (snapshot(100, tracked=False), snapshot(102, reading(40, 1.6))),
    "very new pod": (snapshot(100, tracked=False), snapshot(102, reading(40, 0.4))),
    "pod of another time": (snapshot(100, tracked=False), snapshot(102, reading(40, 60))),
    "empty interval": (snapshot(100, reading(0, 7)), snapshot(100, reading(0, 7))),
    **{
        f"cache with {state}": (
            snapshot(100),
            snapshot(
                102, reading(30, 0, path=OCCUPANCY), reading(9, 0, path=f"{PART}/llc_occupancy"),
                reading(20, 0, state, path=OCCUPANCY.replace("00", "01")),
            ),
        )
        for state in (AVAILABLE, UNAVAILABLE)
    },
}  # fmt: skip
GROUPS: dict[str, tuple[Values | None, Values]] = {
    "traffic": ({TOTAL: 100}, {TOTAL: 300}),
    "group created again under the same identity": ({TOTAL: 300}, {TOTAL: 100}),
    "two domains": ({TOTAL: 100, OTHER: 0}, {TOTAL: 300, OTHER: 20}),
    "unavailable": ({TOTAL: 100, OTHER: 0}, {TOTAL: 300, OTHER: UNAVAILABLE}),
    "unassigned before": ({TOTAL: 100, OTHER: UNASSIGNED}, {TOTAL: 300, OTHER: 20}),
    "part of a domain": ({TOTAL: 100}, {TOTAL: 300, f"{PART}/mbm_total_bytes": 80}),
    "no file": ({TOTAL: 100}, {TOTAL: 300, OTHER: None}),
    "no value before": ({}, {TOTAL: 300}),
    "local traffic only": ({TOTAL: 100, LOCAL_BYTES: 100}, {TOTAL: UNAVAILABLE, LOCAL_BYTES: 300}),
    "cache": (None, {OCCUPANCY: 4096}),
    "unknown cache": (None, {OCCUPANCY: UNAVAILABLE}),
    # A group gets an RMID whose energy counter goes on; its traffic counts from 0.
    "new group": (None, {TOTAL: 300, ENERGY: 7.5}),
    # A package without tasks has no value, which counts as 0.
    "first task of a package": ({ENERGY: UNAVAILABLE}, {ENERGY: 10.0}),
    "package without tasks": ({ENERGY: UNAVAILABLE}, {ENERGY: UNAVAILABLE}),
    "energy": ({ENERGY: 10.0}, {ENERGY: 14.0}),
    "unreadable energy": ({ENERGY: 10.0}, {ENERGY: "Error"}),
}
"""By name, the values of a group without a pod, two seconds apart."""


def text(found: Line) -> str:
    known = {name: value if value is None else round(value, 6) for name, value in found.values.items()}
    return f"{known} moved {found.moved} counted {found.counted}"


def test_rates_in_special_intervals(golden: Golden) -> None:
    golden("\n".join(f"{name}: {text(rates(*pair))}" for name, pair in CASES.items()), "pods")
    lines = []
    for name, (before, now) in GROUPS.items():
        at = Snapshot(102, {path: slot_at(path) for path in now})
        one, new, empty = (
            of_values(before, now, at, seconds, is_new=is_new)
            for seconds, is_new in ((2, False), (2, True), (0, False))
        )
        lines.append(f"{name}: {text(one)}" + (f"; new: {text(new)}" if text(new) != text(one) else ""))
        assert (empty[MBM], added([one]).counted) == (None, one.counted)
    golden("\n".join(lines), "groups")


VALUES = st.one_of(st.none(), st.integers(0, 100))
LINES = st.builds(
    Line,
    values=st.dictionaries(st.sampled_from([*BY_KEY]), VALUES),
    moved=st.dictionaries(st.sampled_from([column.counter for column in COLUMNS]), VALUES),
    by_domain=st.dictionaries(st.sampled_from([("mbm_total_bytes", "mon_L3_00"), ("core_energy", "x")]), VALUES),
    counted=st.one_of(st.none(), st.sampled_from([0.6, 1.0])),
    uncounted=st.integers(0, 2),
)


def summed(parts: list[Any]) -> float | None:
    return None if None in parts else sum(parts)


@settings(max_examples=examples(50))
@given(st.lists(LINES, max_size=4))
def test_sum_is_unknown_where_a_part_is_unknown(parts: list[Line]) -> None:
    found = added(parts)
    assert (found.members, found.uncounted) == (len(parts), sum(one.uncounted for one in parts))
    for column in COLUMNS:
        assert found[column] == (summed([one[column] for one in parts]) if parts else None)
    for counter in {name for one in parts for name in one.moved}:
        assert found.moved[counter] == summed([one.moved.get(counter) for one in parts])
    for place in {place for one in parts for place in one.by_domain}:
        assert found.by_domain[place] == summed([one.by_domain.get(place) for one in parts])
    has_rate = any(found[column] is not None for column in (MBM, LOCAL, POWER))
    assert found.counted == (min((one.counted for one in parts if one.counted), default=None) if has_rate else None)
    assert added([]) == Line(values=dict.fromkeys(BY_KEY), members=0)
