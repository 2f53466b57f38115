"""`./dev` on a fresh machine: the Debian packages that it installs."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "dev"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine without the packages; its apt-get writes its arguments and fails, which ends the script."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "dev").write_text(SCRIPT.read_text().replace("/sys/fs/cgroup", str(tmp_path / "cgroup")))
    (tmp_path / "pyproject.toml").touch()
    contents = {
        "apt-get": f'case "$*" in *install*) echo "$*" >{tmp_path}/asked; exit 1 ;; esac',
        "dpkg-query": "exit 1",
        "id": "echo 0",
        "python3": "exit 0",
    }
    for name, text in contents.items():
        provide(tmp_path, name, text)
    for name in ("dirname", "cat", "cksum"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    return tmp_path


def provide(machine: Path, name: str, text: str = "") -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "versions, found, installed",
    [
        ("2", [], {"podman"}),
        ("2", ["crun"], set()),
        ("2", ["podman", "crun"], set()),
        ("1 and 2", [], {"podman", "runc"}),
        ("1 and 2", ["crun"], {"runc"}),
        ("1 and 2", ["podman", "crun"], {"runc"}),
        ("1 and 2", ["runc"], set()),
        ("1 and 2", ["podman", "runc"], set()),
    ],
)
def test_demo_installs_runtime_that_supports_cgroups(
    machine: Path, versions: str, found: list[str], installed: set[str]
) -> None:
    if versions == "2":
        (machine / "cgroup/cgroup.controllers").touch()
    for name in found:
        provide(machine, name)
    command = ["/bin/sh", str(machine / "dev"), "demo"]
    subprocess.run(command, env={"PATH": f"{machine}/bin"}, check=False, capture_output=True)
    assert set((machine / "asked").read_text().split()) & {"podman", "runc", "crun"} == installed
