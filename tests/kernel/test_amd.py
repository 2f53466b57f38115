"""AMD's processor without assignable counters: no assignment, and no message about it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.groups import Resctrl
from kernel.installed import Installed, resctrl_hook
from kernel.pods import KubernetesPod
from kernel.runtimes import Runtime

pytestmark = [
    pytest.mark.guest(amd=1),
    pytest.mark.parametrize("driver", ["cgroupfs"]),
    pytest.mark.parametrize("runtime_name", ["crun"], indirect=True),
]
UIDS = [f"{number}f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01" for number in range(6)]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(str(tmp_path / "host"))


@pytest.fixture
def pods(
    runtime: Runtime, installed: Installed, bundle: Callable[..., str], resctrl: Resctrl
) -> Iterator[list[KubernetesPod]]:
    del resctrl
    made = [KubernetesPod(uid, runtime, installed, bundle) for uid in UIDS]
    for number, pod in enumerate(made):
        pod.start(f"c{number}", ["/bin/sleep", "1000"])
    yield made
    for pod in made:
        pod.remove()


def command(installed: Installed, *words: str) -> str:
    return resctrl_hook("--config", installed.config, *words).stdout


def test_every_pod_is_counted_without_remarks_on_counters(pods: list[KubernetesPod], installed: Installed) -> None:
    installed.reconcile()
    listed: dict[str, Any] = json.loads(command(installed, "list", "-o", "json"))
    assert {pod["key"]: pod["state"] for pod in listed["items"]} == dict.fromkeys(UIDS, "assigned")
    assert listed["bandwidthCounters"] == []
    assert "COUNTERS" not in command(installed, "list")
    for pod in pods:
        shown: dict[str, Any] = json.loads(command(installed, "show", pod.uid, "-o", "json"))["items"][0]
        assert {one["state"] for one in shown["counters"]} == {"available"}
        assert len(shown["counters"]) == 6
    assert "resctrl_unavailable{" not in command(installed, "metrics")
    assert "bandwidth counter" not in command(installed, "doctor")
    assert "bandwidth counter" not in installed.said()
