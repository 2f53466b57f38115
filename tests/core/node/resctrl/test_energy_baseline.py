"""A new group's energy counters at its creation."""

from pathlib import Path

import pytest
from hosts.counter_tree import say, say_paths

from resctrl_hooks.core.node.resctrl.counter_files import read_group
from resctrl_hooks.core.node.resctrl.energy_baseline import baseline


def test_baseline_is_initial_value_of_energy_counters(tmp_path: Path) -> None:
    say(tmp_path, mbm_total_bytes=7)
    say_paths(tmp_path, {"mon_PERF_PKG_00/core_energy": 5.5, "mon_PERF_PKG_00/activity": "Unavailable"})
    say_paths(tmp_path, {"mon_PERF_PKG_01/core_energy": "nan", "mon_PERF_PKG_01/activity": "inf"})
    say_paths(tmp_path, {"mon_PERF_PKG_01/uops_retired": 3})
    identity, values = baseline(str(tmp_path))
    assert values == {
        "mon_PERF_PKG_00/core_energy": 5.5,
        "mon_PERF_PKG_00/activity": 0,  # no task of this RMID has run in that package
        "mon_PERF_PKG_01/uops_retired": 3,
    }
    assert identity == read_group(str(tmp_path), [])[0]


def test_removed_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        baseline(str(tmp_path / "gone"))


def test_group_without_energy_counters_has_no_baseline(tmp_path: Path) -> None:
    assert baseline(str(tmp_path))[1] == {}
