"""Real runc and real Podman call the hook on a simulated resctrl: groups, and leftovers."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.processes import wait_until

from resctrl_hooks.lab.demo.bundle import Bundle
from resctrl_hooks.lab.demo.podman import Podman
from resctrl_hooks.lab.demo.stage import Stage, staged
from resctrl_hooks.lab.demo.subject import COMMAND, NAME, POD_UID, RuntimeFailedError

HOUSES = ("lab",)
pytestmark = pytest.mark.runtime
NOWHERE = "/nonexistent/resctrl"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged() as stage:
        assert not stage.why_plain, stage.why_plain
        yield stage


@pytest.fixture
def runc(stage: Stage) -> Iterator[Callable[..., Bundle]]:
    """Make containers of runc's, which are deleted after the test."""
    made: list[Bundle] = []

    def make(id_: str = NAME, **options: Any) -> Bundle:
        made.append(Bundle(stage, "runc", id_, **options))
        return made[-1]

    yield make
    for bundle in made:
        bundle.call("delete", "--force", bundle.id)


@pytest.fixture
def podman(stage: Stage) -> Iterator[Podman]:
    podman = Podman(stage)
    yield podman
    podman.call("pod", "rm", "--all", "--force", "-t", "0")
    podman.call("rm", "--all", "--force", "-t", "0")
    podman.release_key()


def state_of(bundle: Bundle) -> Any:
    return json.loads(bundle.call("state", bundle.id))


def threads_of(pid: int) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{pid}/task")}


def podman_pid(podman: Podman, name: str = NAME) -> int:
    return int(podman.call("inspect", "--format", "{{.State.Pid}}", name))


def nothing_is_left(stage: Stage) -> bool:
    return not stage.groups() and not stage.records() and not os.listdir(f"{stage.state_dir}/containers")


def test_containers_of_runc_share_the_group_of_their_pod_until_the_last_ends(stage: Stage, runc: Any) -> None:
    one, two = runc("one"), runc("two")
    one.create()
    assert stage.groups() == [POD_UID]
    first = state_of(one)["pid"]
    assert threads_of(first) <= set(stage.tasks(POD_UID))
    assert len(threads_of(first)) > 1
    two.create()
    assert {first, state_of(two)["pid"]} <= set(stage.tasks(POD_UID))
    inode = os.stat(f"{stage.resctrl}/mon_groups/{POD_UID}").st_ino
    one.start()
    wait_until(lambda: {"sh", "sleep"} <= set(stage.tasks(POD_UID).values()))
    one.remove()
    assert stage.groups() == [POD_UID]
    assert os.stat(f"{stage.resctrl}/mon_groups/{POD_UID}").st_ino == inode
    two.remove()
    assert nothing_is_left(stage)
    runc("alone", annotations={}).create()
    assert stage.groups() == ["alone"]


@pytest.mark.ci
def test_fail_refuses_with_79_and_ignore_starts_the_container(stage: Stage, runc: Any, podman: Podman) -> None:
    stage.configure(resctrlPath=NOWHERE, failurePolicy="fail")
    with pytest.raises(RuntimeFailedError, match="exit status 79") as refused:
        runc().create()
    assert f"resctrl is not mounted at {NOWHERE}" in str(refused.value)
    assert json.loads(runc("other").call("list", "--format", "json") or "null") is None
    with pytest.raises(RuntimeFailedError, match="79"):
        podman.create()
    assert stage.records() == []
    stage.configure(resctrlPath=NOWHERE)
    bundle = runc("ignored")
    bundle.create()
    bundle.start()
    assert state_of(bundle)["status"] == "running"
    assert any(NOWHERE in line for line in stage.new_log())
    bundle.remove()
    assert stage.records() == []


@pytest.mark.ci
def test_container_of_podman_has_its_group_from_its_creation_to_its_end(stage: Stage, podman: Podman) -> None:
    podman.create()
    assert stage.groups() == [podman.key]
    first = podman_pid(podman)
    assert threads_of(first) <= set(stage.tasks(podman.key))
    podman.start()
    wait_until(lambda: set(stage.tasks(podman.key).values()) == {"sh", "sleep"})
    podman.call("restart", "-t", "0", NAME)
    second = podman_pid(podman)
    assert second != first
    assert stage.groups() == stage.records() == [podman.key]
    assert second in stage.tasks(podman.key)
    podman.remove()
    assert nothing_is_left(stage)
    podman.call("run", "--name", "short", "--network", "none", *podman.rootfs("short"), "sh", "-c", ":")
    wait_until(lambda: nothing_is_left(stage))


@pytest.mark.ci
def test_podman_pod_infra_and_members_share_group_of_pod(stage: Stage, podman: Podman) -> None:
    # Podman would build its infra image; a rootfs of our own does without.
    image = podman.call("import", str(make_image(Path(stage.folder))), "localhost/pause:demo").strip()
    infra = ["--infra-image", image, "--infra-command", "/pause"]
    pod = podman.call("pod", "create", "--name", "shop", "--network", "none", *infra).strip()
    podman.call("create", "--pod", "shop", "--name", "member", *podman.rootfs("m"), *COMMAND)
    podman.call("pod", "start", "shop")
    names = podman.call("ps", "--filter", "pod=shop", "--format", "{{.Names}}").split()
    assert len(names) == 2
    assert stage.groups() == [pod]
    assert {podman_pid(podman, name) for name in names} <= set(stage.tasks(pod))
    podman.call("pod", "rm", "--force", "-t", "0", "shop")
    # No hook is called at the end of a pod.
    subprocess.run([*stage.hook[:-1], "reconcile"], check=True, capture_output=True, env={}, cwd="/")
    assert nothing_is_left(stage)
    podman.release_key(pod)  # with version 1, Podman leaves two behind


def make_image(folder: Path) -> Path:
    """Return a tar file with a program that waits, linked statically: Debian's busybox-static."""
    tar, root = folder / "pause.tar", folder / "image"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for name in ("sh", "sleep"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "pause").write_text("#!/bin/sh\nwhile :; do /bin/sleep 60; done\n")
    (root / "pause").chmod(0o755)
    subprocess.run(["tar", "-C", str(root), "-cf", str(tar), "."], check=True)
    return tar
