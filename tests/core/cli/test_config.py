"""`config` and `edited`: what is printed of each result, as a table and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import always

from resctrl_hooks.core.cli import config as command
from resctrl_hooks.core.cli import edited, main
from resctrl_hooks.core.cli.errors import FailedError
from resctrl_hooks.core.config.applied import Change
from resctrl_hooks.core.config.show import Shown, YamlFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("namespaces: [shop]\nlog: {level: debug}\n")
    return path


def invoke(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--config", str(path), "config", *words])


def test_check_has_the_result_as_words_and_status(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(file, "check")
    assert (done.exit_code, done.output) == (0, f"{file} is valid\n")
    found = json.loads(invoke(file, "check", "-o", "json").stdout)
    assert (found["valid"], found["file"], found["items"]) == (True, str(file), [])
    file.write_text("namespaces: 5\n")
    done = invoke(file, "check")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    done = invoke(file, "check", "-o", "json")
    (problem,) = json.loads(done.stdout)["items"]
    assert (done.exit_code, problem["line"], problem["severity"]) == (2, 1, "error")
    missing = file.parent / "none.yaml"
    assert invoke(missing, "check").exit_code == 2
    monkeypatch.setattr(command, "DEFAULT_CONFIG", str(missing))
    done = invoke(missing, "check")
    assert (done.exit_code, done.stdout) == (0, "nothing to check\n")
    assert "the built-in defaults apply" in done.stderr


def test_check_of_a_missing_file_names_the_active_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke(file, "apply").exit_code == 0
    file.unlink()
    monkeypatch.setattr(command, "DEFAULT_CONFIG", str(file))
    done = invoke(file, "check")
    assert (done.exit_code, done.stdout) == (0, "nothing to check\n")
    assert f"the file does not exist; {file.parent}/config.json is active" in done.stderr


@pytest.mark.parametrize("name", ["config.json", "config.last.json"])
def test_check_accepts_a_compiled_file(file: Path, name: str) -> None:
    assert invoke(file, "apply").exit_code == 0
    path = file.parent / name
    assert invoke(path, "check").output == f"{path} is valid\n"
    path.write_text('{"format": 1, "managedBy": "machineconfig", "zzz": 1}')
    done = invoke(path, "check")
    assert (done.exit_code, "zzz: unknown key" in done.stderr) == (2, True)
    path.write_text("{")
    assert invoke(path, "check").exit_code == 2


def test_check_reports_what_others_may_write(file: Path) -> None:
    assert invoke(file, "apply").exit_code == 0
    assert invoke(file, "check").stderr == ""
    (file.parent / "config.json").chmod(0o666)
    assert "config.json" in invoke(file, "check").stderr


def test_apply_says_what_changes(file: Path) -> None:
    dry = invoke(file, "apply", "--dry-run")
    assert dry.exit_code == 0, dry.output
    *changes, last = dry.stdout.splitlines()
    assert last == "2 settings would change; nothing written"
    assert len(changes) == 2
    assert all(line.startswith("  ") for line in changes)
    assert not (file.parent / "config.json").exists()
    found = json.loads(invoke(file, "apply", "--dry-run", "-o", "json").stdout)
    assert (found["applied"], len(found["items"]), found["problems"]) == (False, 2, [])
    assert invoke(file, "apply", "-o", "csv").stdout.splitlines()[0].startswith("key,")
    active = file.parent / "config.json"
    assert invoke(file, "apply").stdout == f"{active} is active; nothing changed\n"
    assert invoke(file, "apply", "--dry-run").stdout == "nothing would change\n"
    file.write_text("namespaces: [shop]\n")
    assert invoke(file, "apply").stdout.splitlines()[-1] == f"{active} is active; 1 setting changed"


def test_apply_if_newer_does_nothing_with_an_applied_file(file: Path) -> None:
    assert "2 settings changed" in invoke(file, "apply", "--if-newer").stdout
    assert invoke(file, "apply", "--if-newer").output == ""
    found = json.loads(invoke(file, "apply", "--if-newer", "-o", "json").stdout)
    assert (found["applied"], found["items"], found["file"]) == (False, [], str(file))


def test_invalid_file_is_not_applied(file: Path) -> None:
    file.write_text("namespaces: 5\n")
    done = invoke(file, "apply")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "not applied; the previous configuration stays active" in done.stderr
    assert "error: " in done.stderr
    done = invoke(file, "apply", "-o", "json")
    assert (done.exit_code, len(json.loads(done.stdout)["problems"])) == (2, 1)
    file.write_text("namespaces: [shop]\n")
    (file.parent / "config.json").mkdir()
    done = invoke(file, "apply")
    assert (done.exit_code, "not applied: " in done.stderr) == (1, True)


def shown(**more: Any) -> Shown:
    yaml = {"path": "/c.yaml", "state": "applied", "differences": [], **more.pop("yaml", {})}
    values = {"source": "compiled", "path": "/c.json", "problem": "", "settings": {"a": 1}, "set": [], "warnings": []}
    return Shown(**{**values, **more}, yaml=YamlFile(**yaml))


@pytest.mark.parametrize(
    "of, lines",
    [
        (
            {"set": ["a", "b"]},
            [
                "# active, from /c.json",
                "a: 1",
                "# Set, not default: a, b",
                "# /c.yaml matches the active configuration.",
            ],
        ),
        (
            {
                "source": "last-valid",
                "problem": "damaged",
                "warnings": ["others may write"],
                "settings": {"a": "x\ny\n", "b": {"c": [1]}},
                "yaml": {"state": "differs", "differences": [Change(key="a", old=1, new=2)]},
            },
            [
                "# last valid configuration, from /c.json",
                "# damaged",
                "# others may write",
                *("a: |", "  x", "  y", "b:", "  c:", "  - 1"),
                "# Set, not default: nothing",
                "# /c.yaml differs; activate it with `resctrl-hook --config /c.yaml config apply`:",
                f"#   {Change(key='a', old=1, new=2)}",
            ],
        ),
        (
            {"source": "yaml", "path": "/c.yaml", "yaml": {"state": "never-applied"}},
            [
                "# from /c.yaml",
                "a: 1",
                "# Set, not default: nothing",
                "# What `resctrl-hook --config /c.yaml config apply` would change:",
            ],
        ),
        (
            {"path": "/c.yaml"},
            ["# active, from /c.yaml", "a: 1", "# Set, not default: nothing"],
        ),
        (
            {"source": "defaults", "path": "", "yaml": {"state": "missing"}},
            ["# the built-in defaults", "a: 1", "# Set, not default: nothing", "# /c.yaml does not exist."],
        ),
    ],
)
def test_active_settings_are_shown(
    monkeypatch: pytest.MonkeyPatch, file: Path, of: dict[str, Any], lines: list[str]
) -> None:
    monkeypatch.setattr(command, "show_settings", always(shown(**of)))
    assert invoke(file, "show").stdout.splitlines() == lines


def test_active_settings_for_programs_are_flat_in_csv(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    settings = {"a": {"b": {"c": 1}, "d": {}}, "e": ["x"], "f": None}
    monkeypatch.setattr(command, "show_settings", always(shown(settings=settings)))
    assert invoke(file, "show", "-o", "csv").stdout.splitlines() == [
        "setting,value",
        "a.b.c,1",
        "a.d,{}",
        'e,"[""x""]"',
        "f,null",
    ]
    (item,) = json.loads(invoke(file, "show", "-o", "json").stdout)["items"]
    assert item["settings"] == settings


def test_schema_is_json(file: Path) -> None:
    text = invoke(file, "schema").stdout
    assert text.startswith('{\n  "')
    assert "properties" in json.loads(text)


def test_edited_configuration_is_compiled_in_a_temporary_folder(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with edited.as_edited(str(file), "and is used") as path:
        assert path != str(file)
        assert json.loads(Path(path).read_text())["namespaces"] == ["shop"]
    assert not Path(path).exists()
    assert f"{file} is not applied and is used" in capfd.readouterr().err
    assert invoke(file, "apply").exit_code == 0
    with edited.as_edited(str(file), "and is used") as path:
        assert path == str(file)
    assert capfd.readouterr().err == ""
    file.write_text("namespaces: 5\n")
    with pytest.raises(FailedError, match="is invalid; correct it") as caught, edited.as_edited(str(file), ""):
        pytest.fail("was entered")
    assert caught.value.exit_code == 2
    assert "error: " in capfd.readouterr().err
