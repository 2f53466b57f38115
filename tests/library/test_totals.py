"""`Monitor.totals`, `members`, and what the library's objects print."""

import time
from pathlib import Path

import pytest
from conftest import Host

from resctrl_hooks import Counter, Filesystem, Monitor, Totals
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
SNC = ("mon_L3_00", "mon_L3_00/mon_sub_L3_00", "mon_L3_00/mon_sub_L3_01", "mon_L3_01", "mon_L3_01/mon_sub_L3_02")


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


def test_parts_of_a_domain_are_not_added_to_their_sum(host: Host) -> None:
    found = totals(host, dict(zip(SNC, ({"mbm_total_bytes": value} for value in (30, 10, 20, 7, 7)), strict=True)))
    assert found == {"mbm_total_bytes": 37}


def test_parts_without_a_sum_are_added(host: Host) -> None:
    files: dict[str, dict[str, object]] = {name: {"mbm_total_bytes": 5} for name in SNC if "sub" in name}
    assert totals(host, files | {"mon_L3_00": {"llc_occupancy": 8}}) == {"llc_occupancy": 8, "mbm_total_bytes": 15}


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


@pytest.mark.fuse
def test_totals_are_right_with_sub_numa_clusters(tmp_path: Path) -> None:
    with mounted(tmp_path / "resctrl", clusters=2, energy=True) as root:
        on = Monitor(root, state_dir=tmp_path / "state")
        with on.start("job-17", ["sleep", "60"]) as job:
            time.sleep(0.3)
            job.kill()
        time.sleep(0.1)
        found, readings = on.totals("job-17"), on.read("job-17")
        parts = [one for one in readings if one.domain.node is not None]
        assert found["mbm_total_bytes"] == sum(one.value or 0 for one in parts if one.counter.name == "mbm_total_bytes")
        assert {"core_energy", "activity", "llc_occupancy"} <= found.keys()
        on.remove("job-17")


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
