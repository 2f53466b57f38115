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
from resctrl_hooks.core.node.settings import DEFAULTS

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)


@pytest.fixture
def node(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_changed_state_directory_keeps_records_for_old_and_new_settings(node: Cluster) -> None:
    first = node.start(1)
    old = node.context()
    new = node.host.state.parent / "resctrl-hooks-new"
    lead_to_present(str(node.host.state), str(new))
    node.configure(stateDir=str(new))
    assert node.context().ledger.folder == str(new)
    second = node.start(2)
    assert node.groups_of(second[1]) == node.groups_of(first[1]) == {("", POD)}
    with node.context().monitor.hold(POD), pytest.raises(Exception, match="held"):
        old.monitor.hold(POD, 0.0)
    assert old.ledger.members(POD) == node.context().ledger.members(POD)
    Ledger(str(new)).prepare()
    link = node.root / "link"
    link.symlink_to(node.host.state)
    with pytest.raises(FileExistsError):  # it is not recorded
        Ledger(str(link)).prepare()
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


def test_directory_that_cannot_be_kept_is_refused_in_one_line_while_it_has_pods(node: Cluster) -> None:
    started = node.start(1)
    (node.root / "other/pods").mkdir(parents=True)
    for path, why in (
        (f"{node.root}/other", "exists, too; choose a new path on the same"),
        ("/proc/x/y", "is on another file system; "),
    ):
        wanted = f"{node.host.state} has the records of 1 pod, and {path} {why}"
        with pytest.raises(SettingsError, match=wanted) as error:
            lead_to_present(str(node.host.state), path)
        assert "\n" not in str(error.value)
    node.end(*started, POD)
    node.reconcile()
    lead_to_present(str(node.host.state), "/proc/x/y")
    lead_to_present(str(node.root / "never-used"), "/proc/x/y")


@pytest.mark.parametrize("there", ["nothing", "empty"])
def test_apply_leads_the_new_path_to_the_present_directory_of_the_same_file(
    node: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    def apply(path: Path, *words: str) -> None:
        config.write_text(f"stateDir: {path}\n")
        config.chmod(0o644)
        done = CliRunner().invoke(main, ["--config", str(config), "config", "apply", *words])
        assert done.exit_code == 0, done.output

    node.start(1)
    config, new = tmp_path / "etc/config.yaml", tmp_path / "new"
    config.parent.mkdir(mode=0o755)
    if there == "empty":
        new.mkdir()
    monkeypatch.setitem(DEFAULTS, "stateDir", str(node.host.state))
    apply(tmp_path / "first")
    assert not os.path.lexists(tmp_path / "first"), "these records belong to the default file"
    for path in (node.host.state, new):
        apply(path, "--dry-run")
        apply(path)
    assert new.resolve() == node.host.state
    apply(node.host.state)
    assert Ledger(str(node.host.state)).keys() == [POD]
