"""Containers whose init moves into a nested cgroup and starts services in other ones, as systemd does."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.bundles import NAMESPACES
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import Runtime, wait_until

CGROUPS = Path("/sys/fs/cgroup")
INIT = """
mkdir /sys/fs/cgroup/init.scope /sys/fs/cgroup/svc
sleep 1000 &
echo $! > /sys/fs/cgroup/svc/cgroup.procs
echo $$ > /sys/fs/cgroup/init.scope/cgroup.procs
sleep 1000 &
touch /dev/moved
wait
"""


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(str(tmp_path / "installed"))


def start(runtime: Runtime, bundle: Callable[..., str], installed: Installed, name: str, *, hooked: bool) -> int:
    linux = {
        "cgroupsPath": runtime.cgroups_path(name),
        "namespaces": [{"type": kind} for kind in (*NAMESPACES, "cgroup")],
    }
    mount = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "rw"]}
    hooks = installed.hooks if hooked else {}
    runtime.create(name, bundle(name, INIT, hooks=hooks, linux=linux, mounts=[mount]))
    runtime.start(name)
    pid = runtime.pid(name)
    wait_until(lambda: os.path.exists(f"/proc/{pid}/root/dev/moved"), "the init has moved")
    return pid


def cgroup_of(pid: int) -> Path:
    return CGROUPS / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")


def processes_below(folder: Path) -> set[int]:
    return {int(pid) for file in folder.rglob("cgroup.procs") for pid in file.read_text().split()}


def test_unseen_container_is_adopted_with_all_cgroups(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed, resctrl: Resctrl
) -> None:
    pid = start(runtime, bundle, installed, "below1", hooked=False)
    installed.reconcile()
    assert cgroup_of(pid).name == "init.scope"
    everybody = processes_below(cgroup_of(pid).parent)
    assert len(everybody) == 3
    assert resctrl.tasks(group="below1") == everybody, installed.said()


def test_class_value_is_read_from_the_own_cgroup_of_the_container(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    classes = {"low": {"cpuWeight": 50}}
    installed.configure(
        monitoring={"enabled": False},
        failurePolicy="fail",
        scheduling={"enabled": True, "defaults": {"namespaces": {"*": "low"}}, "classes": classes},
    )
    pid = start(runtime, bundle, installed, "below2", hooked=True)
    own = cgroup_of(pid).parent
    holder = own if (own / "cpu.weight").exists() else own.parent
    assert (holder / "cpu.weight").read_text() == "50\n", installed.said()
    installed.reconcile()
    (holder / "cpu.weight").write_text("100")
    installed.reconcile()
    assert (holder / "cpu.weight").read_text() == "50\n", installed.said()
