"""The NRI plugin with Debian's containerd on a real resctrl: what a node has, and nothing in between."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.bundles import FIRST_INSTRUCTION
from kernel.containerd import NRI, Containerd, Pod
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import Installed
from kernel.runtimes import wait_until

SLEEP = ["/bin/sleep", "100000"]
RDT = {"enabled": True, "allow": {"shop": ["*"]}}


class Plugin(Installed):
    """The plugin's process, with settings of the test's."""

    def __init__(self, folder: str, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Plugin":
        """Starts it and waits until it has taken in what runs."""
        before = self.said().count("Synchronize: ")
        self.process = subprocess.Popen(self.command("nri", "--socket", NRI))
        wait_until(lambda: self.said().count("Synchronize: ") > before, "the plugin is synchronised")
        return self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)
        self.process = None

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((Path(self.state) / "nri.json").read_text())
        return found


@pytest.fixture(scope="module")
def containerd(rootfs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    started = Containerd(str(tmp_path_factory.mktemp("containerd")))
    started.start()
    started.import_images(rootfs)
    yield started
    started.stop()


@pytest.fixture
def node(containerd: Containerd, resctrl: Resctrl) -> Iterator[Containerd]:
    """containerd without pods, and a resctrl without groups."""
    yield containerd
    containerd.clean()


@pytest.fixture
def plugin(node: Containerd, tmp_path: Path) -> Iterator[Callable[..., Plugin]]:
    """Makes a plugin with settings, not started yet."""
    made: list[Plugin] = []

    def make(**settings: Any) -> Plugin:
        made.append(Plugin(str(tmp_path / "plugin"), **settings))
        return made[-1]

    yield make
    node.clean()
    for one in made:
        if one.process is not None:
            one.kill(signal.SIGTERM)


def groups(resctrl: Resctrl) -> set[str]:
    return {os.path.relpath(path, resctrl.root) for path in resctrl.groups() if "mon_groups" in path}


def group_of(pod: Pod) -> str:
    return f"mon_groups/{pod.uid}"


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_containers_first_instruction_runs_in_its_pods_group(
    runtime: str, node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pod = node.pod("first", runtime=runtime)
    assert groups(resctrl) == set(), "a sandbox has none"
    pod.run("c0", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c0")) == Place("", pod.uid)
    assert groups(resctrl) == {group_of(pod)}
    pod.end()
    assert os.path.isdir(pod.cgroup), "its cgroup is still there"
    assert groups(resctrl) == set(), "but its group has ended with it"
    assert served.records() == []
    assert served.status()["drops"] == 0


def test_two_containers_of_two_classes(node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl) -> None:
    resctrl.make("gold")
    resctrl.make("silver")
    plugin(rdt=RDT).start()
    name = "class.rdt.resctrl-hooks.io"
    pod = node.pod("two", annotations={f"{name}/c0": "gold", f"{name}/c1": "silver"})
    for container, rdt_class in (("c0", "gold"), ("c1", "silver")):
        pod.run(container, FIRST_INSTRUCTION)
        assert parse_place(pod.said(container)) == Place(rdt_class, pod.uid)
    assert groups(resctrl) == {f"{name}/{group_of(pod)}" for name in ("gold", "silver")}
    pod.end()
    assert groups(resctrl) == set()


def test_pods_that_ran_before_are_taken_in_all_at_once(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    pods = [node.pod(f"old{number}") for number in range(2)]
    containers = [pod.run("c0", SLEEP) for pod in pods]
    assert groups(resctrl) == set()
    plugin().start()
    for pod, container in zip(pods, containers, strict=True):
        assert place_of(pod.pid(container)) == Place("", pod.uid)


def test_a_restarted_container_stays_in_its_pods_group(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pod = node.pod("again")
    first = pod.run("c0", SLEEP)
    before = os.stat(resctrl.path(group=pod.uid)).st_ino
    pod.stop(first)
    wait_until(lambda: not any(first in record for record in served.records()), "the plugin hears of the end")
    assert groups(resctrl) == {group_of(pod)}
    second = pod.run("c0", SLEEP, attempt=1)
    assert place_of(pod.pid(second)) == Place("", pod.uid)
    assert os.stat(resctrl.path(group=pod.uid)).st_ino == before, "the very same group: counters don't jump"


def test_the_label_selector_needs_no_file(node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl) -> None:
    plugin(labelSelector={"app": "db"}).start()
    other, wanted = node.pod("web"), node.pod("db", labels={"app": "db"})
    other.run("c0", SLEEP)
    wanted.run("c0", SLEEP)
    assert groups(resctrl) == {group_of(wanted)}


def test_a_plugin_that_is_killed_while_a_container_starts_keeps_nobody_from_it_and_makes_up_for_it(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    assert served.process is not None
    pod = node.pod("killed")
    container = pod.create("c0", SLEEP)
    served.process.send_signal(signal.SIGSTOP)  # it has the event, and does not answer
    starting = node.starter(pod, container)
    time.sleep(1)
    served.kill()
    starting.result()
    pid = pod.pid(container)
    assert place_of(pid) == Place("", "")
    served.start()
    wait_until(lambda: place_of(pid) == Place("", pod.uid), "it is taken in")


def test_containerd_is_restarted_under_a_plugin(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pod = node.pod("before")
    container = pod.run("c0", SLEEP)
    synchronised = served.said().count("Synchronize: ")
    node.stop()
    node.start()
    wait_until(lambda: served.said().count("Synchronize: ") > synchronised, "it is connected again")
    assert place_of(pod.pid(container)) == Place("", pod.uid)
    pod.run("c1", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c1")) == Place("", pod.uid)
    assert (served.status()["connections"], served.status()["drops"]) == (2, 1)


def test_a_refusal_reaches_whoever_creates_the_container(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    plugin(rdt={**RDT, "failurePolicy": "fail"}).start()
    pod = node.pod("refused", annotations={"class.rdt.resctrl-hooks.io": "platinum"})
    with pytest.raises(Exception, match="there is no RDT class 'platinum'"):
        pod.create("c0", SLEEP)
    assert groups(resctrl) == set()


CLASS = "class.memtierd.nri.io"
BATCH = {
    "name": "batch",
    "allowswap": False,
    "env": {"TIER": "batch"},
    "mounts": [{"source": "/usr", "destination": "/host-usr"}],
    "devices": [{"path": "/dev/kmsg"}],
}


def test_environment_mount_and_device_are_seen_inside_and_limits_stand_in_the_specification(
    node: Containerd, plugin: Callable[..., Plugin]
) -> None:
    memory = {"allowLimits": {"*": ["*"]}}
    plugin(classes=[BATCH], memory=memory, nri={"adjust": ["memory"], "allow": {"shop": ["batch"]}}).start()
    pod = node.pod("batch", annotations={CLASS: "batch", "memory.high.memtierd.nri.io": "64M"})
    look = "echo $TIER; [ -x /host-usr/bin/runc ] && echo mounted; [ -c /dev/kmsg ] && echo device; touch /host-usr/x"
    pod.run("c0", ["/bin/sh", "-c", look])
    assert pod.said("c0").splitlines()[:3] == ["batch", "mounted", "device"]
    container = pod.run("c1", SLEEP)
    pid = pod.pid(container)
    own = Path("/sys/fs/cgroup") / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")
    assert (own / "memory.high").read_text().strip() == str(64 << 20)
    assert (own / "memory.swap.max").read_text().strip() == "0"
    (state,) = Path("/run/containerd").glob(f"io.containerd.runtime.v2.task/k8s.io/{container}/config.json")
    unified = json.loads(state.read_text())["linux"]["resources"]["unified"]
    assert unified == {"memory.high": str(64 << 20), "memory.swap.max": "0"}


def test_what_a_start_costs_with_the_plugin_and_without(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    pod = node.pod("cost")
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    served = plugin()
    for number in range(10):  # in turns, so that both meet the same machine
        with_it = number % 2 == 1
        if with_it:
            served.start()
        container = pod.create(f"c{number}", SLEEP)
        begun = time.monotonic()
        pod.start(container)
        seconds["with" if with_it else "without"].append(time.monotonic() - begun)
        if with_it:
            assert place_of(pod.pid(container)) == Place("", pod.uid)
            served.kill(signal.SIGTERM)
    medians = {name: sorted(values)[len(values) // 2] for name, values in seconds.items()}
    print(f"a start takes {medians['without']:.3f} s without the plugin and {medians['with']:.3f} s with it")


def test_it_stays_small(node: Containerd, plugin: Callable[..., Plugin]) -> None:
    served = plugin().start()
    node.pod("small").run("c0", SLEEP)
    assert served.process is not None
    lines = Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
    resident = int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))
    print(f"resident: {resident} kB")
    assert resident <= 30 * 1024
