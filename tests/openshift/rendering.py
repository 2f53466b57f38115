"""What `machineconfig` prints."""

import copy
import functools
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
