"""`machineconfig` with stand-ins for the called parts."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import always

from openshift.rendering import CHOICES
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.paths import PYTHON
from resctrl_hooks.openshift.cli import machineconfig as machineconfig_module


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    given: dict[str, Any] = {}

    def delivery(settings: bytes, **options: Any) -> str:
        given.update(options, settings=settings)
        return "content"

    entry = SimpleNamespace(mode=0o755, size=12, sha256="ab", path="/f")
    monkeypatch.setattr(machineconfig_module, "delivery", delivery)
    monkeypatch.setattr(machineconfig_module, "entries", always([entry]))
    monkeypatch.setattr(machineconfig_module, "machine_config", lambda *all_: {"machine": [*map(str, all_)]})
    monkeypatch.setattr(machineconfig_module, "butane", lambda *all_: {"butane": [*map(str, all_)]})
    monkeypatch.setattr(machineconfig_module, "machine_config_problems", always([]))
    return given


def test_machineconfig_is_rendered_with_its_options(delivered: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(main, ["machineconfig"])
    assert done.exit_code == 0, done.output
    assert "machine:" in done.stdout
    defaults = {"mount": True, "mount_options": "", "python": PYTHON, "chosen": [], "archive": True}
    assert delivered == {**defaults, "settings": b'{"format": 1, "managedBy": "machineconfig"}\n'}
    words = [
        "--no-mount",
        "--mount-options",
        "cdp",
        "--python",
        "/p",
        *(f"--{name}" for name in CHOICES),
        "--butane",
        "--kernel-argument",
        "rdt=cmt",
    ]
    done = CliRunner().invoke(main, ["machineconfig", "--role", "infra", *words])
    assert "butane:" in done.stdout
    assert "infra" in done.stdout
    assert "rdt=cmt" in done.stdout
    given = [delivered[name] for name in ("mount", "mount_options", "python", "chosen", "archive")]
    assert given == [False, "cdp", "/p", CHOICES, False]
    assert CliRunner().invoke(main, ["machineconfig", "--list"]).stdout == "0755      12 ab /f\n"
    monkeypatch.setattr(machineconfig_module, "machine_config_problems", always(["too large", "no"]))
    done = CliRunner().invoke(main, ["machineconfig"])
    assert (done.exit_code, done.stdout, "too large; no" in done.stderr) == (2, "", True)


def test_machineconfig_refuses_wrong_options(delivered: dict[str, Any], tmp_path: Path) -> None:
    for words, text in ((["--role", "a b"], "a b"), (["--python", "python3"], "--python must be an absolute path")):
        done = CliRunner().invoke(main, ["machineconfig", *words])
        assert (done.exit_code, text in done.stderr) == (2, True)
    assert "nodeDisruptionPolicy" in CliRunner().invoke(main, ["machineconfig", "--policy"]).stdout
    path = tmp_path / "c.yaml"
    path.write_text("namespaces: 5\n")
    done = CliRunner().invoke(main, ["--config", str(path), "machineconfig"])
    assert (done.exit_code, done.stderr.count(str(path))) == (2, 2), "the problem and the result"
    assert f"{path} is invalid; not rendered" in done.stderr
    path.write_text("namespaces: [shop]\n")
    assert CliRunner().invoke(main, ["--config", str(path), "machineconfig"]).exit_code == 0
    assert json.loads(delivered["settings"])["namespaces"] == ["shop"]
