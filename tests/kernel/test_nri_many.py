"""The NRI plugin on a full node: fifty containers that started without it, some that end without it, some with it."""

import os
import shutil
from collections.abc import Callable

import pytest

from kernel.bundles import BUSYBOX
from kernel.containerd import Containerd, Pod
from kernel.groups import Place, Resctrl, place_of
from kernel.nri_plugin import Plugin, group_of, groups
from kernel.runtimes import wait_until

pytestmark = [pytest.mark.guest(rmids=64), pytest.mark.nightly]  # a boot of its own, which needs no cleanup
SLEEP = ["/bin/sleep", "100000"]
IN_EACH = (22, 22, 3, 3)
ALL = sum(IN_EACH)


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a root file system of one program: each container has a copy."""
    folder = tmp_path_factory.mktemp("rootfs")
    (folder / "bin").mkdir()
    shutil.copy(BUSYBOX, folder / SLEEP[0].lstrip("/"))
    return str(folder)


def test_fifty_containers_are_adopted_survive_a_kill_and_leave_nothing(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    pods = [node.pod(f"many{number}", runtime="crun") for number in range(len(IN_EACH))]
    for pod, count in zip(pods, IN_EACH, strict=True):
        pod.run_all([f"c{number}" for number in range(count)], SLEEP)
    processes = {pod.name: [pod.pid(container) for container in pod.containers] for pod in pods}

    def astray(of: list[Pod]) -> int:
        """Return how many containers aren't in their pods' groups."""
        return sum(place_of(pid) != Place("", pod.uid) for pod in of for pid in processes[pod.name])

    assert astray(pods) == ALL == 50
    served = plugin().start()
    # By the answer to Synchronize, or by a pass before it on a busy machine.
    assert f"Synchronize: {ALL} containers, " in served.said()
    assert astray(pods) == 0
    assert groups(resctrl) == {group_of(pod) for pod in pods}

    served.kill()
    *left, unseen = pods
    unseen.end()
    assert groups(resctrl) == {group_of(pod) for pod in pods}, "the plugin did not run at their start"
    unseen.remove()
    position = len(served.said())
    served.start()
    said = served.said()[position:]
    assert f"Synchronize: {ALL - IN_EACH[-1]} containers, 0 that started earlier" in said, "it knows them still"
    assert groups(resctrl) == {group_of(pod) for pod in left}
    assert astray(left) == 0

    *left, seen = left
    seen.end()
    assert os.path.isdir(seen.cgroup), "its cgroup is still there"
    wait_until(lambda: groups(resctrl) == {group_of(pod) for pod in left}, "its group ends with it")
    assert astray(left) == 0
    assert not any(words in served.said()[position:] for words in ("not affected", "not changed")), served.said()
    status = served.status()
    assert (status["drops"], [name for name, event in status["events"].items() if event["failed"]]) == (0, [])

    node.kill_all()
    served.reconcile()
    assert groups(resctrl) == set()
    assert served.records() == []
