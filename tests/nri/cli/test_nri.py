"""`nri`: its options, and the configuration that a runtime sends."""

from typing import Any

import pytest
from core.cli.test_commands import invoke

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.nri.cli import nri as nri_module


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
