"""What `machineconfig` prints."""

import copy
import functools
import re
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner
from hosts.ignition import unpacked

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.parts import parts

CHOICES = [part.name for part in parts() if part.delivered]
"""The houses with a switch."""


def rendered(*words: str, config: Path | None = None) -> str:
    before = ["--config", str(config)] if config else []
    result = CliRunner().invoke(main, [*before, "machineconfig", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def parsed(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


@functools.cache
def text_of(*words: str) -> str:
    """Return the same as `rendered`, once for all tests."""
    return rendered(*words)


@functools.cache
def _value_of(*words: str) -> Any:
    return parsed(text_of(*words))


def value_of(*words: str) -> dict[str, Any]:
    value: dict[str, Any] = copy.deepcopy(_value_of(*words))
    return value


def files_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = value["spec"]["config"]["storage"]["files"]
    return found


def units_of(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {unit["name"]: unit for unit in value["spec"]["config"]["systemd"]["units"]}


def laid_out_files(value: dict[str, Any]) -> dict[str, bytes]:
    return {file["path"]: unpacked(file["contents"]) for file in files_of(value)}


# Rules for an Ignition configuration that Ignition's schema does not cover


_VERSIONS = ("3.2.0", "3.3.0", "3.4.0", "3.5.0")
_LARGEST_MODE = 0o777
_KEYS = {
    "": {"ignition", "storage", "systemd"},
    "ignition": {"version"},
    "storage": {"files"},
    "systemd": {"units"},
    "file": {"path", "mode", "overwrite", "contents"},
    "contents": {"source", "compression"},
    "unit": {"name", "enabled", "contents"},
}
_UNIT = re.compile(r"[A-Za-z0-9:_.@-]+\.(service|mount|timer|path)")
# The writable folders of CoreOS; the rest belongs to the image, or is lost at reboot.
_WRITABLE = ("/etc/", "/usr/local/", "/var/", "/opt/")


def ignition_problems(config: dict[str, Any]) -> list[str]:
    """Return the parts of a configuration that Ignition or the machine config operator would refuse."""
    found = _unknown(config, "")
    for section in ("ignition", "storage", "systemd"):
        found += _unknown(config.get(section, {}), section)
    version = config.get("ignition", {}).get("version")
    if version not in _VERSIONS:
        found.append(f"Ignition version {version} is not supported (supported: {', '.join(_VERSIONS)})")
    files = config.get("storage", {}).get("files", [])
    units = config.get("systemd", {}).get("units", [])
    for file in files:
        found += [f"{file.get('path')}: {problem}" for problem in _file_problems(file)]
    for unit in units:
        found += [f"{unit.get('name')}: {problem}" for problem in _unit_problems(unit)]
    for names, what in (([file.get("path") for file in files], "file"), ([unit.get("name") for unit in units], "unit")):
        found += [f"{what} duplicate key {name}" for name in sorted({str(n) for n in names if names.count(n) > 1})]
    return found


def _file_problems(file: dict[str, Any]) -> list[str]:
    found = _unknown(file, "file") + _unknown(file.get("contents", {}), "contents")
    path, mode = file.get("path", ""), file.get("mode")
    if not path.startswith("/") or "//" in path or "/../" in path or path.endswith("/"):
        found.append("not a plain absolute path")
    elif not path.startswith(_WRITABLE):
        found.append("not writable on CoreOS")
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= _LARGEST_MODE:
        found.append("the mode must be a number from 0 to 0777 (511)")
    if file.get("overwrite") is not True:
        found.append("an existing file would fail the first boot without overwrite")
    try:
        unpacked(file.get("contents", {}))
    except ValueError as error:
        found.append(str(error))
    return found


def _unit_problems(unit: dict[str, Any]) -> list[str]:
    found = _unknown(unit, "unit")
    if not _UNIT.fullmatch(unit.get("name", "")):
        found.append("not a unit name")
    text = unit.get("contents", "")
    if unit.get("enabled") and "[Install]" not in text:
        found.append("cannot be enabled: no [Install] section")
    return found


def _unknown(value: dict[str, Any], where: str) -> list[str]:
    return [f"unknown key {key}{f' in {where}' if where else ''}" for key in value if key not in _KEYS[where]]
