"""Eleven pods at once on one emulated processor, whose NRI plugin stands still for longer than containerd waits."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from kernel.containerd import Containerd
from kernel.groups import Place, Resctrl, place_of
from kernel.nri_plugin import Plugin, group_of, groups
from kernel.runtimes import wait_until

HOUSES = ("nri",)
PODS = 11
STANDS = 6.0
"""Seconds."""


@pytest.fixture(scope="module")
def containerd(rootfs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """Return one that drops a plugin after its default time."""
    started = Containerd(str(tmp_path_factory.mktemp("containerd")), request="2s")
    started.start()
    started.import_images(rootfs)
    yield started
    started.stop()


@pytest.mark.only(driver="cgroupfs")
def test_every_container_of_a_storm_is_in_its_group_after_the_plugin_stood_still(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pods = [node.pod(f"storm{number}", runtime=("runc", "crun")[number % 2]) for number in range(PODS)]
    containers = [pod.create("c0") for pod in pods]
    assert served.process is not None
    served.process.send_signal(signal.SIGSTOP)
    calls = [node.begin("StartContainer", container_id=container) for container in containers]
    time.sleep(STANDS)
    wait_until(lambda: any(call.done() for call in calls), "containerd goes on without the plugin")
    served.process.send_signal(signal.SIGCONT)
    for call in calls:
        call.result()
    pids = [pod.pid(container) for pod, container in zip(pods, containers, strict=True)]

    def inside() -> int:
        return sum(place_of(pid) == Place("", pod.uid) for pod, pid in zip(pods, pids, strict=True))

    wait_until(lambda: inside() == PODS, "all are in their groups")
    status = served.status()
    assert groups(resctrl) == {group_of(pod) for pod in pods}
    assert (status["connected"], status["drops"] >= 1) == (True, True), "containerd did not wait for it"
    seen = served.count("StartContainer of ") + served.count(" threads of container ")
    assert seen >= PODS, "each has a line: of its start, or of its adoption"
