"""The metrics DaemonSet, its container run by Podman with the rights and mounts of its manifest; the command in one."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from core.install.daemonsets import command_of, metrics_container, mounts, rights

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import Podman, wait_until

HOUSES = ("observe",)
TROUBLE = Path(__file__).parents[3] / "docs/troubleshooting.md"
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


def code() -> list[str]:
    """Return the project and its packages, which a real image has inside."""
    folders = [path for path in sys.path if path.startswith(("/job", "/opt"))]
    tops = sorted({"/" + path.split("/")[1] for path in folders})
    return [*(f"--volume={top}:{top}:ro" for top in tops), f"--env=PYTHONPATH={':'.join(folders)}"]


def test_metrics_pod_serves_node_metrics(engine: Podman, image_root: str, resctrl: Resctrl) -> None:
    (group,) = resctrl.groups()
    container, paths = metrics_container()
    command = [sys.executable, "-m", "resctrl_hooks", *command_of(container)]
    options = ["--detach", "--network=host", "--name=metrics", *rights(container), *mounts(container, paths), *code()]
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
    _, _, typed = TROUBLE.read_text().partition("podman run ")
    options = [word for word in typed.partition(" IMAGE ")[0].replace("\\\n", " ").split() if word != "--rm"]
    command = [sys.executable, "-m", "resctrl_hooks", "list", "--json"]
    printed = engine.command("run", "--rm", *options, *code(), "--rootfs", image_root, *command)
    states = {pod["key"]: pod["state"] for pod in json.loads(printed)["items"]}
    assert states[os.path.basename(group)] == "assigned"
