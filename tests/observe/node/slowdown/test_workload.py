"""The workload of a pod whose containers start, change, or cannot be read."""

import json
from pathlib import Path

import pytest
from conftest import Host

from observe.slowdown.world import KEY, World
from resctrl_hooks.observe.node.slowdown.live import Live
from resctrl_hooks.observe.node.slowdown.store import Store
from resctrl_hooks.observe.node.slowdown.workload import Workloads, workload_of

INIT, APP, SIDECAR = ("init", "image-init"), ("app", "image-1"), ("sidecar", "image-2")


class Pod:
    """A pod whose containers are recorded one by one."""

    def __init__(self, host: Host) -> None:
        self.world = World(host)
        self.context = self.world.context
        self._bundles = Path(host.root, "bundles")

    def bundle(self, id_: str) -> Path:
        return self._bundles / id_ / "config.json"

    def start(self, id_: str, container: tuple[str, str]) -> None:
        path = self.bundle(id_)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"annotations": {"io.kubernetes.cri.image-name": container[1]}}))
        member = {"boot": self.context.monitor.boot, "container": container[0], "bundle": str(path.parent)}
        self.context.ledger.write_member(KEY, id_, member)  # type: ignore[arg-type]  # fields that no test needs

    def stop(self, id_: str) -> None:
        self.context.ledger.remove_member(KEY, id_)


@pytest.fixture
def pod(host: Host) -> Pod:
    return Pod(host)


def test_workload_follows_the_containers_that_the_pod_has(pod: Pod) -> None:
    workloads = Workloads(pod.context)
    pod.start("a", INIT)
    workloads.update([KEY], 10.0)
    assert (workloads.of(KEY), workloads.since(KEY)) == (workload_of("shop", "cart", [INIT]), 10.0)
    pod.stop("a")
    pod.start("b", APP)
    pod.start("c", SIDECAR)
    workloads.update([KEY], 20.0)
    assert (workloads.of(KEY), workloads.since(KEY)) == (workload_of("shop", "cart", [APP, SIDECAR]), 20.0)


def test_workload_stays_while_a_container_is_restarted(pod: Pod) -> None:
    workloads = Workloads(pod.context)
    pod.start("a", APP)
    workloads.update([KEY], 10.0)
    before = workloads.of(KEY)
    pod.stop("a")
    pod.start("b", APP)
    workloads.update([KEY], 20.0)
    assert (workloads.of(KEY), workloads.since(KEY)) == (before, 10.0)


def test_unreadable_image_is_no_other_workload(pod: Pod) -> None:
    workloads = Workloads(pod.context)
    pod.start("a", APP)
    text = pod.bundle("a").read_text()
    pod.bundle("a").write_text("{")
    workloads.update([KEY], 10.0)
    assert workloads.of(KEY) is None
    pod.bundle("a").write_text(text)
    workloads.update([KEY], 20.0)
    assert workloads.of(KEY) == workload_of("shop", "cart", [APP])


def test_baseline_of_a_pod_is_that_of_its_present_containers(pod: Pod, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    live = Live(pod.context, store, lambda _, text: pytest.fail(text), perf=False)
    pod.start("a", INIT)
    live.step([])
    pod.stop("a")
    pod.start("b", APP)
    live.step([])
    pod.world.sleep(10)
    live.step([])
    found = live.workloads.of(KEY)
    assert found == workload_of("shop", "cart", [APP])
    assert store.find(workload_of("shop", "cart", [INIT])) is None
