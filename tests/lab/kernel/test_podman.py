"""Podman's containers and pods with our hook as it is installed for Podman; rootless ones; the metrics DaemonSet."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from core.install.daemonsets import command_of, metrics_container, mounts, rights

from kernel.bundles import FIRST_INSTRUCTION, write_hook
from kernel.groups import Place, Resctrl, parse_place, place_of, said
from kernel.installed import Installed, Staged
from kernel.runtimes import Podman, quadlets, run, wait_until

QUIET = ("--network=none", "--log-driver=k8s-file")
SAY_AND_STAY = "trap exit TERM; cat /proc/self/cpu_resctrl_groups >/dev/said; sleep 1000 & wait"
"""A shell's command that ends at a signal, which would otherwise take Podman's ten seconds."""


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(str(tmp_path / "host"), runtime="podman")


@pytest.fixture
def engine(podman: Callable[..., Podman], staged: Staged, resctrl: Resctrl) -> Podman:
    return podman(staged.write_hooks_d())


def nothing_is_left(staged: Staged, resctrl: Resctrl) -> None:
    """After reconcile: of a pod no hook can tell the end, for Podman removes its cgroup after the last poststop."""
    staged.reconcile()
    assert resctrl.present() == []
    assert staged.records() == []


@pytest.mark.only(driver="cgroupfs")
def test_podman_run_and_restart_are_monitored(engine: Podman, image: str, staged: Staged, resctrl: Resctrl) -> None:
    printed = engine.command("run", *QUIET, "--name=m", image, *FIRST_INSTRUCTION)
    assert parse_place(printed) == Place("", engine.inspect("m", "{{.Id}}")), staged.said()
    engine.command("rm", "m")  # `podman run` doesn't wait for conmon's clean-up, which runs poststop
    assert (resctrl.present(), staged.records()) == ([], [])
    container = engine.run(image, SAY_AND_STAY, "--detach", "--name=m")
    before = engine.pid("m")
    engine.command("restart", "--time=0", "m")
    pid = engine.pid("m")
    assert pid != before
    assert said(pid) == Place("", container), staged.said()
    assert (resctrl.present(), pid in resctrl.tasks(f"mon_groups/{container}")) == ([container], True)
    engine.command("rm", "--force", "--time=0", "m")
    assert (resctrl.present(), staged.records()) == ([], [])


@pytest.mark.parametrize(
    "infra, driver, runtime_name",
    [
        pytest.param("true", "systemd", "runc", marks=pytest.mark.systemd, id="with-infra"),
        pytest.param("false", "cgroupfs", "crun", id="without-infra"),
    ],
)
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
    assert resctrl.present() == [pod]
    assert place_of(first) == Place("", pod), "the second one's end is not the pod's"
    engine.command("pod", "rm", "--force", "--time=0", "p")
    nothing_is_left(staged, resctrl)


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
def units(engine: Podman, image: str) -> Iterator[None]:
    """Units of containers, one alone and one in a pod, as an administrator writes them."""
    values = {"image": image, "command": SAY_AND_STAY, "options": " ".join(engine.words[1:])}
    texts = {name: text.format(**values) for name, text in QUADLETS.items()}
    with quadlets(texts, "alone.service", "member.service", "both-pod.service"):
        yield


@pytest.mark.only(driver="systemd", runtime_name="crun")
@pytest.mark.usefixtures("units")
def test_quadlets_are_monitored(engine: Podman, staged: Staged, resctrl: Resctrl) -> None:
    run(["systemctl", "start", "alone.service"])
    pid, alone = engine.pid("alone"), engine.inspect("alone", "{{.Id}}")
    assert "/system.slice/alone.service/" in Path(f"/proc/{pid}/cgroup").read_text()
    assert said(pid) == Place("", alone), staged.said()
    run(["systemctl", "restart", "alone.service"])  # --rm: another container, another id
    again = engine.inspect("alone", "{{.Id}}")
    assert resctrl.present() == [again]
    assert again != alone
    run(["systemctl", "stop", "alone.service"])
    assert resctrl.present() == []
    run(["systemctl", "start", "both-pod.service", "member.service"])
    pod = engine.command("pod", "inspect", "--format", "{{.ID}}", "both").strip()
    pid, member = engine.pid("member"), engine.inspect("member", "{{.Id}}")
    # Its cgroup is below its service and not in the pod's, so it has a group of its own, separate from the infra
    # container's.
    assert said(pid) == Place("", member), staged.said()
    assert resctrl.present() == sorted([pod, member])
    run(["systemctl", "stop", "both-pod.service", "member.service"])
    nothing_is_left(staged, resctrl)


USER = "user"
ROOTLESS_IMAGE = "localhost/busybox:rootless"
WITNESS = """#!/bin/sh
# $1: a folder; the rest: a hook, whose end this script's is
to=$(mktemp "$1/callXXXXXX"); shift
"$@" >"$to.said" 2>&1; status=$?
echo "$status" $(cat /proc/self/uid_map) >"$to.end"
exit $status
"""


@pytest.fixture
def folder() -> Iterator[str]:
    made = tempfile.mkdtemp(dir="/var/tmp")
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


class Rootless(Podman):
    def __init__(self, runtime: str, hooks: str, home: str, user: pwd.struct_passwd) -> None:
        super().__init__(runtime, "cgroupfs", hooks)
        environment = [f"HOME={home}", f"XDG_RUNTIME_DIR={home}/run", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"]
        identity = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--reset-env"]
        self.words = [*identity, "env", "--chdir=/", *environment, *self.words]


@pytest.fixture
def refusing(folder: str) -> Staged:
    """Return the hook, which refuses whatever it can't monitor."""
    return Staged(f"{folder}/host", runtime="podman", failurePolicy="fail")


@pytest.fixture
def rootless(runtime_name: str, refusing: Staged, folder: str, rootfs: str) -> Iterator[Rootless]:
    user, home, calls, witness = pwd.getpwnam(USER), *(f"{folder}/{name}" for name in ("home", "calls", "witness"))
    for path, mode in ((home, 0o755), (f"{home}/run", 0o700), (calls, 0o755)):
        os.mkdir(path, mode)
    archive = f"{home}/image.tar"
    run(["tar", "-C", rootfs, "-cf", archive, "."])
    for path in (home, f"{home}/run", calls, archive):
        os.chown(path, user.pw_uid, user.pw_gid)
    Path(witness).write_text(WITNESS)
    Path(witness).chmod(0o755)
    hook = {"path": witness, "args": [witness, calls, *refusing.hook["args"]], "env": ["PATH=/usr/bin:/bin"]}
    write_hook(f"{folder}/hooks.d/hook.json", hook, "createRuntime", "poststop")
    made = Rootless(runtime_name, f"{folder}/hooks.d", home, user)
    made.command("import", "--quiet", archive, ROOTLESS_IMAGE)
    yield made
    made.clean()
    made.command("system", "migrate", check=False)  # ends the process that keeps the namespace


def test_hook_ignores_rootless_containers(rootless: Rootless, folder: str, refusing: Staged, resctrl: Resctrl) -> None:
    # With a state longer than a pipe: SIGPIPE kills crun if its reader leaves it unread.
    large = f"--annotation=example={'x' * 100_000}"
    words = ["run", "--network=none", "--log-driver=k8s-file", large]
    if rootless.runtime == "crun":  # runc can't do without, and does without where it may not
        words.append("--cgroups=disabled")
    assert parse_place(rootless.command(*words, "--rm", ROOTLESS_IMAGE, *FIRST_INSTRUCTION)) == Place("", "")
    rootless.command(*words, "--detach", "--name=m", ROOTLESS_IMAGE, "/bin/sleep", "1000")
    rootless.command("rm", "--force", "--time=0", "m")
    namespace = [*("0", str(pwd.getpwnam(USER).pw_uid), "1"), *("1", "100000", "65536")]
    ends, said_by_hook = (sorted(Path(folder, "calls").glob(f"*.{ending}")) for ending in ("end", "said"))
    assert [path.read_text().split() for path in ends] == [["0", *namespace]] * 4
    assert "".join(path.read_text() for path in said_by_hook) == ""
    assert list(resctrl.groups()) == []
    assert refusing.said() == ""
    assert not os.path.exists(refusing.state)


TROUBLE = Path(__file__).parents[3] / "docs/troubleshooting.md"
PORT = 9777
STATE = "/run/resctrl-hooks"
CONFIG = "/etc/resctrl-hooks"


@pytest.fixture
def monitored(podman: Callable[..., Podman], image: str, tmp_path: Path, resctrl: Resctrl) -> Iterator[Podman]:
    """Return Podman with a container, on a node with the records where they are on a node."""
    host = Installed(str(tmp_path / "host"), stateDir=STATE)
    host.state = Path(STATE)
    os.makedirs(CONFIG, mode=0o755, exist_ok=True)
    Path(CONFIG, "config.json").write_text(host.config.read_text())
    made = podman(host.write_hooks_d())
    made.run(image, "sleep 1000", "--detach", "--name=web")
    yield made
    for folder in (STATE, CONFIG):
        subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def image_root(tmp_path: Path) -> Iterator[str]:
    """Return a replacement for the image: the guest's own disk, without its mounts."""
    root = tmp_path / "image"
    root.mkdir()
    subprocess.run(["mount", "--bind", "/", str(root)], check=True)
    yield str(root)
    subprocess.run(["umount", str(root)], check=True)


def code() -> list[str]:
    """Return the project and its packages, which a real image has inside."""
    folders = [path for path in sys.path if path.startswith(("/job", "/opt"))]
    tops = sorted({"/" + path.split("/")[1] for path in folders})
    return [*(f"--volume={top}:{top}:ro" for top in tops), f"--env=PYTHONPATH={':'.join(folders)}"]


@pytest.mark.houses("observe")
@pytest.mark.only(driver="cgroupfs", runtime_name="crun")
def test_metrics_pod_and_command_in_container_see_node(monitored: Podman, image_root: str, resctrl: Resctrl) -> None:
    key = os.path.basename(*resctrl.groups())
    entry = [sys.executable, "-m", "resctrl_hooks"]
    _, _, typed = TROUBLE.read_text().partition("podman run ")
    options = [word for word in typed.partition(" IMAGE ")[0].replace("\\\n", " ").split() if word != "--rm"]
    printed = monitored.command("run", "--rm", *options, *code(), "--rootfs", image_root, *entry, "list", "--json")
    assert {pod["key"]: pod["state"] for pod in json.loads(printed)["items"]}[key] == "assigned"
    container, paths = metrics_container()
    options = ["--detach", "--network=host", "--name=metrics", *rights(container), *mounts(container, paths), *code()]
    monitored.command("run", *options, "--rootfs", image_root, *entry, *command_of(container))

    def scrape() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError:
            assert monitored.inspect("metrics", "{{.State.Running}}") == "true", monitored.command("logs", "metrics")
            return ""

    wait_until(scrape, "metrics are served")
    text = scrape()
    assert "resctrl_scrape_ok 1" in text
    assert f'pod_uid="{key}"' in text.partition("l3_llc_occupancy_bytes{")[2]
    assert os.path.exists(f"{STATE}/totals/counters"), "totals are kept"
