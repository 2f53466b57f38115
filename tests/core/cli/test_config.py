"""`config` and `edited`: what is printed of each result, as a table and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import always
from golden import Golden

from resctrl_hooks.core.cli import config as command
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config.applied import Change
from resctrl_hooks.core.config.show import Shown, YamlFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("namespaces: [shop]\nlog: {level: debug}\n")
    return path


def invoke(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--config", str(path), "config", *words])


def test_check_accepts_a_compiled_file(file: Path) -> None:
    for name in ("config.json", "config.last.json"):
        assert invoke(file, "apply").exit_code == 0
        path = file.parent / name
        assert invoke(path, "check").output == f"{path} is valid\n"
        path.write_text('{"format": 1, "managedBy": "machineconfig", "zzz": 1}')
        done = invoke(path, "check")
        assert (done.exit_code, "zzz: unknown key" in done.stderr) == (2, True)
        path.write_text("{")
        assert invoke(path, "check").exit_code == 2
        path.unlink()


def shown(**more: Any) -> Shown:
    yaml = {"path": "/c.yaml", "state": "applied", "differences": [], **more.pop("yaml", {})}
    values = {"source": "compiled", "path": "/c.json", "problem": "", "settings": {"a": 1}, "set": [], "warnings": []}
    return Shown(**{**values, **more}, yaml=YamlFile(**yaml))


def test_active_settings_are_shown(monkeypatch: pytest.MonkeyPatch, file: Path, golden: Golden) -> None:
    differs = {"state": "differs", "differences": [Change(key="a", old=1, new=2)]}
    last: dict[str, Any] = {"source": "last-valid", "problem": "damaged", "warnings": ["others may write"]}
    cases: dict[str, dict[str, Any]] = {
        "applied": {"set": ["a", "b"]},
        "damaged": {**last, "settings": {"a": "x\ny\n", "b": {"c": [1]}}, "yaml": differs},
        "never applied": {"source": "yaml", "path": "/c.yaml", "yaml": {"state": "never-applied"}},
        "of a path": {"path": "/c.yaml"},
        "defaults": {"source": "defaults", "path": "", "yaml": {"state": "missing"}},
    }
    for label, of in cases.items():
        monkeypatch.setattr(command, "show_settings", always(shown(**of)))
        golden(invoke(file, "show").output, label)
    settings = {"a": {"b": {"c": 1}, "d": {}}, "e": ["x"], "f": None}
    monkeypatch.setattr(command, "show_settings", always(shown(settings=settings)))
    lines = ["setting,value", "a.b.c,1", "a.d,{}", 'e,"[""x""]"', "f,null"]
    assert invoke(file, "show", "-o", "csv").stdout.splitlines() == lines
    (item,) = json.loads(invoke(file, "show", "-o", "json").stdout)["items"]
    assert item["settings"] == settings
