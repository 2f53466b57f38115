"""The NRI plugin where systemd is: containers in scopes, and the unit that `install --runtime containerd` starts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.bare import CONFIG, clear_host, state_of
from kernel.bundles import FIRST_INSTRUCTION
from kernel.cgroups import cgroup_of
from kernel.containerd import Containerd
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import resctrl_hook, succeeds
from kernel.nri_plugin import Plugin, group_of, groups
from kernel.runtimes import run, wait_until

HOUSES = ("nri",)
pytestmark = pytest.mark.systemd
UNIT = "resctrl-hooks-nri.service"
DEADLINE = "deadlineSeconds: 9\n"
"""Emulation is ten times slower than the hardware of the default."""


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
    wait_until(lambda: groups(resctrl) == set(), "its group ends with it")
    wait_until(lambda: served.records() == [], "and its record")


@pytest.fixture
def installed(resctrl: Resctrl, node: Containerd) -> Iterator[Path]:
    """Return the host with the plugin installed on it, as an operator does; the folder of its state."""
    clear_host()
    CONFIG.parent.mkdir(parents=True)
    CONFIG.write_text(DEADLINE)
    print(succeeds("install", "--runtime", "containerd"))
    yield Path("/run/resctrl-hooks")
    clear_host()


def test_installed_unit_serves_survives_a_kill_and_is_uninstalled_with_running_containers(
    installed: Path, node: Containerd, resctrl: Resctrl
) -> None:
    wait_until(lambda: "connected" in run(["systemctl", "status", UNIT], check=False), "the unit is connected")
    assert state_of(UNIT) == "active"
    pod = node.pod("unit")
    pod.run("c0", FIRST_INSTRUCTION)
    assert parse_place(pod.said("c0")) == Place("", pod.uid)
    container = pod.run("c1")
    status = json.loads((installed / "nri.json").read_text())
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
    assert groups(resctrl) == {group_of(pod)}, "for a later installation to find"
