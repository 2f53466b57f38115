"""AMD's four assignable counters and six pods: what each command says, and what reconcile does when two end."""

import subprocess

import pytest

from kernel.counted.conftest import AMD
from kernel.counted.said import items
from kernel.installed import Installed
from kernel.pods import KubernetesPod

pytestmark = [pytest.mark.counted, pytest.mark.parametrize("processor", [AMD], indirect=True)]


def states(installed: Installed, pods: list[KubernetesPod]) -> list[str]:
    """What `list` says of each."""
    found = {pod["key"]: pod["state"] for pod in items(installed, "list")}
    return [found.get(pod.uid, "gone") for pod in pods]


@pytest.mark.usefixtures("processor")
def test_six_pods_and_four_counters(pods: list[KubernetesPod], installed: Installed) -> None:
    for number, pod in enumerate(pods[:6]):
        pod.start(f"c{number}", ["/bin/sleep", "1000"])

    assert states(installed, pods[:6]) == ["assigned"] * 4 + ["uncounted"] * 2
    assert "all bandwidth counters are in use: mbm_total_bytes of" in installed.said()
    doctor = ["resctrl-hook", "--config", installed.config, "doctor"]
    found = subprocess.run(doctor, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert "2 pods have no bandwidth counter" in found.stdout
    for number, pod in enumerate(pods[:2]):
        pod.end(f"c{number}")
        pod.cgroup.rmdir()
    installed.reconcile()
    assert states(installed, pods[:6]) == ["gone"] * 2 + ["assigned"] * 4
