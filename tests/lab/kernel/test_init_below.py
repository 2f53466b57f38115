"""Containers whose init moves into a nested cgroup and starts services in other ones, as systemd does."""

import os
from pathlib import Path
from typing import Any

from kernel.bundles import NAMESPACES
from kernel.cgroups import cgroup_of
from kernel.containers import Containers
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import wait_until

INIT = """
mkdir /sys/fs/cgroup/init.scope /sys/fs/cgroup/svc
sleep 1000 &
echo $! > /sys/fs/cgroup/svc/cgroup.procs
echo $$ > /sys/fs/cgroup/init.scope/cgroup.procs
sleep 1000 &
touch /dev/moved
wait
"""


def start(containers: Containers, name: str, **options: Any) -> int:
    namespaces = [{"type": kind} for kind in (*NAMESPACES, "cgroup")]
    mount = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "rw"]}
    pid = containers.start(name, INIT, mounts=[mount], namespaces=namespaces, **options)
    wait_until(lambda: os.path.exists(f"/proc/{pid}/root/dev/moved"), "the init has moved")
    return pid


def processes_below(folder: Path) -> set[int]:
    return {int(pid) for file in folder.rglob("cgroup.procs") for pid in file.read_text().split()}


def test_unseen_container_is_adopted_with_all_cgroups(
    containers: Containers, installed: Installed, resctrl: Resctrl
) -> None:
    pid = start(containers, "below1", hooks={})
    installed.reconcile()
    assert cgroup_of(pid).name == "init.scope"
    everybody = processes_below(cgroup_of(pid).parent)
    assert len(everybody) == 3
    assert resctrl.tasks(group="below1") == everybody, installed.said()


def test_class_value_is_read_from_the_own_cgroup_of_the_container(containers: Containers, installed: Installed) -> None:
    classes = {"low": {"cpuWeight": 50}}
    installed.configure(
        monitoring={"enabled": False},
        failurePolicy="fail",
        scheduling={"enabled": True, "defaults": {"namespaces": {"*": "low"}}, "classes": classes},
    )
    pid = start(containers, "below2")
    own = cgroup_of(pid).parent
    holder = own if (own / "cpu.weight").exists() else own.parent
    assert (holder / "cpu.weight").read_text() == "50\n", installed.said()
    installed.reconcile()
    (holder / "cpu.weight").write_text("100")
    installed.reconcile()
    assert (holder / "cpu.weight").read_text() == "50\n", installed.said()
