"""The history in an installation's configuration, and the unit that it needs."""

from pathlib import Path
from typing import Any

import pytest
from core.install.plans import FOLDER, Parsed, Planned, check_units, ours, paths, planned, units
from core.install.staged import CONFIG, given

from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.roles import SETTINGS
from resctrl_hooks.core.install.unit_files import KEEP_RUNNING, resident
from resctrl_hooks.core.install.units import EXEC
from resctrl_hooks.core.node.host import descriptors
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.service import GUARD

__all__ = ("ours", "planned")


def has_history(found: Plan) -> bool:
    return any(b"enabled: true" in file.data for file in found.files if file.path == CONFIG)


def test_judgement_of_pods_needs_the_sampling_process(planned: Planned, tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "slowdown: {enabled: true}\n")
    check_units(planned("crio"), {EXEC, GUARD})


NEW = [(["crio"], None, False), (["crio"], True, True), (["podman"], None, True), (["crio", "podman"], None, True)]


@pytest.mark.parametrize("runtimes, history, enabled", [*NEW, (["podman"], False, False)])
def test_new_file_has_the_history_by_runtime(planned: Planned, runtimes: Any, history: Any, enabled: bool) -> None:
    found = planned(*runtimes, sections={"history": history})
    assert (has_history(found), GUARD in units(found)) == (enabled, enabled)
    if (runtimes, history) == (["crio"], True):
        check_units(found, {EXEC, GUARD})


@pytest.mark.parametrize("history, noted", [(None, False), (False, False), (True, True)])
def test_history_not_enabled_is_noted(planned: Planned, tmp_path: Path, history: bool | None, noted: bool) -> None:
    given(tmp_path, CONFIG, "history: {enabled: false}\n")
    given(tmp_path, f"{FOLDER}/config.json", '{"format": 1}')
    found = planned("podman", sections={"history": history})
    note = f"the history is not enabled: set `history: {{enabled: true}}` in {CONFIG}, and install again"
    assert (found.notes, paths(found, SETTINGS)) == ([note] if noted else [], [])
    given(tmp_path, CONFIG, "namespaces: []\n")
    found = planned("crio", sections={"history": True})
    assert has_history(found), "it is added to an applied configuration"
    assert (GUARD in units(found), found.notes) == (True, [])


HISTORY = Settings({"history": {"enabled": True}})


def test_sampling_process_may_count_cgroups_and_no_other_unit_may(ours: Parsed) -> None:
    service = ours[GUARD]["Service"]
    assert "CAP_PERFMON" in service["CapabilityBoundingSet"].split()
    assert service["SystemCallFilter"].split() == ["@system-service", "perf_event_open"]
    events, files = 6 * 4 * 384, 250 * 24 * 3
    assert int(service["LimitNOFILE"]) >= events + files + descriptors.RESERVE, (
        "six pods at a time with four events on 384 CPUs, and 250 groups with three counters in 24 domains"
    )
    others = [name for name, unit in ours.items() if "perf" in str(unit).lower() and name != GUARD]
    assert others == []


def test_history_needs_it_beside_the_exec_watcher_also_without_systemd() -> None:
    assert resident(HISTORY) == [GUARD, EXEC]
    assert KEEP_RUNNING[GUARD].startswith("keep `resctrl-hook guard run` running")


@pytest.mark.houses("nri")
def test_history_needs_it_beside_the_plugin() -> None:
    assert resident(HISTORY, ["nri"]) == [GUARD, "resctrl-hooks-nri.service"]
