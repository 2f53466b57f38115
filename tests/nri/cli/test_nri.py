"""`nri`: its options, and the configuration that a runtime sends."""

from typing import Any

import pytest
from core.cli.test_commands import invoke

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.nri.cli import nri as nri_module


def test_nri_gets_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def plugin(*all_: Any) -> int:
        given.append(all_)
        return 7

    monkeypatch.setattr(nri_module, "nri_command", plugin)
    words = ["--socket", "/s", "-name", "n", "-idx", "05", "-v", "-cgroups-dir", "/c", "-run-dir", "/r"]
    for more in ([], words, ["-config", "/own.yaml"]):
        assert invoke("--config", "/a.yaml", "nri", *more).exit_code == 7
    assert [config for config, *_ in given] == ["/a.yaml", "/a.yaml", "/own.yaml"]
    assert [given[0][1][place] for place in (0, 2, 4)] == ["--socket", "-name", "-idx"]
    assert given[1][1] == words


def test_yaml_from_the_runtime_is_compiled() -> None:
    assert nri_module._compiled("namespaces: [shop]\n")["namespaces"] == ["shop"]
    wrong = "".join(f"wrong{number}: 1\n" for number in range(5))
    with pytest.raises(SettingsError) as caught:
        nri_module._compiled(wrong)
    assert [f"wrong{number}" in str(caught.value) for number in range(5)] == [True] * 3 + [False] * 2
