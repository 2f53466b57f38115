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


def contents_of(value: dict[str, Any]) -> dict[str, bytes]:
    return {file["path"]: unpacked(file["contents"]) for file in files_of(value)}


def units_of(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {unit["name"]: unit for unit in value["spec"]["config"]["systemd"]["units"]}


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
# A plain absolute path in a writable folder of CoreOS; the rest belongs to the image, or is lost at reboot.
_PATH = re.compile(r"/(etc|usr/local|var|opt)(/(?!\.\.?/)[^/]+)+")


def check_ignition(config: dict[str, Any]) -> None:
    """Check the parts of a configuration that Ignition or the machine config operator would refuse."""
    files, units = config["storage"]["files"], config["systemd"]["units"]
    parts = [("", config), *config.items(), *(("file", one) for one in files), *(("unit", one) for one in units)]
    parts += [("contents", one["contents"]) for one in files]
    assert [(name, key) for name, value in parts for key in value.keys() - _KEYS[name]] == []
    assert config["ignition"]["version"] in ("3.2.0", "3.3.0", "3.4.0", "3.5.0")
    for file in files:
        assert _PATH.fullmatch(file["path"]), file["path"]
        assert type(file["mode"]) is int
        assert 0 <= file["mode"] <= 0o777
        assert file["overwrite"] is True, "an existing file would fail the first boot"
        unpacked(file["contents"])
    for unit in units:
        assert _UNIT.fullmatch(unit["name"]), unit["name"]
        assert not unit.get("enabled") or "[Install]" in unit["contents"], unit["name"]
    for names in ([file["path"] for file in files], [unit["name"] for unit in units]):
        assert len(names) == len(set(names))
