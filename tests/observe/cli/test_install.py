"""`install`: its option of the history."""

from pathlib import Path
from typing import Any

from core.cli.test_setup_commands import installed, planned

__all__ = ("planned",)


def test_history_is_as_configured_or_by_its_option(planned: dict[str, Any], tmp_path: Path) -> None:
    for words, history in (((), None), (("--history",), True), (("--no-history",), False)):
        assert installed("--root", str(tmp_path), "--runtime", "crio", *words).exit_code == 0
        assert planned["sections"]["history"] is history
