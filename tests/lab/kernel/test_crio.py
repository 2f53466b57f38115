"""Installed on this host for CRI-O, with a client that acts as CRI-O does: `list` shows its pods correctly."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.bare import clear_host, configure_host
from kernel.bundles import OWN_PLACE
from kernel.crio import RDT, Crio, CrioPod
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import resctrl_hook, succeeds
from kernel.pods import UID
from kernel.runtimes import Failed, Runtime, run, wait_until
from resctrl_hooks.core.install import units
from resctrl_hooks.core.node.names import STATE_DIR
from resctrl_hooks.core.node.watch.status import read_status

DEADLINE = "deadlineSeconds: 8\n"
"""One suitable for an emulated host."""
OTHER = "0b9d6c1e-2f3a-4d5b-8c7e-91a2b3c4d503"
IN_TWO_CLASSES = {f"{RDT}/pod": "gold", f"{RDT}/container.c1": "silver"}


def install() -> None:
    succeeds("install", "--runtime", "crio")
    # Only the test's own reconciles run: without systemd there are no others.
    run(["systemctl", "stop", units.TIMER, units.WAKE], check=False)


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    """Return our hook on this host, for CRI-O."""
    clear_host()
    install()
    yield
    clear_host()


@pytest.fixture
def runtime_name(driver: str) -> str:
    """Return each OCI runtime once; CRI-O's behaviour does not depend on runtime or cgroup driver."""
    return {"cgroupfs": "runc", "systemd": "crun"}[driver]


@pytest.fixture
def crio(runtime: Runtime, bundle: Callable[..., str], resctrl: Resctrl, tmp_path: Path) -> Iterator[Crio]:
    """Return a CRI-O with RDT classes gold and silver, on a host without pods."""
    configure_host(DEADLINE)
    for rdt_class in ("gold", "silver"):
        resctrl.make(rdt_class)
    found = Crio(runtime, bundle, tmp_path / "sandboxes")
    yield found
    found.stop()


@pytest.fixture
def pods(crio: Crio) -> Iterator[Callable[..., CrioPod]]:
    """Make pods, whose end nothing is left of: `pods(UID, "web-0", annotations=…)`."""
    made: list[CrioPod] = []

    def make(*arguments: Any, **options: Any) -> CrioPod:
        made.append(CrioPod(crio, *arguments, **options))
        return made[-1]

    yield make
    for pod in made:
        pod.remove()
    resctrl_hook("reconcile")
    assert listed() == {}


def listed() -> dict[str, dict[str, Any]]:
    """Return the line of each pod in `list`."""
    return {pod["key"]: pod for pod in json.loads(succeeds("list", "-o", "json"))["items"]}


def states(resctrl: Resctrl) -> dict[str, tuple[str, str]]:
    """By pod, its state and how many containers run of how many, as `list` says; all that it says is compared."""
    pods = listed()
    for key, pod in pods.items():
        for group in pod["groups"]:
            assert os.path.isdir(group["path"]) == (group["origin"] != "missing"), pod
            if group["origin"] != "missing":
                assert len(resctrl.tasks(group["rdtClass"], key)) == group["tasks"], pod
        for one in pod["containers"]:
            assert os.path.exists(f"/proc/{one['pid']}") == one["alive"], pod
            inside = one["alive"] and place_of(one["pid"]) == Place(one["rdtClass"], key)
            assert inside == (one["alive"] and not one["threadsOutside"]), pod
    return {key: (pod["state"], f"{alive(pod)}/{len(pod['containers'])}") for key, pod in pods.items()}


def alive(pod: dict[str, Any]) -> int:
    return sum(one["alive"] for one in pod["containers"])


def test_two_containers_join_two_classes(pods: Callable[..., CrioPod], resctrl: Resctrl) -> None:
    pod = pods(UID, annotations=IN_TWO_CLASSES)
    gold, silver = pod.start("c0"), pod.start("c1")
    assert (place_of(gold), place_of(silver)) == (Place("gold", UID), Place("silver", UID))
    assert states(resctrl) == {UID: ("assigned", "2/2")}
    pod.end("c1")
    again = pod.start("c1")
    assert place_of(again) == Place("silver", UID)
    pod.end("c0")
    pod.end("c1")
    assert states(resctrl) == {UID: ("idle", "0/0")}
    pod.remove()
    succeeds("reconcile")
    assert listed() == {}
    assert resctrl.names() == ["gold", "silver"]


@pytest.mark.only(driver="systemd")
def test_exec_joins_the_group_of_its_containers_class(pods: Callable[..., CrioPod], resctrl: Resctrl) -> None:
    wait_until(lambda: (read_status(STATE_DIR) or {}).get("mode") == "events", "the unit's watcher receives events")
    pod = pods(UID, annotations=IN_TWO_CLASSES)
    for container, rdt_class in (("c0", "gold"), ("c1", "silver")):
        pod.start(container)
        said = pod.runtime.command("exec", pod.id_of(container), "/bin/sh", "-c", f"sleep 1; {OWN_PLACE}")
        assert parse_place(said) == Place(rdt_class, UID)
    assert states(resctrl) == {UID: ("assigned", "2/2")}


def test_container_that_cannot_be_created_leaves_nothing(pods: Callable[..., CrioPod], resctrl: Resctrl) -> None:
    pod = pods(UID)
    with pytest.raises(Failed):
        pod.start("c0", ["/no/such/program"])
    succeeds("reconcile")
    assert states(resctrl) in ({}, {UID: ("idle", "0/0")})
    pod.start("c1")
    with pytest.raises(Failed):
        pod.start("c0", ["/no/such/program"])
    succeeds("reconcile")
    assert states(resctrl) == {UID: ("assigned", "1/1")}


def test_hook_is_reinstalled_while_crio_runs(crio: Crio, pods: Callable[..., CrioPod], resctrl: Resctrl) -> None:
    pod = pods(UID)
    pod.start("c0")
    succeeds("uninstall")
    assert crio.hooks == {}
    unseen = pod.start("c1")
    assert place_of(unseen) == Place("", "")
    install()
    configure_host(DEADLINE)
    assert crio.hooks.keys() == {"createRuntime", "poststop"}, "its folder is the one that it watches"
    assert place_of(pod.start("c2")) == Place("", UID)
    succeeds("reconcile")
    assert place_of(unseen) == Place("", UID)
    assert states(resctrl) == {UID: ("assigned", "3/3")}


def test_crio_survives_prune(crio: Crio, pods: Callable[..., CrioPod], resctrl: Resctrl) -> None:
    busy, idle = pods(UID, annotations=IN_TWO_CLASSES), pods(OTHER, "web-1")
    for pod in (busy, idle):
        pod.start("c0")
        pod.start("c1")
    busy.end("c1")  # leaves a group in silver without tasks
    idle.end("c0")
    idle.end("c1")
    crio.restart(resctrl, {"gold", "silver"})
    assert not os.path.exists(resctrl.path("silver", UID))
    assert not os.path.exists(resctrl.path("", OTHER))
    states(resctrl)
    succeeds("reconcile")
    assert states(resctrl) == {UID: ("assigned", "1/1"), OTHER: ("idle", "0/0")}
    assert {group["origin"] for pod in listed().values() for group in pod["groups"]} == {"created"}
    crio.restart(resctrl, {"silver"})  # which takes the class of a container that runs
    states(resctrl)
    succeeds("reconcile")
    assert states(resctrl) == {UID: ("assigned", "1/1"), OTHER: ("idle", "0/0")}
    assert place_of(idle.start("c0")) == Place("", OTHER)
    assert states(resctrl)[OTHER] == ("assigned", "1/1")
