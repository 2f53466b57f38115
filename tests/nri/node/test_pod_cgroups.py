"""The cgroup of a pod's record, whose end is the pod's end: with each cgroup version, by each writer of the record."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state
from hosts import crun

from nri.node.conftest import FAIL, NOTHING, container, message, plugin_of, served, synchronized
from resctrl_hooks.core.node.host.files import is_folder
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

pytestmark = pytest.mark.usefixtures("alarm")
VERSIONS = {
    "v2": ("0::{}",),
    "v1": ("12:rdma:/", "5:memory:{}", "4:cpu,cpuacct:{}", "1:name=systemd:{}"),
    "hybrid": ("12:rdma:/", "5:memory:{}", "1:name=systemd:{}", "0::{}"),
}
"""The lines of /proc/PID/cgroup; the kubelet makes no cgroup of a pod for rdma."""
FOLDERS = {"v2": "", "v1": "memory", "hybrid": "memory"}


def process(host: Host, pid: int, version: str, path: str = "/") -> int:
    """Make a process in this cgroup of each hierarchy in which pods have cgroups."""
    host.process(pid, rdt="/")
    (host.proc / f"{pid}/cgroup").write_text("".join(f"{line}\n" for line in VERSIONS[version]).format(*[path] * 9))
    for line in VERSIONS[version]:
        hierarchy = line.split(":")[1].removeprefix("name=")
        if "{}" in line and path != "/":
            name = hierarchy or ("unified" if version == "hybrid" else "")
            (host.cgroup / name / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return pid


def pod_record(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.state / "pods" / UID / "pod").read_text())
    return found


def created(host: Host, version: str) -> None:
    plugin = plugin_of(host, **FAIL)
    assert served(plugin, "CreateContainer", message(0)) == NOTHING


def started(host: Host, version: str) -> None:
    plugin = plugin_of(host)
    assert served(plugin, "StartContainer", message(process(host, 41, version, f"{POD_CGROUP}/{ID}"))) == NOTHING


def hooked(host: Host, version: str) -> None:
    pid = process(host, 41, version, f"{POD_CGROUP}/crio-{ID}")
    assert host.call(state(pid=pid, bundle=host.bundle(), annotations=crio_annotations())).code == 0


def adopted(host: Host, version: str) -> None:
    pid = process(host, 41, version, f"{POD_CGROUP}/crio-{ID}")
    crun.record(host.root / "none", ID, pid, host.bundle({"annotations": crio_annotations(), "linux": {}}), 1000)
    reconcile(host.context(), Options())


def listed(host: Host, version: str) -> None:
    plugin = plugin_of(host)
    assert synchronized(plugin, container(process(host, 41, version, f"{POD_CGROUP}/{ID}"))) == NOTHING


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, host: Host) -> str:
    """Return a cgroup version of the host, whose pod has cgroups."""
    found: str = request.param
    process(host, 1, found)
    process(host, 40, found, POD_CGROUP)
    return found


@pytest.mark.parametrize("record", [created, started, hooked, adopted, listed])
def test_recorded_cgroup_of_a_pod_exists_and_its_end_is_the_pods(
    host: Host, version: str, record: Callable[[Host, str], None]
) -> None:
    record(host, version)
    folder = Path(pod_record(host)["cgroup"])
    assert folder == host.cgroup / FOLDERS[version] / POD_CGROUP.lstrip("/")
    if (host.proc / "41").exists():
        host.end_process(41)
    reconcile(host.context(), Options())
    assert host.groups() == [f"mon_groups/{UID}"], "the pod lives without containers"
    shutil.rmtree(folder)
    reconcile(host.context(), Options())
    assert (host.groups(), host.records()) == ([], [])


def test_missing_cgroup_of_a_pod_is_not_recorded_and_found_later(host: Host, version: str) -> None:
    plugin = plugin_of(host, **FAIL)
    for folder in host.cgroup.glob(f"**{POD_CGROUP}"):
        shutil.rmtree(folder)
    assert served(plugin, "CreateContainer", message(0)) == NOTHING
    assert pod_record(host)["cgroup"] == ""
    started(host, version)
    reconcile(host.context(), Options())
    assert is_folder(pod_record(host)["cgroup"])


def test_wrong_cgroup_in_the_record_of_a_running_pod_is_corrected(host: Host, version: str) -> None:
    started(host, version)
    right = pod_record(host)["cgroup"]
    for wrong in (f"{host.cgroup}/none{POD_CGROUP}", ""):
        context = host.context()
        with context.monitor.hold(UID) as locked:
            locked.record["cgroup"] = wrong
            locked.save()
        assert reconcile(context, Options()).number("repaired") == 1
        assert pod_record(host)["cgroup"] == right
    assert not reconcile(host.context(), Options()).number("repaired")
