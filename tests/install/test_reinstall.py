"""Another installation over an earlier one: options, settings, modules of both versions."""

import json
import os
import shutil
from pathlib import Path

import pytest

from install.staged import CONFIG, HOOKS, call, command, files, given, install, led, run, uninstall
from resctrl_hooks.install.paths import CODE, LAUNCH, PYTHON, UNITS
from resctrl_hooks.install.payload import Payload, payload
from resctrl_hooks.install.units import TIMER


def another_version(monkeypatch: pytest.MonkeyPatch, number: int = 1) -> Payload:
    """Make the package seem to be another version of itself."""
    old = payload()
    modules = old.modules | {"extra.py": f"NUMBER = {number}\n".encode()}
    new = Payload(f"0.2.{number}", f"node-{number:012x}", modules)
    monkeypatch.setattr("resctrl_hooks.install.plan.payload", lambda: new)
    return new


def test_reinstallation_keeps_first_options(tmp_path: Path) -> None:
    root, python = str(tmp_path), shutil.which("python3") or ""
    words = ["--runtime", "crio", "--root", root, "--python", python, "--no-units"]
    first = run("--config", "/etc/mine/my.yaml", "install", *words)
    assert first.exit_code == 0, first.output
    there = files(tmp_path)
    assert run("install", "--root", root).exit_code == 0
    assert files(tmp_path) == there
    assert {python, "/etc/mine/my.yaml"} <= set(command(tmp_path))
    assert run("--config", CONFIG, "install", "--root", root, "--python", PYTHON, "--units").exit_code == 0
    assert {PYTHON, led(tmp_path, CONFIG)} <= set(command(tmp_path))
    assert f"{UNITS}/{TIMER}" in files(tmp_path)


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in (root / CODE.lstrip("/")).glob("node-*"))


def test_repeated_installation_changes_nothing(tmp_path: Path) -> None:
    install(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix in (".py", ".json", ".yaml")}
    said = install(tmp_path)
    assert [line for line in said.splitlines() if line.startswith("/")] == []
    assert files(tmp_path) >= {f"/{path.relative_to(tmp_path)}" for path in before}


def test_upgrade_keeps_settings_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    hook = (tmp_path / HOOKS.lstrip("/")).read_bytes()
    yaml = tmp_path / CONFIG.lstrip("/")
    yaml.write_text("groupPrefix: mine-\n")
    compiled = yaml.with_name("config.json")
    compiled.write_text('{"format": 1, "groupPrefix": "mine-"}')
    new = another_version(monkeypatch)
    install(tmp_path)
    assert (tmp_path / HOOKS.lstrip("/")).read_bytes() == hook
    assert yaml.read_text() == "groupPrefix: mine-\n"
    assert json.loads(compiled.read_text())["groupPrefix"] == "mine-"
    assert new.folder in (tmp_path / LAUNCH.lstrip("/")).read_text()
    assert b"the container state" in call(command(tmp_path), state=b"x").stderr


def test_upgrade_keeps_registered_runtimes(tmp_path: Path) -> None:
    for name in ("crio", "podman", "containerd"):
        given(tmp_path, f"usr/bin/{name}")
    install(tmp_path, runtime="podman")
    before = files(tmp_path)
    again = run("install", "--root", str(tmp_path))
    assert "for podman;" in again.output
    assert files(tmp_path) == before
    assert "for containerd, podman;" in install(tmp_path, runtime="containerd")


def test_mount_unit_is_recognized_without_record(tmp_path: Path) -> None:
    install(tmp_path)
    shutil.rmtree(tmp_path / CODE.lstrip("/"))  # with the record in it
    assert "this host already mounts resctrl" not in install(tmp_path)
    uninstall(tmp_path)
    left = {name for name in files(tmp_path) if "resctrl" in name}
    assert {os.path.dirname(name) for name in left} == {"/etc/resctrl-hooks"}  # edits are unknown


def test_previous_modules_stay_for_one_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    first = payload().folder
    second = another_version(monkeypatch, 1).folder
    install(tmp_path)
    assert folders(tmp_path) == sorted([first, second])
    third = another_version(monkeypatch, 2).folder
    install(tmp_path)
    assert folders(tmp_path) == sorted([second, third])


def test_edited_configuration_survives_uninstall(tmp_path: Path) -> None:
    install(tmp_path)
    yaml = tmp_path / CONFIG.lstrip("/")
    yaml.write_text("groupPrefix: mine-\n")
    assert "kept" in uninstall(tmp_path)
    assert yaml.read_text() == "groupPrefix: mine-\n"


def test_configuration_that_became_invalid_is_reported(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / CONFIG.lstrip("/")).write_text("namespaces: 5\n")
    result = run("install", "--runtime", "crio", "--root", str(tmp_path))
    assert result.exit_code == 0  # the last valid settings stay active
    assert "namespaces: " in result.output
    assert "stays active" in result.output
