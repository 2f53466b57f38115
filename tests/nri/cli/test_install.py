"""`install`: the switch that chooses the plugin."""

from pathlib import Path
from typing import Any

import pytest
from conftest import always
from core.cli.test_setup_commands import installed, manifest, planned

from resctrl_hooks.core.cli import install
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.install.roles import UNIT
from resctrl_hooks.nri.install.nri import NRI

__all__ = ("planned",)


@pytest.mark.parametrize("files", [(), (f"{UNITS}/{NRI}",)])
def test_plugin_is_chosen_by_its_switch_and_the_earlier_choice(
    planned: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: tuple[str, ...]
) -> None:
    before = manifest(*files, roles=(UNIT,) * len(files))
    before.runtimes[:] = ["podman"]
    monkeypatch.setattr(install, "read_manifest", always(before))
    for words, chosen in (((), ["nri"] if files else []), (("--nri",), ["nri"]), (("--no-nri",), [])):
        assert installed("--root", str(tmp_path), *words).exit_code == 0
        assert planned["chosen"] == chosen
    before.runtime_files["podman"] = [f"{UNITS}/{NRI}"]
    assert installed("--root", str(tmp_path)).exit_code == 0
    assert planned["chosen"] == []
