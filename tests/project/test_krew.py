"""The Krew plugin of a release: its manifest, its archive, and the script's first and later runs."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from project.contributed import load

KREW = load("krew")
# Stands in for Python: its version is right, and it makes an environment whose programs say what they were asked.
PYTHON = """#!/bin/sh
echo "$*" >>"$LOG"
case $1 in
-c) exit "${OLD:-0}" ;;
-m)
    if [ "$2" = venv ]; then
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        printf '#!/bin/sh\\necho "ran $*"\\n' >"$3/bin/kubectl-resctrl"
        chmod 755 "$3/bin/kubectl-resctrl"
    else
        exit "${BROKEN:-0}"
    fi
    ;;
esac
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the script of a plugin as Krew installs it: unpacked, with a link in another folder."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    wheel = tmp_path / "resctrl_hooks-0.3.0.dev0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    archive, manifest = KREW.plugin(wheel, "0.3.0.dev0", None, tmp_path)
    again = archive.read_bytes()
    assert KREW.plugin(wheel, "0.3.0.dev0", None, tmp_path)[0].read_bytes() == again, "the same files each time"
    (platform,) = yaml.safe_load(manifest.read_text())["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(again).hexdigest()
    assert platform["uri"].endswith(f"/{archive.name}")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "store")  # our own archive
    (tmp_path / "python3").write_text(PYTHON)
    (tmp_path / "python3").chmod(0o755)
    link = tmp_path / "kubectl-resctrl"
    link.symlink_to(tmp_path / "store" / platform["bin"])
    return link


def run(script: Path, **more: str) -> tuple[int, str, str]:
    folder = script.parent
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "LOG": str(folder / "log"), **more}
    done = subprocess.run([str(script), "top", "-A"], env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_manifest_has_a_semantic_version_and_krews_form(installed: Path) -> None:
    manifest = yaml.safe_load((installed.parent / "krew-resctrl.yaml").read_text())
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert manifest["spec"]["version"] == "v0.3.0-dev.0"
    assert "@" not in (installed.parent / "krew-resctrl.yaml").read_text()
    assert len(manifest["spec"]["shortDescription"]) <= 50, "Krew's rule"


def test_first_run_installs_the_wheel_and_later_ones_do_not(installed: Path) -> None:
    assert run(installed) == (0, "ran top -A\n", "")
    log = installed.parent / "log"
    wheel = os.path.realpath(installed.parent / "store/resctrl_hooks-0.3.0.dev0-py3-none-any.whl")
    assert f"{wheel}[kubernetes]" in log.read_text()
    log.unlink()
    assert run(installed) == (0, "ran top -A\n", "")
    assert not log.exists()


def test_old_python_is_named_and_failed_installation_is_tried_again(installed: Path) -> None:
    code, out, err = run(installed, OLD="1")
    assert (code, out) == (1, "")
    assert "python3 is missing or older than 3.11" in err
    assert run(installed, BROKEN="1")[0] == 1
    assert run(installed) == (0, "ran top -A\n", "")
