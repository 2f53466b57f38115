"""What `machineconfig` prints."""

import base64
import gzip
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from resctrl_hooks.core.cli import main

SOURCE = "data:;base64,"


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


def unpacked(value: dict[str, str]) -> bytes:
    """Return the content of a file of an Ignition configuration.

    Raises:
        ValueError: the encoding is another one.
    """
    head, found, packed = value.get("source", "").partition(SOURCE)
    if head or not found or value.get("compression", "gzip") != "gzip":
        raise ValueError("not inline content, plain or gzip-compressed")
    try:
        data = base64.b64decode(packed, validate=True)
        return gzip.decompress(data) if "compression" in value else data
    except (OSError, EOFError) as error:
        raise ValueError(str(error)) from error
