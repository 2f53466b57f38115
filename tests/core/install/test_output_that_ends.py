"""An output that takes no more lines leaves no installation or removal half done."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from core.install.staged import files, install
from resctrl_hooks.core.install.paths import CODE, MANIFEST


def _call(target: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = shlex.join([sys.executable, "-m", "resctrl_hooks", *words])
    shell = f"{command} {target}"
    return subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["| true", ">/dev/full"])
def test_installation_whose_output_fails_is_complete(tmp_path: Path, target: str) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    install(whole, "-v")
    cut.mkdir()
    done = _call(target, "install", "--runtime", "crio", "-v", "--root", str(cut))
    assert "fix it" not in done.stderr
    assert set(files(cut)) == set(files(whole))
    assert (cut / MANIFEST.lstrip("/")).exists()


@pytest.mark.parametrize("target", ["| true", ">/dev/full"])
def test_removal_whose_output_fails_is_complete(tmp_path: Path, target: str) -> None:
    install(tmp_path)
    done = _call(target, "uninstall", "--root", str(tmp_path))
    assert "fix it" not in done.stderr
    assert not os.path.lexists(f"{tmp_path}{CODE}")


def test_dry_run_into_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    install(tmp_path)
    done = _call("| true", "uninstall", "--dry-run", "--root", str(tmp_path))
    assert done.stderr == ""
