"""`nri`: its options, and the configuration that a runtime sends."""

from pathlib import Path
from typing import Any

import pytest
from conftest import always
from core.cli.test_commands import invoke
from core.cli.test_setup_commands import installed, manifest, planned

from resctrl_hooks.core.cli import install
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.install.roles import UNIT
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.nri.cli import nri as nri_module
from resctrl_hooks.nri.install.nri import NRI


@pytest.mark.parametrize(
    "words, arguments",
    [
        ([], ["--socket", "/var/run/nri/nri.sock", "-name", "resctrl-hooks", "-idx", "90"]),
        (
            ["--socket", "/s", "-name", "n", "-idx", "05", "-v", "-cgroups-dir", "/c", "-run-dir", "/r"],
            ["--socket", "/s", "-name", "n", "-idx", "05", "-v", "-cgroups-dir", "/c", "-run-dir", "/r"],
        ),
    ],
)
def test_nri_gets_its_options(monkeypatch: pytest.MonkeyPatch, words: list[str], arguments: list[str]) -> None:
    given: list[Any] = []

    def plugin(*all_: Any) -> int:
        given[:] = all_
        return 7

    monkeypatch.setattr(nri_module, "nri_command", plugin)
    assert invoke("--config", "/a.yaml", "nri", *words).exit_code == 7
    assert given[0] == "/a.yaml"
    if words:
        assert given[1] == arguments
    else:
        assert [given[1][place] for place in (0, 2, 4)] == ["--socket", "-name", "-idx"]
    assert invoke("--config", "/a.yaml", "nri", "-config", "/own.yaml").exit_code == 7
    assert given[0] == "/own.yaml"


def test_yaml_from_the_runtime_is_compiled() -> None:
    assert nri_module._compiled("namespaces: [shop]\n")["namespaces"] == ["shop"]
    wrong = "".join(f"wrong{number}: 1\n" for number in range(5))
    with pytest.raises(SettingsError) as caught:
        nri_module._compiled(wrong)
    assert [f"wrong{number}" in str(caught.value) for number in range(5)] == [True] * 3 + [False] * 2


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
