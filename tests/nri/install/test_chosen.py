"""An installation without units keeps the plugin's code for a plugin that is started by hand."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.paths import MANIFEST
from resctrl_hooks.core.node.names import STATE_DIR
from resctrl_hooks.nri.node.status import Status


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "usr/bin").mkdir(parents=True)
    return tmp_path


def install(root: Path, *words: str) -> bool:
    """Install; return whether the node has the plugin's code."""
    done = CliRunner().invoke(main, ["install", "--root", str(root), *words])
    assert done.exit_code == 0, done.output
    return "nri" in json.loads((root / MANIFEST[1:]).read_text())["houses"]


def installed_by_earlier_version(root: Path) -> None:
    record = root / MANIFEST[1:]
    values = json.loads(record.read_text())
    del values["houses"]
    record.write_text(json.dumps(values))


def has_run(root: Path) -> None:
    state = root / STATE_DIR[1:]
    state.mkdir(parents=True)
    Status(str(state), "/run/nri.sock").write()


@pytest.mark.ci
def test_plugin_that_was_chosen_without_units_stays(root: Path) -> None:
    assert install(root, "--runtime", "crio", "--no-units", "--nri")
    assert install(root)
    assert not install(root, "--no-nri")
    assert not install(root)


@pytest.mark.parametrize("runs", [pytest.param(False, marks=pytest.mark.ci), True])
def test_plugin_that_ran_by_hand_stays_after_an_upgrade(root: Path, runs: bool) -> None:
    assert not install(root, "--runtime", "crio", "--no-units")
    installed_by_earlier_version(root)
    if runs:
        has_run(root)
    assert install(root) is runs
