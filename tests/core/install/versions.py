"""Released versions of this program from the repository's history, each run by its own code."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import pytest
from conftest import FIXTURES

from resctrl_hooks.core.install.payload import Payload, folder_name

REPOSITORY: Final = Path(__file__).parents[3]
COMMITS: Final = {"0.2.0": "f333067f", "38f7eba7": "38f7eba7", "529fc25d": "529fc25d"}
"""0.2.0 is the last commit before the exec watcher; the others are states between releases that nodes have run."""
THIS: Final = "this"
_SERVE: Final = """
import json, sys
import resctrl_hooks
print(resctrl_hooks.__path__[0], flush=True)
from click.testing import CliRunner
try:
    from resctrl_hooks.core.cli import main
except ImportError:  # before the houses
    from resctrl_hooks.cli import main
for words in sys.stdin:
    done = CliRunner().invoke(main, ["--config", sys.argv[1], *json.loads(words)])
    print(json.dumps(done.output), flush=True)
"""


@functools.cache
def _tree(commit: str) -> str:
    packed = subprocess.run(
        ["git", "archive", commit, "resctrl_hooks"], cwd=REPOSITORY, capture_output=True, check=False
    )
    if packed.returncode:
        return ""
    folder = tempfile.mkdtemp(prefix=f"resctrl-hooks-{commit}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


def tree(version: str) -> str:
    """Return the folder with a version's code; skip the test in a copy without the history (a shallow clone)."""
    if version == THIS:
        return str(REPOSITORY)
    found = _tree(COMMITS[version])
    if not found:
        pytest.skip(f"the history lacks commit {COMMITS[version]} of version {version}")
    return found


def command(version: str, *words: str) -> str:
    """Run a version's `resctrl-hook` and return its output."""
    environment = {**os.environ, "PYTHONPATH": tree(version), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "resctrl_hooks", *words], env=environment, capture_output=True, text=True, check=False,
        cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, f"{version} {words}: {done.stdout}{done.stderr}"
    return done.stdout


class Commands:
    """A process that runs commands of a version, one after the other."""

    def __init__(self, version: str, config: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(config)],
            env={"PYTHONPATH": tree(version), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",  # python -c imports from its working directory first
        )

        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{tree(version)}/resctrl_hooks\n"

    def run(self, *words: str) -> str:
        """Return a command's output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(words)}\n")
        self._process.stdin.flush()
        return str(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=300)


def version_0_2() -> Payload:
    """Return the node half of version 0.2.0, which is also there without a history."""
    with tarfile.open(FIXTURES / "node-0.2.0.tar.xz") as archive:
        modules = {item.name: archive.extractfile(item).read() for item in archive}  # type: ignore[union-attr]  # files
    return Payload("0.2.0", folder_name(modules), modules, "launch.py")
