"""The unit of the sampling process."""

import pytest
from core.install.test_units import Parsed, ours

from resctrl_hooks.core.install.unit_files import KEEP_RUNNING, resident
from resctrl_hooks.core.install.units import EXEC
from resctrl_hooks.core.node.host import descriptors
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.service import GUARD

__all__ = ("ours",)
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


def test_host_without_systemd_has_to_keep_it_running() -> None:
    assert KEEP_RUNNING[GUARD].startswith("keep `resctrl-hook guard run` running")


def test_history_needs_it_beside_the_exec_watcher() -> None:
    assert resident(HISTORY) == [GUARD, EXEC]


@pytest.mark.houses("nri")
def test_history_needs_it_beside_the_plugin() -> None:
    assert resident(HISTORY, ["nri"]) == [GUARD, "resctrl-hooks-nri.service"]
