"""Podman's containers and pods, with our hook as it is installed for Podman: from the first instruction to removal."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kernel.bundles import FIRST_INSTRUCTION
from kernel.groups import Place, Resctrl, parse_place, place_of, said
from kernel.installed import Staged
from kernel.runtimes import Podman, run, wait_until

QUIET = ("--network=none", "--log-driver=k8s-file")
SAY_AND_STAY = "trap exit TERM; cat /proc/self/cpu_resctrl_groups >/dev/said; sleep 1000 & wait"
"""A shell's command that ends at a signal, which would otherwise take Podman's ten seconds."""

ONE_RUNTIME = pytest.mark.only(runtime_name="crun")
"""For behaviour of Podman and systemd, independent of the runtime."""


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(str(tmp_path / "host"), runtime="podman")


@pytest.fixture
def engine(podman: Callable[..., Podman], staged: Staged, resctrl: Resctrl) -> Podman:
    del resctrl  # there before, and cleared after
    return podman(staged.write_hooks_d())


def pid_and_id(engine: Podman, container: str) -> tuple[int, str]:
    """Return a container's init process and its id, with one command."""
    pid, name = engine.inspect(container, "{{.State.Pid}} {{.Id}}").split()
    return int(pid), name


def nothing_is_left(staged: Staged, resctrl: Resctrl) -> None:
    """After reconcile: of a pod no hook can tell the end, for Podman removes its cgroup after the last poststop."""
    staged.reconcile()
    assert resctrl.names() == []
    assert staged.records() == []


def test_podman_run_is_monitored(engine: Podman, image: str, staged: Staged, resctrl: Resctrl) -> None:
    printed = engine.command("run", *QUIET, "--name=m", image, *FIRST_INSTRUCTION)
    assert parse_place(printed) == Place("", engine.inspect("m", "{{.Id}}")), staged.said()
    engine.command("rm", "m")  # `podman run` doesn't wait for conmon's clean-up, which runs poststop
    assert resctrl.names() == []
    assert staged.records() == []


@pytest.mark.parametrize("infra", ["true", "false"], ids=["with-infra", "without-infra"])
def test_containers_of_pod_share_group(
    engine: Podman, image: str, staged: Staged, resctrl: Resctrl, infra: str
) -> None:
    network = ["--network=none"] if infra == "true" else []
    pod = engine.command("pod", "create", "--name=p", f"--infra={infra}", *network).strip().splitlines()[-1]
    engine.run(image, SAY_AND_STAY, "--detach", "--pod=p", "--name=first")
    first = engine.pid("first")
    assert said(first) == Place("", pod), staged.said()
    second = engine.command("run", *QUIET, "--pod=p", "--name=second", image, *FIRST_INSTRUCTION)
    assert parse_place(second) == Place("", pod)
    assert resctrl.names() == [pod]
    assert place_of(first) == Place("", pod), "the second one's end is not the pod's"
    engine.command("pod", "rm", "--force", "--time=0", "p")
    nothing_is_left(staged, resctrl)


KUBE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"io.kubernetes.pod.uid": "../../../etc"}},
    "spec": {"restartPolicy": "Never"},
}


@ONE_RUNTIME
def test_kube_play_is_monitored(engine: Podman, image: str, staged: Staged, resctrl: Resctrl, tmp_path: Path) -> None:
    words = ["/bin/sh", "-c", SAY_AND_STAY]
    containers = [{"name": name, "image": image, "imagePullPolicy": "Never", "command": words} for name in ("a", "b")]
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump({**KUBE, "spec": {**KUBE["spec"], "containers": containers}}))  # type: ignore[dict-item]
    engine.command("kube", "play", *QUIET, str(path))
    pod = json.loads(engine.command("pod", "inspect", "web"))
    pod_id = (pod[0] if isinstance(pod, list) else pod)["Id"]
    for pid in engine.pids("web-a", "web-b"):
        assert said(pid) == Place("", pod_id), staged.said()
    assert resctrl.names() == [pod_id]
    engine.command("kube", "down", "--force", str(path))
    nothing_is_left(staged, resctrl)


@ONE_RUNTIME
def test_restart_with_same_id_is_monitored(engine: Podman, image: str, staged: Staged, resctrl: Resctrl) -> None:
    container = engine.run(image, SAY_AND_STAY, "--detach", "--name=m")
    before = engine.pid("m")
    for _ in range(2):
        engine.command("restart", "--time=0", "m")
        pid = engine.pid("m")
        assert pid != before
        before = pid
        assert said(pid) == Place("", container), staged.said()
        assert resctrl.names() == [container]
        assert pid in resctrl.tasks(group=container)
        assert [name for name in staged.records() if name.startswith("pods/")] == [
            f"pods/{container}/c-{container}",
            f"pods/{container}/pod",
        ]
    engine.command("rm", "--force", "--time=0", "m")
    assert resctrl.names() == []
    assert staged.records() == []


# Below a service, where the container has no scope of its own.


@pytest.fixture
def service() -> Iterator[str]:
    """Return the name of a transient service, which ends with the test."""
    name = "split-test.service"
    yield name
    run(["systemctl", "stop", name], check=False)
    run(["systemctl", "reset-failed", name], check=False)


@pytest.mark.only(driver="systemd")
def test_cgroups_split_is_monitored(engine: Podman, image: str, staged: Staged, resctrl: Resctrl, service: str) -> None:
    words = [*engine.words, "run", *QUIET, "--rm", "--cgroups=split", "--name=m", image, "/bin/sh", "-c", SAY_AND_STAY]
    run(["systemd-run", f"--unit={service}", "--property=Delegate=yes", *words])
    wait_until(lambda: resctrl.names() and engine.command("ps", "--quiet", check=False).strip(), "it runs")
    pid, container = pid_and_id(engine, "m")
    assert f"/system.slice/{service}/" in Path(f"/proc/{pid}/cgroup").read_text()
    assert said(pid) == Place("", container), staged.said()
    engine.command("rm", "--force", "--time=0", "m")
    assert resctrl.names() == []
    assert staged.records() == []


QUADLETS = {
    "alone.container": """[Container]
Image={image}
ContainerName=alone
Exec=/bin/sh -c "{command}"
Network=none
Pull=never
GlobalArgs={options}
""",
    "both.pod": """[Pod]
PodName=both
Network=none
GlobalArgs={options}
""",
    "member.container": """[Container]
Image={image}
ContainerName=member
Exec=/bin/sh -c "{command}"
Pod=both.pod
Pull=never
GlobalArgs={options}
""",
}


@pytest.fixture
def quadlets(engine: Podman, image: str) -> Iterator[None]:
    """Units of containers, one alone and one in a pod, as an administrator writes them."""
    folder = Path("/etc/containers/systemd")
    folder.mkdir(parents=True, exist_ok=True)
    options = " ".join(engine.words[1:])
    for name, text in QUADLETS.items():
        (folder / name).write_text(text.format(image=image, command=SAY_AND_STAY, options=options))
    run(["systemctl", "daemon-reload"])
    yield
    run(["systemctl", "stop", "alone.service", "member.service", "both-pod.service"], check=False)
    for name in QUADLETS:
        (folder / name).unlink()
    run(["systemctl", "daemon-reload"])


@pytest.mark.only(driver="systemd")
@ONE_RUNTIME
@pytest.mark.usefixtures("quadlets")
def test_quadlets_are_monitored(engine: Podman, staged: Staged, resctrl: Resctrl) -> None:
    run(["systemctl", "start", "alone.service"])
    pid, alone = pid_and_id(engine, "alone")
    assert "/system.slice/alone.service/" in Path(f"/proc/{pid}/cgroup").read_text()
    assert said(pid) == Place("", alone), staged.said()
    run(["systemctl", "restart", "alone.service"])  # --rm: another container, another id
    again = engine.inspect("alone", "{{.Id}}")
    assert resctrl.names() == [again]
    assert again != alone
    run(["systemctl", "stop", "alone.service"])
    assert resctrl.names() == []
    run(["systemctl", "start", "both-pod.service", "member.service"])
    pod = engine.command("pod", "inspect", "--format", "{{.ID}}", "both").strip()
    pid, member = pid_and_id(engine, "member")
    # Its cgroup is below its service and not in the pod's, so it has a group of its own, separate from the infra
    # container's.
    assert said(pid) == Place("", member), staged.said()
    assert resctrl.names() == sorted([pod, member])
    run(["systemctl", "stop", "both-pod.service", "member.service"])
    nothing_is_left(staged, resctrl)
