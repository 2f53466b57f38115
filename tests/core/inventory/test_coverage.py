"""The part of a pod's life that its counters cover, and its bandwidth counters."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import OCCUPANCY, TOTAL
from hosts.monitored import MonitoredHost, plain_host
from hosts.shared_node import SharedNode

from resctrl_hooks.core.inventory.attention import free_bytes, warnings_of
from resctrl_hooks.core.inventory.coverage import (
    bandwidth_counters,
    counted_state,
    counter_of,
    counters_of,
    free_counters,
    is_partial,
)
from resctrl_hooks.core.inventory.demand import demand_of
from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.resctrl.counters import Reading, slot_at

MBM, LOCAL = "mbm_total_bytes", "mbm_local_bytes"


def of_class(name: str | None, seconds: float | None = 50, path: str = TOTAL) -> Reading:
    slot = slot_at(path)
    return Reading(slot.domain, slot.counter, 1.0, "available", name, seconds)


ONE, TWO = {"born": 40, "since": {"": 40}}, {"born": 40, "since": {"": 42, "gold": 70}}


@pytest.mark.parametrize(
    "found, record, partial",
    [
        (of_class("", 58), ONE, False),  # the pod is 60 s old, and 2 s are ignored
        (of_class("", 57.9), ONE, True),
        (of_class(None, 57.9), ONE, True),
        (of_class(None, 58), ONE, False),
        (of_class("", 10, OCCUPANCY), ONE, False),
        (of_class("", None), ONE, False),
        (of_class("", 10), {"since": {"": 40}}, False),
        (of_class("gone", 10), ONE, False),
        (of_class("gone", 10), {"born": 40}, False),
        (of_class(None, 10), {"born": 40}, True),
        (of_class("", 57.9), TWO, True),  # the first class counts from the pod's start
        (of_class("gold", 28), TWO, False),
        (of_class("gold", 27.9), TWO, True),
    ],
)
def test_counter_is_partial_if_it_misses_a_part_of_the_pods_life(
    monkeypatch: pytest.MonkeyPatch, found: Reading, record: dict[str, Any], *, partial: bool
) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda _: 100.0)
    assert is_partial(found, record) is partial
    assert counter_of(found, partial=partial).partial is partial


@pytest.mark.parametrize(
    "found, record, seconds, partial",
    [
        ([("", 58), ("gold", 28)], TWO, 58, False),  # the first class counts from the pod's start
        ([("", 58), ("gold", 20)], TWO, 58, True),  # a part of gold's traffic is missing
        ([("", 58.5), ("gone", 20)], TWO, 58.5, False),
        ([("gone", 30), ("gold", 30)], TWO, None, False),  # one after the other, or at the same time
        ([("gone", 30), ("other", 20)], ONE, None, False),
        ([("gone", 30), ("gold", 30)], {"since": {"gold": 70}}, None, False),
        ([("", 20), ("gold", 20)], {"since": {"": 80, "gold": 80}}, 20, False),  # both until now
        ([("", 30), ("gold", 20)], {"since": {"": 80, "gold": 80}}, None, False),  # with an earlier group
        ([("", 0), ("gold", 20)], {"born": 79, "since": {"": 79, "gold": 80}}, 20, True),
        ([("", 0), ("gold", 0)], {}, 0, False),
        ([("", None), ("gold", 20)], {}, None, False),
        ([("", 57)], ONE, 57, True),
    ],
)
def test_time_over_all_classes_is_known_or_unknown(
    monkeypatch: pytest.MonkeyPatch,
    found: list[tuple[str, float | None]],
    record: dict[str, Any],
    seconds: float | None,
    *,
    partial: bool,
) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda _: 100.0)
    counters, (total,) = counters_of([of_class(*one) for one in found], record)
    assert [one.seconds for one in counters] == [one for _, one in found]
    assert (total.value, total.seconds, total.partial) == (len(found), seconds, partial)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """A host with assignable counters, four in domain 0 and none in domain 1."""
    with plain_host(tmp_path, "info/L3_MON") as found:
        info = found.resctrl / "info/L3_MON"
        (info / "mbm_assign_mode").write_text("[mbm_event]\ndefault\n")
        (info / "num_mbm_cntrs").write_text("0=4;1=2\n")
        (info / "available_mbm_cntrs").write_text("0=3\n")
        yield found


def group(folder: Path, *lines: str) -> str:
    folder.mkdir()
    (folder / "mbm_L3_assignments").write_text("".join(f"{line}\n" for line in lines))
    return str(folder)


def test_free_counters_are_those_of_each_domain(host: MonitoredHost) -> None:
    found = free_counters(host.context)
    assert [(one.domain, one.total, one.free) for one in found] == [(0, 4, 3), (1, 2, 0)]
    (host.resctrl / "info/L3_MON/mbm_assign_mode").write_text("[default]\nmbm_event\n")
    assert free_counters(host.context) == []


def test_missing_state_directory_needs_no_attention(host: MonitoredHost) -> None:
    assert free_bytes("/nowhere") is None
    host.context.settings.state_dir = "/nowhere"
    assert warnings_of(host.context) == []


def test_pod_has_a_counter_where_all_of_its_groups_have_one(host: MonitoredHost, tmp_path: Path) -> None:
    one = group(tmp_path / "one", f"{MBM}:0=e;1=e", f"{LOCAL}:0=e;1=_")
    two = group(tmp_path / "two", f"{MBM}:0=e;1=_;2=e")
    found = bandwidth_counters(host.context, [one])
    assert found == {MBM: {0: True, 1: True}, LOCAL: {0: True, 1: False}}
    found = bandwidth_counters(host.context, [one, two])
    assert found == {MBM: {0: True, 1: False, 2: True}, LOCAL: {0: True, 1: False}}
    assert bandwidth_counters(host.context, [two, one])[MBM] == found[MBM]
    assert bandwidth_counters(host.context, [str(tmp_path)]) == {}


@pytest.mark.parametrize(
    "counters, state",
    [
        ({}, "assigned"),
        ({MBM: {0: True, 1: True}, LOCAL: {0: False}}, "assigned"),
        ({MBM: {0: True, 1: False}}, "part-counted"),
        ({MBM: {0: False}, LOCAL: {0: True}}, "uncounted"),
    ],
)
def test_state_follows_from_the_counters_of_the_first_event(
    host: MonitoredHost, counters: dict[str, dict[int, bool]], state: str
) -> None:
    host.context.settings.monitoring["events"] = [MBM, LOCAL]
    assert counted_state(host.context, counters) == state


def test_rmids_of_each_class_are_not_one_number(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=16, pmg=4)
    assert demand_of(node.context(), gather(node.context())) == []
