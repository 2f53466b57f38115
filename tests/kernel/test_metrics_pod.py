"""The metrics DaemonSet, its container run by Podman with the rights and mounts of its manifest; the command in one."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import Podman, wait_until

FOLDER = Path(__file__).parents[2] / "contrib/daemonset"
PORT = 9777
STATE = "/run/resctrl-hooks"
CONFIG = "/etc/resctrl-hooks"
pytestmark = pytest.mark.only(driver="cgroupfs", runtime_name="crun")


@pytest.fixture
def host(tmp_path: Path, resctrl: Resctrl) -> Iterator[Installed]:
    """Return the hook with its records where they are on a node."""
    del resctrl
    found = Installed(str(tmp_path / "host"), stateDir=STATE)
    found.state = STATE
    os.makedirs(CONFIG, mode=0o755, exist_ok=True)
    Path(CONFIG, "config.json").write_text(Path(found.config).read_text())
    yield found
    for folder in (STATE, CONFIG):
        subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def engine(podman: Callable[..., Podman], image: str, host: Installed) -> Podman:
    """Return a Podman with the hook, and a container that runs."""
    made = podman(host.write_hooks_d())
    made.run(image, "sleep 1000", "--detach", "--name=web")
    return made


@pytest.fixture
def image_root(tmp_path: Path) -> Iterator[str]:
    """Return a replacement for the image: the guest's own disk, without its mounts."""
    root = tmp_path / "image"
    root.mkdir()
    subprocess.run(["mount", "--bind", "/", str(root)], check=True)
    yield str(root)
    subprocess.run(["umount", str(root)], check=True)


def spec() -> dict[str, Any]:
    manifests = yaml.safe_load_all((FOLDER / "metrics.yaml").read_text())
    (manifest,) = [one for one in manifests if one["kind"] == "DaemonSet"]
    pod: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return pod


def as_podman_has_it(pod: dict[str, Any]) -> list[str]:
    """Return the container's rights and mounts as options."""
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    options = [f"--user={context['runAsUser']}", "--security-opt=no-new-privileges"]
    options += [f"--cap-drop={name}" for name in context["capabilities"]["drop"]]
    options += ["--read-only"] * context["readOnlyRootFilesystem"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        mode = "ro" if mount.get("readOnly") else "rw"
        options.append(f"--volume={paths[mount['name']]}:{mount['mountPath']}:{mode}")
    return options


def code() -> list[str]:
    """Return the project and its packages, which a real image has inside."""
    folders = [path for path in sys.path if path.startswith(("/job", "/opt"))]
    tops = sorted({"/" + path.split("/")[1] for path in folders})
    return [*(f"--volume={top}:{top}:ro" for top in tops), f"--env=PYTHONPATH={':'.join(folders)}"]


def test_metrics_pod_serves_node_metrics(engine: Podman, image_root: str, resctrl: Resctrl) -> None:
    (group,) = resctrl.groups()
    pod = spec()
    words = [word.replace("$(POD_IP)", "127.0.0.1") for word in pod["containers"][0]["command"]]
    assert words[0] == "resctrl-hook"
    command = [sys.executable, "-m", "resctrl_hooks", *words[1:]]
    options = ["--detach", "--network=host", "--name=metrics", *as_podman_has_it(pod), *code()]
    engine.command("run", *options, "--rootfs", image_root, *command)

    def scrape() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError:
            assert engine.inspect("metrics", "{{.State.Running}}") == "true", engine.command("logs", "metrics")
            return ""

    wait_until(scrape, "metrics are served")
    text = scrape()
    assert "resctrl_scrape_ok 1" in text
    assert f'pod_uid="{os.path.basename(group)}"' in text.partition("l3_llc_occupancy_bytes{")[2]
    assert os.path.exists(f"{STATE}/totals/counters"), "totals are kept"


def test_command_in_container_sees_node(engine: Podman, image_root: str, resctrl: Resctrl) -> None:
    (group,) = resctrl.groups()
    page = (FOLDER.parents[1] / "docs/troubleshooting.md").read_text()
    _, _, typed = page.partition("podman run ")
    options = [word for word in typed.partition(" IMAGE ")[0].replace("\\\n", " ").split() if word != "--rm"]
    command = [sys.executable, "-m", "resctrl_hooks", "list", "--json"]
    printed = engine.command("run", "--rm", *options, *code(), "--rootfs", image_root, *command)
    states = {pod["key"]: pod["state"] for pod in json.loads(printed)["items"]}
    assert states[os.path.basename(group)] == "assigned"
