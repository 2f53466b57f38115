"""The release command, which an uninstallation runs from the node's own code."""

from types import ModuleType
from typing import Any

import pytest
from conftest import GROUP, ID, UID, Host, always, raising
from hosts.faults import failing

from resctrl_hooks.core.node import lifecycle, main
from resctrl_hooks.core.node.errors import LockTimeoutError
from resctrl_hooks.core.node.reconcile import release
from resctrl_hooks.core.node.restored import Restored


@pytest.fixture
def counted(host: Host, pod: dict[str, Any]) -> Host:
    """Return a host with one pod in a group of ours, and a foreign group."""
    host.state = host.root / "run/resctrl-hooks"
    host.configure()
    assert host.call(pod).code == 0
    (host.resctrl / "mon_groups/foreign").mkdir()
    assert host.groups() == [GROUP, "mon_groups/foreign"]
    return host


def released(host: Host, *words: str) -> int:
    return main.main(["--config", str(host.config), "release", *words])


def test_release_removes_groups_records_and_the_state_directory(
    counted: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    assert released(counted) == 0
    assert counted.groups() == ["mon_groups/foreign"]
    assert not counted.state.exists()
    assert capsys.readouterr().out == f"released {UID}\n"
    assert released(counted) == 0, "nothing is left to do"


def test_failed_release_keeps_records(counted: Host, capsys: pytest.CaptureFixture[str]) -> None:
    with failing(lifecycle, "release_container", LockTimeoutError("the lock is held")):
        assert released(counted) == 1
    assert capsys.readouterr().err.startswith(f"cannot release {UID}: the lock is held; ")
    assert counted.groups() == [GROUP, "mon_groups/foreign"]
    assert f"containers/{ID}" in counted.records()
    assert released(counted) == 0
    assert counted.groups() == ["mon_groups/foreign"]


def test_release_with_extra_argument_does_nothing(counted: Host) -> None:
    assert released(counted, "all") == 2
    assert counted.groups() == [GROUP, "mon_groups/foreign"]


def restored_by(monkeypatch: pytest.MonkeyPatch, module: ModuleType, restore: Any) -> None:
    """Let a module know one house that changes values of the node, and restores them with this function."""
    monkeypatch.setattr(module, "changed_values", always([("guard", "the bandwidth guard", "")]))
    monkeypatch.setattr(module, "load", always(restore))


def test_values_that_cannot_be_restored_are_reported(
    counted: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    restored_by(monkeypatch, release, raising(OSError(5, "I/O error", "/x")))
    assert released(counted) == 1
    assert "cannot restore the values changed by the bandwidth guard: " in capsys.readouterr().err
    assert counted.state.exists()


def test_restored_values_are_printed(
    counted: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Restored("the guard")
    found.done.append("class bronze, domain 0: MB 90 -> 100")
    restored_by(monkeypatch, release, always(found))
    assert released(counted) == 0
    assert capsys.readouterr().out == f"restored class bronze, domain 0: MB 90 -> 100\nreleased {UID}\n"
