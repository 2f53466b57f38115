"""The project's promise: a container's own first instruction is in its pod's group, and whatever it starts is too."""

import os
from functools import partial
from pathlib import Path

import pytest

from kernel.bundles import EVERYBODY, FIRST_INSTRUCTION, HOST_USR
from kernel.groups import Place, Resctrl, parse_place, parse_places, place_of, said
from kernel.installed import Staged
from kernel.pods import UID, KubernetesPod
from kernel.runtimes import Failed, wait_until
from resctrl_hooks.core.install.paths import LAUNCH

SAY_AND_STAY = "cat /proc/self/cpu_resctrl_groups >/dev/said; sleep 1000 & wait"


@pytest.fixture
def installed(tmp_path: Path) -> Staged:
    return Staged(str(tmp_path / "host"))


def has_threads(pod: KubernetesPod, pid: int, number: int) -> bool:
    return len(pod.threads(pid)) == number


def nothing_is_left(pod: KubernetesPod, resctrl: Resctrl) -> None:
    """End the pod, and look that reconcile leaves nothing of it."""
    pod.remove()
    pod.installed.reconcile()
    assert list(resctrl.groups()) == []
    assert pod.installed.records() == []


def test_init_children_and_threads_are_in_the_group_from_the_first_instruction(
    pod: KubernetesPod, resctrl: Resctrl
) -> None:
    places = parse_places(pod.run("c0", EVERYBODY, mounts=[HOST_USR]))
    who = ["init", "init's thread", "child", "child's thread"]
    assert places == dict.fromkeys(who, Place("", UID)), pod.installed.said()
    nothing_is_left(pod, resctrl)


def test_two_containers_of_pod_stay_in_their_classes(pod: KubernetesPod, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    resctrl.make("silver")
    pids = {name: pod.start(name, SAY_AND_STAY, rdt_class=name) for name in ("gold", "silver")}
    for rdt_class, pid in pids.items():
        assert said(pid) == Place(rdt_class, UID), pod.installed.said()
        wait_until(partial(has_threads, pod, pid, 2), "its child runs")
        assert {place_of(tid) for tid in pod.threads(pid)} == {Place(rdt_class, UID)}
        assert resctrl.tasks(rdt_class, UID) == pod.threads(pid)
    pod.end("gold")
    assert place_of(pids["silver"]) == Place("silver", UID)
    pod.end("silver")
    pod.remove()
    pod.installed.reconcile()
    assert resctrl.names() == ["gold", "silver"]


HOSTILE = {
    "traversal": "../../canary",
    "second line": f"{UID}\n../../canary",
    "huge": "a" * 300_000,
    "another pod's": "7b1d2c64-55e1-4c0b-8f0a-6e2f9b4d8a02",
}
"""Pod UIDs that CRI-O would never write."""


def everything(*folders: str) -> set[tuple[str, int]]:
    """Return each file and folder below these with its inode, to detect created, removed and replaced ones."""
    found = set()
    for top in folders:
        for folder, names, files in os.walk(top):
            found |= {(path, os.lstat(path).st_ino) for name in names + files if (path := os.path.join(folder, name))}
    return found


ONE_DRIVER = pytest.mark.only(driver="cgroupfs")
"""For tests that do not depend on the cgroup driver."""


@ONE_DRIVER
@pytest.mark.parametrize("uid", [pytest.param(uid, id=name) for name, uid in HOSTILE.items()])
def test_hostile_pod_uid_has_no_effect(pod: KubernetesPod, resctrl: Resctrl, tmp_path: Path, uid: str) -> None:
    state = Path(pod.installed.state)
    (state / "pods").mkdir(parents=True)
    (state / "canary").write_text("sings")  # where "../../canary" leads from a key's record
    before = everything("/etc", str(tmp_path / "host"))
    bundle = pod.bundle("c0", FIRST_INSTRUCTION, annotations={"io.kubernetes.pod.uid": uid})
    printed = pod.runtime.run("c0", bundle)
    assert parse_place(printed) == Place("", "")
    assert list(resctrl.groups()) == []
    ours = {str(state), pod.installed.log}
    new = {path for path, _ in everything("/etc", str(tmp_path / "host")) - before}
    assert {path for path in new if os.path.dirname(path) not in ours} - ours <= {f"{state}/locks"}
    assert not {path for path, _ in before} - {path for path, _ in everything("/etc", str(tmp_path / "host"))}
    assert pod.installed.records() == []
    assert (state / "canary").read_text() == "sings"
    assert all(line.startswith("<") for line in pod.installed.said().splitlines()), "a line of another program"
    pod.installed.configure(failurePolicy="fail")
    with pytest.raises(Failed):
        pod.runtime.run("c0", bundle)
    assert list(resctrl.groups()) == []


@ONE_DRIVER
def test_nul_in_pod_uid_has_no_effect(pod: KubernetesPod) -> None:
    # crun, a C program, ends the text there and hands the hook the pod's own UID.
    printed = pod.run("c0", FIRST_INSTRUCTION, annotations={"io.kubernetes.pod.uid": f"{UID}\0/../canary"})
    assert parse_place(printed) == Place("", UID if pod.runtime.name == "crun" else ""), pod.installed.said()


@ONE_DRIVER
@pytest.mark.parametrize("size", [1 << 20, 5 << 20], ids=["1 MiB", "5 MiB"])
def test_endless_annotations_have_no_effect(pod: KubernetesPod, resctrl: Resctrl, size: int) -> None:
    printed = pod.run("c0", FIRST_INSTRUCTION, annotations={"example": "x" * size})
    assert parse_place(printed) == Place("", UID), pod.installed.said()
    nothing_is_left(pod, resctrl)


@ONE_DRIVER
def test_large_state_and_broken_hook_let_container_start(pod: KubernetesPod, tmp_path: Path) -> None:
    # A pipe holds 64 KiB of it, and SIGPIPE kills crun if the rest is not read.
    (tmp_path / "host" / LAUNCH.lstrip("/")).unlink()
    printed = pod.run("c0", FIRST_INSTRUCTION, annotations={"example": "x" * (1 << 20)})
    assert parse_place(printed) == Place("", "")
