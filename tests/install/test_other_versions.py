"""The installation of a later version, whose units and roles this version does not know, is replaced and removed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from install.staged import files, given, install, uninstall
from resctrl_hooks.install.paths import MANIFEST, UNITS
from resctrl_hooks.install.units import EXEC, RECONCILE, TIMER

LATER = "resctrl-hooks-later.service"
LINK = f"{UNITS}/multi-user.target.wants/{LATER}"
UNKNOWN = "/etc/later/thing.conf"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make the staged host a running one; return the calls of systemctl."""
    calls: list[str] = []

    def systemctl(*words: str) -> str:
        calls.append(" ".join(words))
        return ""

    monkeypatch.setattr("resctrl_hooks.install.systemd.runs", lambda tree: True)
    monkeypatch.setattr("resctrl_hooks.install.systemd.systemctl", systemctl)
    return calls


def later(root: Path) -> None:
    """Install this version, and add what a later one would have."""
    install(root)
    given(root, f"{UNITS}/{LATER}", "[Service]\nExecStart=/usr/bin/true\n")
    link = root / LINK.lstrip("/")
    link.symlink_to(f"{UNITS}/{LATER}")
    given(root, UNKNOWN)
    manifest = root / MANIFEST.lstrip("/")
    record = json.loads(manifest.read_text())
    record["files"] |= {f"{UNITS}/{LATER}": "unit", UNKNOWN: "role of a later version"}
    record["folders"] += ["/etc/later"]
    manifest.write_text(json.dumps(record | {"version": "9.0", "field": "of a later version"}))


@pytest.mark.parametrize("remove", [install, uninstall])
def test_unit_of_later_version_is_stopped_and_removed_with_its_link(
    tmp_path: Path, told: list[str], remove: Callable[[Path], str]
) -> None:
    later(tmp_path)
    del told[:]
    remove(tmp_path)
    assert not {f"{UNITS}/{LATER}", LINK, UNKNOWN} & files(tmp_path)
    assert {f"stop {LATER}", f"reset-failed {LATER}"} <= set(told)
    assert told[-1] == "daemon-reload"


def test_uninstall_removes_everything_of_later_version(tmp_path: Path) -> None:
    later(tmp_path)
    uninstall(tmp_path)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("remove", [install, uninstall])
def test_dangling_link_of_another_version_is_removed(tmp_path: Path, remove: Callable[[Path], str]) -> None:
    """Version 0.2.0 removes the unit of a later version and leaves the link."""
    later(tmp_path)
    (tmp_path / UNITS.lstrip("/") / LATER).unlink()
    manifest = tmp_path / MANIFEST.lstrip("/")
    record = json.loads(manifest.read_text())
    del record["files"][f"{UNITS}/{LATER}"]
    manifest.write_text(json.dumps(record))
    remove(tmp_path)
    assert LINK not in files(tmp_path)


def test_link_of_administrator_to_installed_unit_survives_upgrade(tmp_path: Path) -> None:
    install(tmp_path)
    link = tmp_path / UNITS.lstrip("/") / f"graphical.target.wants/{EXEC}"
    link.parent.mkdir()
    link.symlink_to(f"{UNITS}/{EXEC}")
    install(tmp_path)
    assert link.is_symlink()
    uninstall(tmp_path)
    assert not link.is_symlink()


def test_units_that_start_services_are_stopped_first(tmp_path: Path, told: list[str]) -> None:
    install(tmp_path)
    del told[:]
    uninstall(tmp_path)
    assert told.index(f"stop {TIMER}") < told.index(f"stop {RECONCILE}")


def test_mount_of_resctrl_is_neither_restarted_nor_stopped(tmp_path: Path, told: list[str]) -> None:
    """It contains the groups of running pods."""
    install(tmp_path)
    uninstall(tmp_path)
    assert [call for call in told if "sys-fs-resctrl.mount" in call] == ["start sys-fs-resctrl.mount"]
