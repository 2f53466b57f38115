"""The NRI plugin with Debian's containerd on a real resctrl, as on a node."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.bundles import FIRST_INSTRUCTION, OWN_PLACE
from kernel.cgroups import value
from kernel.containerd import Containerd
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.nri_plugin import Plugin, group_of, groups
from kernel.runtimes import wait_until
from resctrl_hooks.core.node.watch.status import read_status

HOUSES = ("nri",)
RDT = {"enabled": True, "allow": {"shop": ["*"]}}


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_first_instruction_runs_in_group_of_pod(
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
    wait_until(lambda: groups(resctrl) == set(), "but its group ends with it")
    wait_until(lambda: served.records() == [], "and its record")
    assert served.status()["drops"] == 0


def test_exec_sync_of_containerd_joins_the_pods_group(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    wait_until(lambda: (read_status(served.state) or {}).get("mode") == "events", "the exec watcher receives events")
    pod = node.pod("entered")
    container = pod.run("c0")
    assert parse_place(pod.execute(container, ["/bin/sh", "-c", f"sleep 1; {OWN_PLACE}"])) == Place("", pod.uid)
    assert groups(resctrl) == {group_of(pod)}


def test_existing_pods_are_adopted_at_once(node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl) -> None:
    pods = [node.pod(f"old{number}") for number in range(2)]
    containers = [pod.run("c0") for pod in pods]
    assert groups(resctrl) == set()
    plugin().start()
    for pod, container in zip(pods, containers, strict=True):
        assert place_of(pod.pid(container)) == Place("", pod.uid)


def test_killed_plugin_lets_container_start_and_serves_it_later(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    assert served.process is not None
    pod = node.pod("killed")
    container = pod.create("c0")
    served.process.send_signal(signal.SIGSTOP)  # it has the event, and does not answer
    starting = node.begin("StartContainer", container_id=container)
    time.sleep(1)
    served.kill()
    starting.result()
    pid = pod.pid(container)
    assert place_of(pid) == Place("", "")
    served.start()
    wait_until(lambda: place_of(pid) == Place("", pod.uid), "it is taken in")


def test_plugin_survives_restart_of_containerd(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pod = node.pod("before")
    container = pod.run("c0")
    synchronised = served.said().count("Synchronize: ")
    node.stop()
    node.start()
    wait_until(lambda: served.said().count("Synchronize: ") > synchronised, "it is connected again")
    assert place_of(pod.pid(container)) == Place("", pod.uid)
    pod.run("c1", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c1")) == Place("", pod.uid)
    assert (served.status()["connections"], served.status()["drops"]) == (2, 1)


def test_refusal_reaches_creator_of_container(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    plugin(rdt={**RDT, "failurePolicy": "fail"}).start()
    pod = node.pod("refused", annotations={"class.rdt.resctrl-hooks.io": "platinum"})
    with pytest.raises(Exception, match="unknown RDT class 'platinum'"):
        pod.create("c0")
    assert groups(resctrl) == set()


CLASS = "class.memtierd.nri.io"
BATCH = {
    "name": "batch",
    "allowswap": False,
    "env": {"TIER": "batch"},
    "mounts": [{"source": "/usr", "destination": "/host-usr"}],
    "devices": [{"path": "/dev/kmsg"}],
}


def test_adjustments_are_visible_inside_and_limits_are_in_specification(
    node: Containerd, plugin: Callable[..., Plugin]
) -> None:
    memory = {"allowLimits": {"*": ["*"]}}
    plugin(classes=[BATCH], memory=memory, nri={"adjust": ["memory"], "allow": {"shop": ["batch"]}}).start()
    pod = node.pod("batch", annotations={CLASS: "batch", "memory.high.memtierd.nri.io": "64M"})
    look = "echo $TIER; [ -x /host-usr/bin/runc ] && echo mounted; [ -c /dev/kmsg ] && echo device; touch /host-usr/x"
    pod.run("c0", ["/bin/sh", "-c", f"exec 2>&1; {look}"])  # two streams would overwrite each other in one file
    *first, refused = pod.said("c0").splitlines()
    assert first == ["batch", "mounted", "device"]
    assert "Read-only file system" in refused
    container = pod.run("c1")
    pid = pod.pid(container)
    assert (value(pid, "memory.high"), value(pid, "memory.swap.max")) == (str(64 << 20), "0")
    (state,) = Path("/run/containerd").glob(f"io.containerd.runtime.v2.task/k8s.io/{container}/config.json")
    unified = json.loads(state.read_text())["linux"]["resources"]["unified"]
    assert unified == {"memory.high": str(64 << 20), "memory.swap.max": "0"}


def test_hook_and_plugin_on_one_node_do_nothing_twice(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    node.set_hook(served.command("hook"))
    pod = node.pod("both", runtime="hooked")
    container = pod.run("c0")
    assert place_of(pod.pid(container)) == Place("", pod.uid)
    of_it = "of shop/both/c0"
    assert (served.count(f"createRuntime {of_it}"), served.count(f"StartContainer {of_it}")) == (1, 0), served.said()
    wait_until(lambda: "StartContainer" in served.status()["events"], "it is counted, after the answer")
    assert served.status()["events"]["StartContainer"]["failed"] == 0
    pod.stop(container)
    wait_until(lambda: not any(container in record for record in served.records()), "the stop removes the record")
    pod.remove_container(container)
    assert groups(resctrl) == {group_of(pod)}
    pod.end()
    wait_until(lambda: groups(resctrl) == set(), "its group ends with it")
    wait_until(lambda: served.records() == [], "and its record")
    assert not any(words in served.said() for words in ("not affected", "not changed")), served.said()
    node.set_hook([])
