"""Energy in the view, for readers such as Kepler's that take groups by name and differences of their counters."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.monitored import KEYS, MonitoredHost, monitored_host

from resctrl_hooks.core.node.names import canonical_pod_uid
from resctrl_hooks.core.node.sharing.handover import hand_on
from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.filesystem import XATTR
from resctrl_hooks.observe.view.contents import Contents

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse
PACKAGES = ("mon_PERF_PKG_00", "mon_PERF_PKG_01")


class Node:
    """A node with settable energy counters, and its view."""

    def __init__(self, host: MonitoredHost, pods_file: str = "") -> None:
        self.host, self.contents = host, Contents(host.context, pods_file)

    def say(self, key: str, *values: object, rdt_class: str = "") -> None:
        """Set the energy of a pod's group, by package."""
        for package, value in zip(PACKAGES, (*values, 0), strict=False):
            path = self.host.resctrl / rdt_class / "mon_groups" / key / "mon_data" / package / "core_energy"
            os.setxattr(path, XATTR, str(value).encode())

    def pods(self) -> dict[str, list[float] | None]:
        """Return each pod's energy by package in the view; None if one is no number, and with "" the whole node's."""
        files = self.contents.read()
        found: dict[str, list[float] | None] = {}
        for key in ("", *{path.split("/")[1] for path in files if path.startswith("mon_groups/")}):
            folder = f"mon_groups/{key}/mon_data" if key else "mon_data"
            try:
                found[key] = [float(files[f"{folder}/{package}/core_energy"]) for package in PACKAGES]
            except ValueError:
                found[key] = None
        return found

    def root(self) -> float:
        """Return the energy of the first package."""
        values = self.pods()[""]
        assert values is not None
        return values[0]


@pytest.fixture(scope="module")
def resctrl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mounted(tmp_path_factory.mktemp("view") / "r", energy=True, limbo=0) as path:
        os.mkdir(f"{path}/gold")
        yield path


@pytest.fixture
def node(tmp_path: Path, resctrl: str) -> Iterator[Node]:
    with monitored_host(tmp_path, resctrl, monitoring={"share": {"every": 1}}) as host:
        yield Node(host)
        for folder in (*Path(resctrl).glob("mon_groups/*"), *Path(resctrl).glob("gold/mon_groups/*")):
            folder.rmdir()


def test_pod_that_gets_the_group_of_another_starts_at_zero_and_the_other_has_no_value(node: Node) -> None:
    cart, web = node.host.pod(0, "cart"), node.host.pod(1, "web")
    monitor = node.host.context.monitor
    monitor.remove(web)
    node.say(cart, 258, 2)
    node.pods()
    with monitor.hold(cart) as giver, monitor.hold(web) as taker:
        for locked in (giver, taker):
            locked.record["claim"] = {"priority": 0, "since": 1.0, "rules": 0, "entry": ""}
        assert hand_on(giver, taker, "", monitor, node.host.context.log)
    found = node.pods()
    assert (found[cart], found[web]) == (None, [0, 0]), "cart waits: not 0 W"
    node.say(web, 259.5, 2)
    assert node.pods()[web] == [1.5, 0]


def test_removed_groups_and_classes_do_not_lower_the_node(node: Node) -> None:
    cart, web = node.host.pod(0, "cart"), node.host.pod(1, "web")
    node.say(cart, 1000)
    node.say(web, 10)
    before = node.root()
    node.host.context.monitor.remove(cart)
    node.say(web, 11)
    assert 1 <= node.root() - before < 900
    os.mkdir(node.host.resctrl / "silver")
    moved = node.host.pod(2, "moved", rdt_class="silver")
    for value in (500, 700):
        node.say(moved, value, rdt_class="silver")
        before = node.root()
    (node.host.resctrl / "silver").rmdir()
    assert node.root() >= before >= 700


def test_package_without_tasks_is_zero_and_a_pod_in_a_class_is_measured_but_no_waiting_one(node: Node) -> None:
    cart, web, waiting = node.host.pod(0, "cart"), node.host.pod(1, "web", rdt_class="gold"), KEYS[2]
    node.host.context.ledger.mark("waiting", waiting)
    node.say(cart, 24.6, "Unavailable")
    node.say(web, 10, rdt_class="gold")
    before = node.pods()
    node.say(web, 18, rdt_class="gold")
    now = node.pods()
    assert before[cart] == now[cart] == [24.6, 0]
    assert [after - first for first, after in zip(before[web] or [], now[web] or [], strict=True)] == [8, 0]
    assert now.get(waiting) is None


def test_static_pod_has_uid_of_mirror_pod(node: Node, tmp_path: Path) -> None:
    static = node.host.pod(2, "etcd-n1")  # a group's name is the hash of the static pod's manifest
    mirror, file = KEYS[7], tmp_path / "pods.json"
    mark = {"kubernetes.io/config.mirror": static.replace("-", "")}
    pods = [{"metadata": {"uid": mirror, "annotations": mark}}, {"metadata": {"uid": KEYS[6]}}]
    file.write_text(json.dumps({"items": pods}))
    node.contents = Contents(node.host.context, str(file))
    assert canonical_pod_uid(static.replace("-", "")) == static
    assert node.pods().keys() == {"", mirror}
    file.write_text("{")
    os.utime(file, ns=(1, 1))
    assert node.pods().keys() == {"", mirror}, "a damaged file leaves what is known"


def test_recycled_rmid_starts_at_zero(tmp_path: Path) -> None:
    with mounted(tmp_path / "r", rmids=2, limbo=0, energy=True) as path, monitored_host(tmp_path, path) as host:
        first = host.pod(0, "cart")
        time.sleep(1)
        host.end()
        host.context.monitor.remove(first)
        with host.context.monitor.hold(KEYS[1]) as locked:
            folder = Path(locked.ensure_group().path)
        assert sum(float((folder / "mon_data" / one / "core_energy").read_text()) for one in PACKAGES) > 1
        assert Node(host).pods()[KEYS[1]] == [0, 0]
