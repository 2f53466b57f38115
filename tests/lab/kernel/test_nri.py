"""The NRI plugin with Debian's containerd on a real resctrl, as on a node."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.bundles import FIRST_INSTRUCTION, OWN_PLACE
from kernel.containerd import Containerd, Plugin, Pod
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import CONFIG, clear_host, resctrl_hook, state_of, succeeds
from kernel.runtimes import cgroup_of, run, value, wait_until
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.watch.status import read_status

HOUSES = ("nri", "placement")
RDT = {"enabled": True, "allow": {"shop": ["*"]}}


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_first_instruction_and_exec_sync_run_in_group_of_pod(
    runtime: str, node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pod = node.pod("first", runtime=runtime)
    assert resctrl.names("mon_groups") == set(), "a sandbox has none"
    pod.run("c0", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c0")) == Place("", pod.uid)
    wait_until(lambda: (read_status(str(served.state)) or {}).get("mode") == "events", "the exec watcher works")
    entered = pod.execute(pod.run("c1"), ["/bin/sh", "-c", f"sleep 1; {OWN_PLACE}"])
    assert parse_place(entered) == Place("", pod.uid)
    assert resctrl.names("mon_groups") == {pod.uid}
    pod.end()
    assert os.path.isdir(pod.cgroup), "its cgroup is still there"
    wait_until(lambda: resctrl.names("mon_groups") == set(), "but its group ends with it")
    wait_until(lambda: served.records() == [], "and its record")
    assert served.status()["drops"] == 0


def test_plugin_survives_restart_of_containerd(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    served = plugin().start()
    pod = node.pod("before")
    container = pod.run("c0")
    synchronised = served.said().count("Synchronize: ")
    node.restart()
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
    assert resctrl.names("mon_groups") == set()


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
    lines = [served.said().count(f"{word} of shop/both/c0") for word in ("createRuntime", "StartContainer")]
    assert lines == [1, 0], served.said()
    wait_until(lambda: "StartContainer" in served.status()["events"], "it is counted, after the answer")
    assert served.status()["events"]["StartContainer"]["failed"] == 0
    pod.stop(container)
    wait_until(lambda: not any(container in record for record in served.records()), "the stop removes the record")
    pod.remove_container(container)
    assert resctrl.names("mon_groups") == {pod.uid}
    pod.end()
    wait_until(lambda: resctrl.names("mon_groups") == set(), "its group ends with it")
    wait_until(lambda: served.records() == [], "and its record")
    assert not any(words in served.said() for words in ("not affected", "not changed")), served.said()
    node.set_hook([])


PODS = 5
STANDS = 6.0  # seconds


def test_every_container_of_a_storm_is_in_its_group_after_the_plugin_stood_still(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(node.restart)
    node.restart("2s")  # containerd's default time, after which it drops a plugin
    served = plugin().start()
    pods = [node.pod(f"storm{number}", runtime=("runc", "crun")[number % 2]) for number in range(PODS)]
    containers = [pod.create("c0") for pod in pods]
    assert served.served is not None
    served.served.send_signal(signal.SIGSTOP)
    calls = [node.begin("StartContainer", container_id=container) for container in containers]
    time.sleep(STANDS)
    wait_until(lambda: any(call.done() for call in calls), "containerd goes on without the plugin")
    served.served.send_signal(signal.SIGCONT)
    for call in calls:
        call.result()
    pids = [pod.pid(container) for pod, container in zip(pods, containers, strict=True)]

    def inside() -> int:
        return sum(place_of(pid) == Place("", pod.uid) for pod, pid in zip(pods, pids, strict=True))

    wait_until(lambda: inside() == PODS, "all are in their groups")
    status = served.status()
    assert resctrl.names("mon_groups") == {pod.uid for pod in pods}
    assert (status["connected"], status["drops"] >= 1) == (True, True), "containerd did not wait for it"

    def lines() -> int:
        return served.said().count("StartContainer of ") + served.said().count(" threads of container ")

    wait_until(lambda: lines() >= PODS, "each has a line: of its start, or of its adoption")


CPUS = "cpus.placement.resctrl-hooks.io"
LOOK = ["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000"]
PLACEMENT: dict[str, Any] = {"monitoring": {"enabled": False}, "nri": {"adjust": ["placement"]}}
ALLOWED = {"enabled": True, "allow": {"shop": ["*"]}}


def has(pod: Pod, container: str) -> int:
    status = Path(f"/proc/{pod.pid(container)}/status").read_text()
    return parse_list(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))


def specified(pod: Pod, container: str) -> int:
    return parse_list(pod.specification(container)["linux"]["resources"].get("cpu", {}).get("cpus", ""))


@pytest.mark.guest(cpus=8, numa=4)
def test_cpusets_are_in_specifications_also_of_displaced_containers(
    node: Containerd, plugin: Callable[..., Plugin]
) -> None:
    served = plugin(placement=ALLOWED, **PLACEMENT).start()
    shares = node.pod("shares")
    first = shares.run("c0", LOOK)
    before = has(shares, first)
    assert before == specified(shares, first) != 0, served.said()

    owner = node.pod("owner", annotations={CPUS: "exclusive:7"})
    second = owner.create("c0", LOOK)
    assert has(shares, first) == before, "no CPU is exclusive yet"
    promised = specified(owner, second)
    assert promised.bit_count() == 7
    owner.start(second)
    assert has(owner, second) == promised == specified(owner, second)
    left = has(shares, first)
    assert left
    assert not left & promised
    wait_until(lambda: specified(shares, first) == left, "the runtime is told of the one who made room")

    owner.stop(second)
    wait_until(lambda: has(shares, first) == before, "and has its CPUs again")
    wait_until(lambda: specified(shares, first) == before, "in its specification too")
    assert "cannot send cpusets" not in served.said()
    assert served.status()["drops"] == 0


UNIT = "resctrl-hooks-nri.service"
DEADLINE = "deadlineSeconds: 9\n"  # emulation is ten times slower than the hardware of the default


@pytest.mark.systemd
def test_plugin_works_with_systemd_cgroup_driver(
    node: Containerd, plugin: Callable[..., Plugin], resctrl: Resctrl
) -> None:
    settings = {"classes": [{"name": "batch", "allowswap": False}], "nri": {"adjust": ["memory"]}}
    served = plugin(memory={"allowLimits": {"*": ["*"]}}, **settings).start()
    chosen = {"class.memtierd.nri.io": "batch", "memory.high.memtierd.nri.io": "64M"}
    pod = node.pod("scoped", runtime="crun", annotations=chosen)  # whose cgroup is below the scope
    pod.run("c0", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c0")) == Place("", pod.uid)
    container = pod.run("c1")
    assert place_of(pod.pid(container)) == Place("", pod.uid)
    own = cgroup_of(pod.pid(container))
    scope = next(part for part in (own, *own.parents) if part.suffix)
    assert scope.suffix == ".scope"
    assert (scope / "memory.high").read_text().strip() == str(64 << 20)
    run(["systemctl", "daemon-reload"])
    assert (scope / "memory.high").read_text().strip() == str(64 << 20), "it stands in the scope's own settings"
    pod.end()
    wait_until(lambda: resctrl.names("mon_groups") == set(), "its group ends with it")
    wait_until(lambda: served.records() == [], "and its record")


@pytest.mark.systemd
def test_installed_unit_serves_survives_a_kill_and_is_uninstalled_with_running_containers(
    node: Containerd, resctrl: Resctrl, request: pytest.FixtureRequest
) -> None:
    clear_host()
    request.addfinalizer(clear_host)
    CONFIG.parent.mkdir(parents=True)
    CONFIG.write_text(DEADLINE)
    print(succeeds("install", "--runtime", "containerd"))
    wait_until(lambda: "connected" in run(["systemctl", "status", UNIT], check=False), "the unit is connected")
    assert state_of(UNIT) == "active"
    pod = node.pod("unit")
    pod.run("c0", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c0")) == Place("", pod.uid)
    container = pod.run("c1")
    status = json.loads(Path("/run/resctrl-hooks/nri.json").read_text())
    assert (status["connected"], status["drops"]) == (True, 0)
    said = resctrl_hook("doctor").output
    print("\n".join(line for line in said.splitlines() if "NRI" in line))
    assert "connected to containerd" in said
    assert "NRI is off" not in said, "Debian's configuration is of version 2, but its containerd isn't"

    run(["systemctl", "kill", "--signal=KILL", UNIT])
    missed = pod.run("c2")
    wait_until(lambda: place_of(pod.pid(missed)) == Place("", pod.uid), "it is taken in")
    # Reconcile may have adopted the container before.
    wait_until(lambda: state_of(UNIT) == "active", "the unit is active again")

    print(succeeds("uninstall"))
    assert state_of(UNIT) != "active"
    assert place_of(pod.pid(container)) == Place("", pod.uid), "what runs goes on, and stays where it is"
    pod.run("c3", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c3")) == Place("", ""), "new containers are not monitored"
    pod.end()
    assert resctrl.names("mon_groups") == {pod.uid}, "for a later installation to find"
