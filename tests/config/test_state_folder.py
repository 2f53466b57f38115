"""A change of stateDir while containers run: old and new settings share one ledger until the next boot."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hosts.cluster import POD, Cluster, pod_number

from resctrl_hooks.cli import main
from resctrl_hooks.config.state_folder import lead_to_present
from resctrl_hooks.node.errors import LedgerError, SettingsError
from resctrl_hooks.node.host.links import is_own_link
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.reconcile.release import release_everything

if TYPE_CHECKING:
    from pathlib import Path


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


def test_release_removes_both_paths(node: Cluster, tmp_path: Path) -> None:
    node.start(1)
    new = moved(node)
    done = release_everything(node.context())
    assert (done.problems, done.keys) == ([], [POD])
    assert not os.path.lexists(new)
    assert not node.host.state.exists()


def test_link_to_the_directory_of_an_earlier_boot_is_replaced(node: Cluster) -> None:
    node.start(1)
    new = moved(node)
    release_everything(node.context())
    new.symlink_to(node.host.state)
    node.start(2)
    assert stat.S_ISDIR(os.lstat(new).st_mode)
    assert node.context().ledger.keys() == [POD]


def test_foreign_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "state"
    link.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr("resctrl_hooks.node.host.links.posix.geteuid", lambda: os.geteuid() + 1)
    assert not is_own_link(str(link))
    with pytest.raises(LedgerError) as error:
        Ledger(str(link)).lock("k", 0.0)
    assert error.value.errno == errno.EEXIST


def test_second_directory_with_records_is_refused_in_one_line(node: Cluster, tmp_path: Path) -> None:
    node.start(1)
    other = tmp_path / "other"
    (other / "pods").mkdir(parents=True)
    with pytest.raises(SettingsError) as error:
        lead_to_present(str(node.host.state), str(other))
    assert str(error.value) == (
        f"stateDir: {node.host.state} has the records of 1 pod, and {other} exists too; "
        "choose a path that does not exist"
    )


@pytest.mark.parametrize("there", ["nothing", "empty", "dangling"])
def test_apply_leads_the_new_path_to_the_present_directory(node: Cluster, tmp_path: Path, there: str) -> None:
    node.start(1)
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    new = tmp_path / "new"
    if there == "empty":
        new.mkdir()
    elif there == "dangling":
        new.symlink_to(tmp_path / "gone")
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
