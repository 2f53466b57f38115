"""What counters cover of a pod's life; demand for RMIDs and counters; conditions of the node that `list` reports."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.counter_tree import OCCUPANCY, TOTAL
from hosts.faults import Fail
from hosts.monitored import MonitoredHost, plain_host
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.inventory import coverage
from resctrl_hooks.core.inventory.attention import LATE, free_bytes, reconcile_age, warnings_of
from resctrl_hooks.core.inventory.demand import filled
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl.counters import Reading, slot_at

HOUSES = ("lab",)

MBM, LOCAL = "mbm_total_bytes", "mbm_local_bytes"


def of_class(name: str | None, seconds: float | None = 50, path: str = TOTAL) -> Reading:
    slot = slot_at(path)
    return Reading(slot.domain, slot.counter, 1.0, "available", name, seconds)


ONE, TWO = {"born": 40, "since": {"": 40}}, {"born": 40, "since": {"": 42, "gold": 70}}


def test_counter_is_partial_if_it_misses_a_part_of_the_pods_life(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """The pod of ONE is 60 s old, and 2 s are ignored; the first class of TWO counts from the pod's start."""
    monkeypatch.setattr(time, "clock_gettime", lambda _: 100.0)
    since: dict[str, Any] = {"since": {"": 40}}
    lines = []
    for found, record in (
        *((of_class(name, seconds), ONE) for name in ("", None) for seconds in (57.9, 58)),
        *((of_class("", 10, OCCUPANCY), ONE), (of_class("", None), ONE), (of_class("", 10), since)),
        *((of_class("gone", 10), record) for record in (ONE, {"born": 40})),
        *((of_class(None, 10), {"born": 40}), (of_class("", 57.9), TWO)),
        *((of_class("gold", seconds), TWO) for seconds in (28, 27.9)),
    ):
        partial = coverage.is_partial(found, record)
        assert coverage.counter_of(found, partial=partial).partial is partial
        lines.append(f"{found.counter.name} of {found.rdt_class} for {found.seconds} s, {record}: {partial}")
    golden("\n".join(lines))


def test_time_over_all_classes_is_known_or_unknown(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda _: 100.0)
    at_once: dict[str, Any] = {"since": {"": 80, "gold": 80}}
    cases: list[tuple[dict[str, float | None], dict[str, Any]]] = [
        ({"": 58, "gold": 28}, TWO), ({"": 58, "gold": 20}, TWO), ({"": 58.5, "gone": 20}, TWO), ({"": 57}, ONE),
        ({"gone": 30, "gold": 30}, TWO), ({"gone": 30, "other": 20}, ONE), ({"gone": 30, "gold": 30}, at_once),
        ({"": 20, "gold": 20}, at_once), ({"": 30, "gold": 20}, at_once),
        ({"": 0, "gold": 20}, {"born": 79, "since": {"": 79, "gold": 80}}), ({"": 0, "gold": 0}, {}),
        ({"": None, "gold": 20}, {}), ({"gone": 30, "gold": 30}, {"since": {"gold": 70}}),
    ]  # fmt: skip
    lines = []
    for found, record in cases:
        counters, (total,) = coverage.counters_of([of_class(*one) for one in found.items()], record)
        assert [one.seconds for one in counters] == [*found.values()]
        assert total.value == len(found)
        lines.append(f"{found}, {record}: {total.seconds} s, partial {total.partial}")
    golden("\n".join(lines))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """A host with assignable counters, four in domain 0 and none in domain 1."""
    with plain_host(tmp_path, "info/L3_MON") as found:
        info = found.resctrl / "info/L3_MON"
        (info / "mbm_assign_mode").write_text("[mbm_event]\ndefault\n")
        (info / "num_mbm_cntrs").write_text("0=4;1=2\n")
        (info / "available_mbm_cntrs").write_text("0=3\n")
        yield found


def test_pod_has_a_counter_where_all_of_its_groups_have_one_and_its_state_follows(
    host: MonitoredHost, tmp_path: Path
) -> None:
    for name, lines in (
        ("one", f"{MBM}:0=e;1=e\n{LOCAL}:0=e;1=_\n"),
        ("two", f"{MBM}:0=e;1=_;2=e\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mbm_L3_assignments").write_text(lines)
    one, two = f"{tmp_path}/one", f"{tmp_path}/two"
    host.context.settings.monitoring["events"] = [MBM, LOCAL]
    expected: dict[tuple[str, ...], Any] = {
        (one,): ({MBM: {0: True, 1: True}, LOCAL: {0: True, 1: False}}, "assigned"),
        (one, two): ({MBM: {0: True, 1: False, 2: True}, LOCAL: {0: True, 1: False}}, "part-counted"),
        (str(tmp_path),): ({}, "assigned"),
    }
    for groups, (counters, state) in expected.items():
        assert coverage.bandwidth_counters(host.context, groups) == counters
        assert coverage.counted_state(host.context, counters) == state
    assert coverage.bandwidth_counters(host.context, [two, one])[MBM] == {0: True, 1: False, 2: True}
    assert coverage.counted_state(host.context, {MBM: {0: False}, LOCAL: {0: True}}) == "uncounted"
    assert [(one.domain, one.total, one.free) for one in coverage.free_counters(host.context)] == [(0, 4, 3), (1, 2, 0)]
    (host.resctrl / "info/L3_MON/mbm_assign_mode").write_text("[default]\nmbm_event\n")
    assert coverage.free_counters(host.context) == []


@given(
    st.integers(-2, 20), st.dictionaries(st.integers(-5, 5), st.integers(0, 9)), st.integers(0, 5), st.integers(-5, 5)
)
def test_supply_is_never_exceeded_and_higher_priorities_come_first(
    available: int, wanted: dict[int, int], reserved: int, above: int
) -> None:
    given_ = filled(available, wanted, reserved=reserved, above=above)
    assert sum(given_.values()) <= max(available, 0)
    short = [priority for priority in wanted if given_[priority] < wanted[priority]]
    for priority, number in wanted.items():
        assert 0 <= given_[priority] <= number
        if short and priority < max(short) and max(short) > above >= priority:
            assert given_[priority] == 0


def test_late_reconcile_is_in_list_and_unreadable_facts_need_no_attention(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    real = time.time
    host.context.ledger.prepare()
    host.context.ledger.count_call("reconcile", 0.1)
    for seconds in (0, LATE + 60):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: real() + seconds)
        assert ("reconcile last completed a pass" in host.run("list").stdout.replace("\n", " ")) == bool(seconds)
    fail(call_metrics, "read", HookError("damaged"))
    assert reconcile_age(host.context) is None
    assert free_bytes("/nowhere") is None
    host.context.settings.state_dir = "/nowhere"
    assert warnings_of(host.context) == []
