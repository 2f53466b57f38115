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


def command(installed: Installed, *words: str) -> str:
    return resctrl_hook("--config", installed.config, *words).stdout


def test_every_pod_is_counted_without_remarks_on_counters(pods: list[KubernetesPod], installed: Installed) -> None:
    for number, pod in enumerate(pods[:6]):
        pod.start(f"c{number}", ["/bin/sleep", "1000"])
    installed.reconcile()
    keys = [pod.uid for pod in pods[:6]]
    listed: dict[str, Any] = json.loads(command(installed, "list", "-o", "json"))
    assert {pod["key"]: pod["state"] for pod in listed["items"]} == dict.fromkeys(keys, "assigned")
    assert listed["bandwidthCounters"] == []
    assert "COUNTERS" not in command(installed, "list")
    for key in keys:
        shown: dict[str, Any] = json.loads(command(installed, "show", key, "-o", "json"))["items"][0]
        assert {one["state"] for one in shown["counters"]} == {"available"}
        assert len(shown["counters"]) == 6
    assert "resctrl_unavailable{" not in command(installed, "metrics")
    assert "bandwidth counter" not in command(installed, "doctor")
    assert "bandwidth counter" not in installed.said()
