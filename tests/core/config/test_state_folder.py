"""A change of stateDir while containers run: old and new settings share one ledger until the next boot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hosts.cluster import POD, Cluster, pod_number

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config.state_folder import lead_to_present
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.release import release_everything

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)


@pytest.fixture
def node(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def moved(node: Cluster) -> Path:
    """Change the state directory as `config apply` does; return the new path."""
    new = node.host.state.parent / "resctrl-hooks-new"
    lead_to_present(str(node.host.state), str(new))
    node.configure(stateDir=str(new))
    return new


def test_changed_state_directory_keeps_records_for_old_and_new_settings(node: Cluster) -> None:
    first = node.start(1)
    old = node.context()
    new = moved(node)
    assert node.context().ledger.folder == str(new)
    second = node.start(2)
    assert node.groups_of(second[1]) == node.groups_of(first[1]) == {("", POD)}
    with node.context().monitor.hold(POD), pytest.raises(Exception, match="held"):
        old.monitor.hold(POD, 0.0)
    assert old.ledger.members(POD) == node.context().ledger.members(POD)
    assert node.reconcile().ok
    third = node.start(3, pod_number(3))
    for one, pod in ((first, ""), (second, POD), (third, pod_number(3))):
        node.end(*one, pod)
    node.reconcile()
    assert node.kernel.groups() == set()
    assert Ledger(str(node.host.state)).keys() == []
    assert not release_everything(node.context()).problems
    assert not os.path.lexists(new)
    assert not node.host.state.exists()


def test_link_that_is_not_recorded_is_refused(node: Cluster, tmp_path: Path) -> None:
    node.start(1)
    moved(node)
    link = tmp_path / "link"
    link.symlink_to(node.host.state)
    with pytest.raises(FileExistsError):
        Ledger(str(link)).prepare()
    Ledger(str(node.context().ledger.folder)).prepare()


@pytest.mark.parametrize(
    "new, why",
    [("{}/other", "exists, too; choose a new path on the same"), ("/proc/x/y", "is on another file system; ")],
)
def test_directory_that_cannot_keep_the_records_is_refused_in_one_line(node: Cluster, new: str, why: str) -> None:
    node.start(1)
    (node.root / "other/pods").mkdir(parents=True)
    path = new.format(node.root)
    with pytest.raises(SettingsError, match=f"{node.host.state} has the records of 1 pod, and {path} {why}") as error:
        lead_to_present(str(node.host.state), path)
    assert "\n" not in str(error.value)


def test_directory_without_pods_is_left_behind_if_it_cannot_be_kept(node: Cluster) -> None:
    node.end(*node.start(1), POD)
    node.reconcile()
    lead_to_present(str(node.host.state), "/proc/x/y")
    lead_to_present(str(node.root / "never-used"), "/proc/x/y")


@pytest.mark.parametrize("there", ["nothing", "empty"])
def test_apply_leads_the_new_path_to_the_present_directory(node: Cluster, tmp_path: Path, there: str) -> None:
    node.start(1)
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    new = tmp_path / "new"
    if there == "empty":
        new.mkdir()
    config = folder / "config.yaml"
    for path in (node.host.state, new):
        config.write_text(f"stateDir: {path}\n")
        config.chmod(0o644)
        dry = CliRunner().invoke(main, ["--config", str(config), "config", "apply", "--dry-run"])
        assert dry.exit_code == 0
        result = CliRunner().invoke(main, ["--config", str(config), "config", "apply"])
        assert result.exit_code == 0, result.output
    assert new.resolve() == node.host.state
    config.write_text(f"stateDir: {node.host.state}\n")
    assert CliRunner().invoke(main, ["--config", str(config), "config", "apply"]).exit_code == 0
    assert Ledger(str(node.host.state)).keys() == [POD]
