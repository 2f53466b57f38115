"""`Monitor.totals`, `members`, and what the library's objects print."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks import Counter, Filesystem, Monitor, Totals

HOUSES = ("lab",)


def monitor(host: Host) -> Monitor:
    return Monitor(host.resctrl, state_dir=host.state, proc=host.proc)


def write(folder: Path, **values: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")


def totals(host: Host, files: dict[str, dict[str, object]]) -> Totals:
    """Return the totals of a key whose group has these files by domain."""
    for folder, values in files.items():
        write(host.resctrl / "mon_data" / folder, **values)
    on = monitor(host)
    group = on.ensure_group("k")
    for folder, values in files.items():
        write(Path(group.path) / "mon_data" / folder, **values)
    return on.totals("k")


VALUE = st.one_of(st.integers(0, 99), st.just("Unavailable"))
TREES = st.dictionaries(
    st.tuples(st.sampled_from(["A", "L3"]), st.integers(0, 2)),
    st.tuples(st.one_of(st.none(), VALUE), st.lists(VALUE, max_size=2)),
)
"""By resource and domain, the value of the whole, if it has one, and of its Sub-NUMA parts."""


@settings(max_examples=examples(40))
@given(TREES)
def test_total_is_the_sum_of_domains_and_of_the_parts_of_those_without_a_value(tree: Any) -> None:
    files: dict[str, dict[str, object]] = {"mon_L3_09": {"llc_occupancy": 8}}
    sums: dict[str, list[int]] = {}
    for (resource, number), (whole, parts) in tree.items():
        folder = f"mon_{resource}_{number:02}"
        names = [folder, *(f"{folder}/mon_sub_{resource}_{part:02}" for part in range(len(parts)))]
        files |= {
            name: {"mbm_total_bytes": one} for name, one in zip(names, [whole, *parts], strict=True) if one is not None
        }
        for one in parts if whole is None else [whole]:
            sums.setdefault(resource, []).extend([one] if isinstance(one, int) else [])
    with tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as root:
        found = totals(Host(Path(root)), files)
    assert found.pop("llc_occupancy") == 8
    called = {name: "A/mbm_total_bytes" if name == "A" and "L3" in sums else "mbm_total_bytes" for name in sums}
    assert found == {called[name]: sum(of) if of else None for name, of in sums.items()}


def test_resources_are_summed_apart_and_l3_has_the_plain_name(host: Host) -> None:
    found = totals(
        host,
        {
            "mon_L3_00": {"mbm_total_bytes": 1},
            "mon_L3_01": {"mbm_total_bytes": 2},
            "mon_A_00": {"mbm_total_bytes": 40},
            "mon_A_01": {"mbm_total_bytes": 50},
            "mon_PERF_PKG_00": {"core_energy": "0.100000"},
            "mon_PERF_PKG_01": {"core_energy": "0.200000"},
        },
    )
    assert found == {"mbm_total_bytes": 3, "A/mbm_total_bytes": 90, "core_energy": 0.0}
    for number, value in enumerate(("0.200000", "0.400000")):  # joules from the first value, at which the RMID began
        write(host.resctrl / f"mon_groups/k/mon_data/mon_PERF_PKG_0{number}", core_energy=value)
    assert monitor(host).totals("k")["core_energy"] == 0.3


@pytest.mark.parametrize("word", ["Unavailable", "Unassigned", "Error"])
def test_missing_part_makes_a_gauge_unknown_and_is_no_part_of_a_total(host: Host, word: str) -> None:
    files: dict[str, dict[str, object]] = {
        "mon_L3_00": {"llc_occupancy": 5, "mbm_total_bytes": 7, "mbm_local_bytes": word},
        "mon_L3_01": {"llc_occupancy": word, "mbm_total_bytes": word, "mbm_local_bytes": word},
    }
    assert totals(host, files) == {"llc_occupancy": None, "mbm_local_bytes": None, "mbm_total_bytes": 7}


def test_objects_print_what_they_are(host: Host) -> None:
    assert repr(Counter("core_energy", "cumulative", "J", "Energy.")) == "Counter('core_energy', 'cumulative', 'J')"
    assert repr(Filesystem()) == "Filesystem()"
    on = monitor(host)
    assert on.members("k") == []
    with on.hold("k") as held:
        held.ensure_group()
        assert repr(held) == "<LockedKey k: groups in the root class>"
        held.add_member("b")
        held.add_member("a")
    assert (on.members("k"), on.member_count("k")) == (["a", "b"], 2)
