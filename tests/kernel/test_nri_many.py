"""The NRI plugin on a full node: fifty containers that started before it came end without it, and with it."""

import os
import shutil
from collections.abc import Callable

import pytest

from kernel.bundles import BUSYBOX
from kernel.containerd import Containerd, Pod
from kernel.groups import Place, Resctrl, place_of
from kernel.nri_plugin import Plugin, group_of, groups
from kernel.runtimes import wait_until

SLEEP = ["/bin/sleep", "100000"]
PODS, IN_EACH = 5, 10


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root file system of one program: each container has a copy."""
    folder = tmp_path_factory.mktemp("rootfs")
    (folder / "bin").mkdir()
    shutil.copy(BUSYBOX, folder / SLEEP[0].lstrip("/"))
    return str(folder)


def since(served: Plugin, position: int) -> str:
    """What the plugin's log has from a position on."""
    return served.said()[position:]


def test_fifty_containers_are_taken_in_at_once_kept_over_a_kill_and_all_ended(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    pods = [node.pod(f"many{number}", runtime="crun") for number in range(PODS)]
    for pod in pods:
        pod.run_all([f"c{number}" for number in range(IN_EACH)], SLEEP)
    processes = {pod.name: [pod.pid(container) for container in pod.containers] for pod in pods}

    def astray(of: list[Pod]) -> dict[str, list[int]]:
        """Processes that aren't in their pods' groups, by pod."""
        found = {pod.name: [pid for pid in processes[pod.name] if place_of(pid) != Place("", pod.uid)] for pod in of}
        return {name: pids for name, pids in found.items() if pids}

    assert {name: len(pids) for name, pids in astray(pods).items()} == {pod.name: IN_EACH for pod in pods}
    served = plugin().start()
    assert f"Synchronize: {PODS * IN_EACH} containers, {PODS * IN_EACH} that started before" in served.said()
    assert astray(pods) == {}
    assert groups(resctrl) == {group_of(pod) for pod in pods}

    gone, *left = pods
    served.kill()
    gone.end()
    assert groups(resctrl) == {group_of(pod) for pod in pods}, "nobody was there to see it"
    gone.remove()
    position = len(served.said())
    served.start()
    assert f"Synchronize: {PODS * IN_EACH - IN_EACH} containers, 0 that started before" in since(served, position)
    assert groups(resctrl) == {group_of(pod) for pod in left}
    assert astray(left) == {}

    position = len(served.said())
    node.end_all(left)
    assert all(os.path.isdir(pod.cgroup) for pod in left), "their cgroups are still there"
    wait_until(lambda: groups(resctrl) == set(), "the plugin hears of all ends")
    assert served.records() == []
    assert {name: told["failed"] for name, told in served.status()["events"].items() if told["failed"]} == {}
    assert served.status()["drops"] == 0
    assert "goes on" not in since(served, position), served.said()
