"""What `machineconfig` prints."""

from pathlib import Path
from typing import Any

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


def files_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = value["spec"]["config"]["storage"]["files"]
    return found


def laid_out_files(value: dict[str, Any]) -> dict[str, bytes]:
    return {file["path"]: unpacked(file["contents"]) for file in files_of(value)}
