"""AMD's processor without assignable counters: no assignment, and no message about it."""

import json
from typing import Any

import pytest

from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod

pytestmark = [
    pytest.mark.guest(amd=1),
    pytest.mark.only(driver="cgroupfs", runtime_name="crun"),
]


def test_every_pod_is_counted_without_remarks_on_counters(pods: list[KubernetesPod], installed: Installed) -> None:
    for number, pod in enumerate(pods[:6]):
        pod.start(f"c{number}")
    installed.reconcile()
    keys = [pod.uid for pod in pods[:6]]
    listed: dict[str, Any] = json.loads(installed.prints("list", "-o", "json"))
    assert {pod["key"]: pod["state"] for pod in listed["items"]} == dict.fromkeys(keys, "assigned")
    assert listed["bandwidthCounters"] == []
    assert "COUNTERS" not in installed.prints("list")
    for key in keys:
        (shown,) = installed.items("show", key)
        assert {one["state"] for one in shown["counters"]} == {"available"}
        assert len(shown["counters"]) == 6
    assert "resctrl_unavailable{" not in installed.prints("metrics")
    assert "bandwidth counter" not in resctrl_hook("--config", installed.config, "doctor").stdout
    assert "bandwidth counter" not in installed.said()
