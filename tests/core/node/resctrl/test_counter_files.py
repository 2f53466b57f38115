"""One read of a group's counters."""

from pathlib import Path

import pytest
from hosts.counter_tree import say, say_paths

from resctrl_hooks.core.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    COUNTERS,
    CUMULATIVE,
    ERROR,
    GAUGE,
    UNASSIGNED,
    UNAVAILABLE,
    Reading,
    counter_named,
    domain_named,
    slot_at,
)


def test_group_is_read_file_by_file(tmp_path: Path) -> None:
    say(tmp_path, llc_occupancy=65536, mbm_total_bytes=18446744073709551615, mbm_local_bytes=0)
    say_paths(tmp_path, {"mon_PERF_PKG_01/core_energy": "1234.500000"})
    slots = layout(f"{tmp_path}/mon_data")
    assert [slot.path for slot in slots] == [
        "mon_L3_00/llc_occupancy",
        "mon_L3_00/mbm_local_bytes",
        "mon_L3_00/mbm_total_bytes",
        "mon_PERF_PKG_01/core_energy",
    ]
    _, values = read_group(str(tmp_path), slots)
    assert values == [65536, 0, 18446744073709551615, 1234.5]
    assert (slots[3].domain.resource, slots[3].domain.id, slots[3].domain.node) == ("PERF_PKG", 1, None)


@pytest.mark.parametrize(
    "text,value",
    [
        ("Unavailable", UNAVAILABLE),
        ("Unassigned", UNASSIGNED),
        ("Error", ERROR),
        ("", ERROR),
        ("nan", ERROR),
        ("inf", ERROR),
        ("-1.5", ERROR),
        ("what is this", ERROR),
    ],
)
def test_missing_value_is_a_state_and_never_zero(tmp_path: Path, text: str, value: str) -> None:
    say(tmp_path, mbm_total_bytes=text)
    assert read_group(str(tmp_path), layout(f"{tmp_path}/mon_data"))[1] == [value]


def test_missing_file_has_no_value(tmp_path: Path) -> None:
    say(tmp_path, mbm_total_bytes=1)
    slots = layout(f"{tmp_path}/mon_data")
    (tmp_path / "mon_data/mon_L3_00/mbm_total_bytes").unlink()
    assert read_group(str(tmp_path), slots)[1] == [None]


def test_missing_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_group(f"{tmp_path}/gone", [])


def test_sub_numa_nodes_are_parts_of_their_cache(tmp_path: Path) -> None:
    say(tmp_path, llc_occupancy=3)
    say_paths(tmp_path, {"mon_L3_00/mon_sub_L3_00/llc_occupancy": 1, "mon_L3_00/mon_sub_L3_01/llc_occupancy": 2})
    slots = layout(f"{tmp_path}/mon_data")
    assert [(slot.domain.id, slot.domain.node) for slot in slots] == [(0, None), (0, 0), (0, 1)]
    assert read_group(str(tmp_path), slots)[1] == [3, 1, 2]


def test_group_keeps_identity_over_rename_and_new_one_differs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    identity, _ = read_group(f"{tmp_path}/a", [])
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").mkdir()
    assert read_group(f"{tmp_path}/b", [])[0] == identity
    assert read_group(f"{tmp_path}/a", [])[0] != identity


def test_units_are_ucum_and_kinds_are_known() -> None:
    assert (COUNTERS["llc_occupancy"].kind, COUNTERS["llc_occupancy"].unit) == (GAUGE, "By")
    assert (COUNTERS["core_energy"].kind, COUNTERS["core_energy"].unit) == (CUMULATIVE, "J")
    assert (counter_named("brand_new").kind, counter_named("brand_new").unit) == (CUMULATIVE, "")


@pytest.mark.parametrize(
    "value, state, rdt_class, said",
    [
        (4096, AVAILABLE, None, "4096"),
        (None, UNASSIGNED, None, UNASSIGNED),
        (7, UNASSIGNED, "", f" in the root class: {UNASSIGNED}, 7 before"),
        (7, AVAILABLE, "gold", " in gold: 7"),
    ],
)
def test_reading_prints_as_one_line(value: int | None, state: str, rdt_class: str | None, said: str) -> None:
    counter, domain = counter_named("mbm_total_bytes"), domain_named("mon_L3_00")
    assert domain is not None
    before = "" if said.startswith(" ") else ": "
    assert repr(Reading(domain, counter, value, state, rdt_class)) == f"<mon_L3_00/mbm_total_bytes{before}{said}>"


@pytest.mark.parametrize(
    "path, folder, resource, number",
    [
        ("mon_L3_07/mbm_total_bytes", "mon_L3_07", "L3", 7),
        ("mon_L3_01/mon_sub_L3_03/llc_occupancy", "mon_L3_01/mon_sub_L3_03", "L3", 1),
        ("of_a_later_kernel/mbm_total_bytes", "of_a_later_kernel", "of_a_later_kernel", 0),
    ],
)
def test_slot_is_a_counter_of_a_domain(path: str, folder: str, resource: str, number: int) -> None:
    slot = slot_at(path)
    assert slot.counter.name == path.rpartition("/")[2]
    assert (slot.domain.folder, slot.domain.resource, slot.domain.id) == (folder, resource, number)
