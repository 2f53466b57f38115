"""A reader with Kepler's rules on resctrl itself and on the view: where its numbers are wrong, and where right."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hosts.monitored import KEYS, MonitoredHost, monitored_host

from resctrl_hooks.core.node.names import canonical_pod_uid
from resctrl_hooks.core.node.sharing.handover import hand_on
from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.filesystem import XATTR
from resctrl_hooks.observe.view.contents import Contents, Files

HOUSES = ("lab",)


UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MEASURED, ESTIMATED = "measured", "estimated"


@dataclass
class Look:
    """One cycle: joules by package, of the root and of each pod with a group; None if a file has no number."""

    root: dict[str, float] | None
    pods: dict[str, dict[str, float] | None] = field(default_factory=dict)


class Reader:
    """Reads a tree: `names` lists a folder, `read` is a file's text."""

    def __init__(self, names: Callable[[str], list[str]], read: Callable[[str], str]) -> None:
        self._names, self._read = names, read
        zones = [name for name in sorted(names("mon_data")) if name.startswith("mon_PERF_PKG_")]
        self.zones = [zone for zone in zones if "core_energy" in names(f"mon_data/{zone}")]

    def look(self, running: Mapping[str, float]) -> Look:
        """Return groups are looked for in the root class only, by names that are UIDs of running pods."""
        found = [name for name in self._names("mon_groups") if UID.fullmatch(name) and name in running]
        return Look(self._energy("mon_data"), {uid: self._energy(f"mon_groups/{uid}/mon_data") for uid in found})

    def _energy(self, mon_data: str) -> dict[str, float] | None:
        """Return the energy; one file without a number makes all of them unknown."""
        try:
            return {zone: float(self._read(f"{mon_data}/{zone}/core_energy")) for zone in self.zones}
        except ValueError:
            return None


def grown(before: Mapping[str, float] | None, now: Mapping[str, float] | None) -> float | None:
    """Return the increase over all packages; one that fell counts as none."""
    if before is None or now is None:
        return None
    return sum(max(now[zone] - before.get(zone, now[zone]), 0) for zone in now)


def attributed(before: Look, now: Look, running: Mapping[str, float], package: float) -> dict[str, tuple[str, float]]:
    """Return each running pod's part of the joules that RAPL counted, and whether that was measured. Args: before: the
    cycle before. now: this cycle. running: each pod's share of the node's CPU time. package: joules of the packages in
    this cycle."""
    cores = {uid: grown(before.pods.get(uid), energy) for uid, energy in now.pods.items()}
    measured = {uid: joules for uid, joules in cores.items() if joules is not None}
    tracked = sum(measured.values())
    if measured.keys() == running.keys():
        return {uid: (MEASURED, joules + (package - tracked) * running[uid]) for uid, joules in measured.items()}
    root = min(grown(before.root, now.root) or 0.0, package) or tracked
    scale = root / tracked if tracked > root else 1.0
    others = 1 - sum(running[uid] for uid in measured)
    result = {uid: (MEASURED, joules * scale + (package - root) * running[uid]) for uid, joules in measured.items()}
    for uid in running.keys() - measured.keys():
        untracked = max(root - tracked, 0) * running[uid] / others if others else 0.0
        result[uid] = (ESTIMATED, untracked + (package - root) * running[uid])
    return result


pytestmark = pytest.mark.fuse

ENERGY = "mon_data/mon_PERF_PKG_00/core_energy"
ELSEWHERE = "mon_data/mon_PERF_PKG_01/core_energy"


Attributed = dict[str, tuple[str, float]]


class Node:
    """A node with settable energy counters, and both trees of it."""

    def __init__(self, host: MonitoredHost, pods_file: str = "") -> None:
        self.host = host
        self.contents = Contents(host.context, pods_file)

    def pod(self, number: int, name: str, rdt_class: str = "") -> str:
        return self.host.pod(number, name, rdt_class=rdt_class)

    def folder(self, key: str, rdt_class: str = "") -> Path:
        return self.host.resctrl / rdt_class / "mon_groups" / key

    def say(self, key: str, here: object, elsewhere: object = 0, rdt_class: str = "") -> None:
        for path, value in ((ENERGY, here), (ELSEWHERE, elsewhere)):
            os.setxattr(self.folder(key, rdt_class) / path, XATTR, str(value).encode())

    def raw(self, running: Mapping[str, float]) -> Look:
        root = self.host.resctrl
        return Reader(lambda path: os.listdir(root / path), lambda path: (root / path).read_text()).look(running)

    def viewed(self, running: Mapping[str, float]) -> Look:
        files = self.contents.read()
        return Reader(lambda path: names(files, path), files.__getitem__).look(running)

    def both(self, running: Mapping[str, float]) -> tuple[Look, Look]:
        """Return a look at resctrl itself and one at the view."""
        return self.raw(running), self.viewed(running)

    def attributed(self, before: tuple[Look, Look], running: Mapping[str, float], package: float) -> list[Attributed]:
        """Return the attributed joules since the looks before, by resctrl itself and by the view."""
        return [attributed(*looks, running, package) for looks in zip(before, self.both(running), strict=True)]


def names(files: Files, folder: str) -> list[str]:
    return sorted({path[len(folder) + 1 :].partition("/")[0] for path in files if path.startswith(f"{folder}/")})


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


def test_handover_starts_new_pod_at_old_energy_in_resctrl_and_at_zero_in_view(node: Node) -> None:
    cart, web = node.pod(0, "cart"), node.pod(1, "web")
    running = {cart: 0.5, web: 0.5}
    node.host.context.monitor.remove(web)
    node.say(cart, 258, 2)
    node.viewed(running)
    monitor = node.host.context.monitor
    with monitor.hold(cart) as giver, monitor.hold(web) as taker:
        giver.record["claim"] = {"priority": 0, "since": 1.0, "rules": 0, "entry": ""}
        taker.record["claim"] = {"priority": 0, "since": 1.0, "rules": 0, "entry": ""}
        assert hand_on(giver, taker, "", monitor, node.host.context.log)
    raw, viewed = node.both(running)
    assert raw.pods == {web: {"mon_PERF_PKG_00": 258, "mon_PERF_PKG_01": 2}}
    assert viewed.pods == {cart: None, web: {"mon_PERF_PKG_00": 0, "mon_PERF_PKG_01": 0}}, "cart waits: not 0 W"
    node.say(web, 259.5, 2)
    assert node.viewed(running).pods[web] == {"mon_PERF_PKG_00": 1.5, "mon_PERF_PKG_01": 0}


def test_removed_group_lowers_root_in_resctrl_but_not_in_view(node: Node) -> None:
    cart, web = node.pod(0, "cart"), node.pod(1, "web")
    running = {web: 1.0}
    node.say(cart, 1000)
    node.say(web, 10)
    before = node.both(running)
    node.host.context.monitor.remove(cart)
    node.say(web, 11)
    raw, viewed = (
        (now.root or {})["mon_PERF_PKG_00"] - (first.root or {})["mon_PERF_PKG_00"]
        for first, now in zip(before, node.both(running), strict=True)
    )
    assert raw < -900
    assert 1 <= viewed < 900


def test_removed_class_does_not_lower_root_of_view(node: Node) -> None:
    os.mkdir(node.host.resctrl / "silver")
    web = node.pod(1, "web", "silver")
    node.say(web, 500, rdt_class="silver")
    node.viewed({})
    node.say(web, 700, rdt_class="silver")
    before = node.viewed({})
    (node.host.resctrl / "silver").rmdir()
    after = node.viewed({})
    assert (after.root or {})["mon_PERF_PKG_00"] >= (before.root or {})["mon_PERF_PKG_00"] >= 700


def test_unused_package_makes_pod_estimated_in_resctrl_and_zero_in_view(node: Node) -> None:
    web = node.pod(1, "web")
    running = {web: 1.0}
    node.say(web, 24.6, "Unavailable")
    assert node.raw(running).pods == {web: None}
    assert node.viewed(running).pods == {web: {"mon_PERF_PKG_00": 24.6, "mon_PERF_PKG_01": 0}}


def test_waiting_pod_is_estimated_in_both_and_pod_in_class_is_measured_in_view(node: Node) -> None:
    cart, web, waiting = node.pod(0, "cart"), node.pod(1, "web", "gold"), KEYS[2]
    node.host.context.ledger.mark("waiting", waiting)
    running = {cart: 0.4, web: 0.4, waiting: 0.2}
    node.say(cart, 10)
    node.say(web, 10, rdt_class="gold")
    before = node.both(running)
    node.say(cart, 14)
    node.say(web, 18, rdt_class="gold")
    raw, viewed = node.attributed(before, running, 12)
    assert {key: kind for key, (kind, _) in raw.items()} == {cart: MEASURED, web: ESTIMATED, waiting: ESTIMATED}
    assert viewed.items() >= {cart: (MEASURED, 4.0), web: (MEASURED, 8.0)}.items()
    assert viewed[waiting][0] == ESTIMATED


def test_static_pod_has_uid_of_mirror_pod_in_view(node: Node, tmp_path: Path) -> None:
    static = node.pod(2, "etcd-n1")  # a group's name is the hash of the static pod's manifest
    mirror = KEYS[7]
    file = tmp_path / "pods.json"
    mark = {"kubernetes.io/config.mirror": static.replace("-", "")}
    file.write_text(
        json.dumps({"items": [{"metadata": {"uid": mirror, "annotations": mark}}, {"metadata": {"uid": KEYS[6]}}]})
    )
    node.contents = Contents(node.host.context, str(file))
    node.say(static, 3)
    assert canonical_pod_uid(static.replace("-", "")) == static
    assert node.raw({mirror: 1.0}).pods == {}
    assert list(node.viewed({mirror: 1.0}).pods) == [mirror]
    file.write_text("{")
    os.utime(file, ns=(1, 1))
    assert list(node.viewed({mirror: 1.0}).pods) == [mirror], "a damaged file leaves what is known"


def test_recycled_rmid_starts_at_previous_energy_in_resctrl_and_at_zero_in_view(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "r", rmids=2, limbo=0, energy=True) as path,
        monitored_host(tmp_path, path) as host,
    ):
        node = Node(host)
        first = node.pod(0, "cart")
        time.sleep(1)
        host.end()
        host.context.monitor.remove(first)
        with host.context.monitor.hold(KEYS[1]) as locked:
            locked.ensure_group()
        (raw,), (viewed,) = (look({KEYS[1]: 1.0}).pods.values() for look in (node.raw, node.viewed))
    assert sum((raw or {}).values()) > 1
    assert viewed == {"mon_PERF_PKG_00": 0, "mon_PERF_PKG_01": 0}
