"""Application of a configuration, and the active configuration."""

from __future__ import annotations

import json
import os
import posix
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result
from hosts.commands import here

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.cli import node as cli_node
from resctrl_hooks.core.config import effective, effective_settings, find_effective
from resctrl_hooks.core.config.applied import Change, apply_file, apply_if_newer, changes_between, compile_file
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.node import settings as node_settings
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.host.files import stamp
from resctrl_hooks.core.node.settings import is_unapplied, load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Host
    from hosts.faults import Fail


@pytest.fixture
def config(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "config.yaml"
    path.write_text("namespaces: [shop]\nmonitoring: {release: last-container}\n")
    path.chmod(0o644)
    return path


def call(config: Path, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["--config", str(config), *arguments], input=stdin)


def test_apply_activates_settings_for_hooks(config: Path) -> None:
    os.umask(0)
    try:
        result = call(config, "config", "apply")
    finally:
        os.umask(0o022)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        '  monitoring.release: "pod" -> "last-container"',
        '  namespaces: (none) -> ["shop"]',
        f"{config.parent}/config.json is active; 2 settings changed",
    ]
    assert sorted(os.listdir(config.parent)) == ["config.json", "config.last.json", "config.yaml"]
    for name in ("config.json", "config.last.json"):
        path = config.parent / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert json.loads(path.read_text()) == {
            "format": 1, "appliedFrom": str(stamp(str(config))),
            "namespaces": ["shop"], "monitoring": {"release": "last-container"},
        }  # fmt: skip
    settings, problem = load(str(config))
    assert (settings.namespaces, settings.monitoring["release"], problem) == (["shop"], "last-container", "")


def test_apply_prints_changes(config: Path) -> None:
    apply_file(str(config))
    assert apply_file(str(config)).changes == []
    config.write_text("namespaces: [shop, lab]\n")
    assert apply_file(str(config), dry_run=True).changes == apply_file(str(config)).changes == [
        Change("namespaces", ["shop"], ["shop", "lab"]),
        Change("monitoring.release", "last-container", "pod"),
    ]  # fmt: skip
    said = json.loads(call(config, "config", "apply", "--json").stdout)
    assert (said["applied"], said["items"]) == (True, [])


@pytest.mark.parametrize("wrong", ["zzz: 1", "a: [", "- a", "monitoring: {release: never}"])
def test_invalid_file_never_replaces_active_settings(config: Path, wrong: str) -> None:
    apply_file(str(config))
    before = {path.name: path.read_bytes() for path in config.parent.glob("*.json")}
    config.write_text(wrong)
    result = call(config, "config", "apply")
    assert result.exit_code == 2
    assert f"error: {config}:1: " in result.stderr
    assert {path.name: path.read_bytes() for path in config.parent.glob("*.json")} == before
    assert json.loads(call(config, "config", "apply", "--json").stdout)["applied"] is False


def test_file_writable_by_others_is_not_applied(config: Path) -> None:
    config.chmod(0o666)
    result = call(config, "config", "apply")
    assert result.exit_code == 2
    assert "is writable by users other than its owner" in result.stderr
    assert not (config.parent / "config.json").exists()
    with pytest.raises(SettingsError, match="is writable by users other than its owner"):
        find_effective(str(config))


def test_failing_disk_keeps_previous_settings(config: Path, fail: Fail) -> None:
    apply_file(str(config))
    before = (config.parent / "config.json").read_bytes()
    config.write_text("namespaces: [other]\n")
    fail(posix, "fsync", OSError(28, "No space left on device"))
    result = call(config, "config", "apply")
    assert result.exit_code == 1
    assert "No space left on device; the previous configuration stays active" in result.stderr
    assert (config.parent / "config.json").read_bytes() == before
    assert sorted(os.listdir(config.parent)) == ["config.json", "config.last.json", "config.yaml"]


def test_file_of_machine_config_is_not_rewritten(config: Path) -> None:
    target = config.parent / "config.json"
    target.write_bytes(compile_file(str(config), managed_by="a MachineConfig"))
    config.write_text("namespaces: [other]\n")
    os.utime(target, (1, 1))
    before = target.read_bytes()
    result = call(config, "config", "apply")
    assert result.exit_code == 1
    assert "belongs to a MachineConfig" in result.stderr
    assert apply_if_newer(str(config)) is None
    assert target.read_bytes() == before
    assert load(str(target))[0].namespaces == ["shop"]


def test_compiled_file_of_version_0_2_is_replaced_by_a_later_yaml_only(config: Path) -> None:
    target = config.parent / "config.json"
    target.write_bytes(compile_file(str(config)))
    os.utime(config, ns=(0, target.stat().st_mtime_ns))
    assert apply_if_newer(str(config)) is None
    os.utime(config, (4e9, 4e9))
    assert apply_if_newer(str(config)) is not None


def test_apply_if_newer_applies_edited_file_only(config: Path) -> None:
    assert apply_if_newer(str(config.parent / "no.yaml")) is None
    first = apply_if_newer(str(config))
    assert first is not None
    assert len(first.changes) == 2
    assert apply_if_newer(str(config)) is None
    for seconds in (4e9, 1e9):  # the clock was ahead, and was set back
        os.utime(config, (seconds, seconds))
        again = apply_if_newer(str(config))
        assert again is not None
        assert again.changes == []
        assert apply_if_newer(str(config)) is None
        assert not is_unapplied(str(config))
        assert load(str(config))[1] == ""
    config.write_text("zzz: 1")
    os.utime(config, (1, 1))
    assert is_unapplied(str(config))
    assert "is newer than the active settings" in load(str(config))[1]
    with pytest.raises(InvalidConfigError):
        apply_if_newer(str(config))
    assert apply_if_newer(str(config.parent / "config.json")) is None


def test_compiled_file_is_refused_by_apply(config: Path) -> None:
    apply_file(str(config))
    result = CliRunner().invoke(main, ["--config", str(config.parent / "config.json"), "config", "apply"])
    assert result.exit_code == 2
    assert "apply the YAML file next to it" in result.stderr


def test_named_file_that_is_missing_is_wrong_use(config: Path) -> None:
    with pytest.raises(SettingsError, match=r"no\.yaml does not exist; name another file with --config"):
        find_effective(str(config.parent / "no.yaml"))
    with pytest.raises(click.ClickException, match="does not exist") as caught:
        effective_settings(str(config.parent / "no.yaml"))
    assert caught.value.exit_code == 2


NEVER = "config apply`, installed hooks"


@pytest.mark.parametrize(
    "state, source, problem",
    [
        ("never applied", "yaml", f"{NEVER} do nothing"),
        ("the default, never applied", "yaml", f"{NEVER} use the built-in defaults"),
        ("applied", "compiled", ""),
        ("edited", "compiled", "newer than the active settings"),
        ("damaged", "last-valid", "the last valid settings stay active"),
        ("lost", "last-valid", "the last valid settings stay active"),
        ("the default, missing", "defaults", ""),
    ],
)
def test_settings_in_use_have_a_source_and_a_remark(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    source: str,
    problem: str,
) -> None:
    if "default" in state:
        for module in (effective, node_settings):
            monkeypatch.setattr(module, "DEFAULT_CONFIG", str(config))
        words = "has never been applied; the defaults apply"
        assert (load(str(config))[0].namespaces, words in load(str(config))[1]) == ([], True)
    if "missing" in state:
        config.unlink()
    elif "never" not in state:
        apply_file(str(config))
        active = config.parent / "config.json"
        if state == "edited":
            config.write_text("namespaces: [other]\n")
            os.utime(config, (4e9, 4e9))
        elif state == "damaged":
            active.write_text("{")
        elif state == "lost":
            active.unlink()
    found = find_effective(str(config))
    assert (found.source, problem in found.problem, bool(found.problem)) == (source, True, bool(problem))
    namespaces = [] if source == "defaults" else ["shop"]
    assert found.settings.namespaces == effective_settings(str(config)).namespaces == namespaces
    said = capsys.readouterr().err
    assert (problem in said, bool(said)) == (True, bool(problem))
    assert (f"{config} has never been applied; until `resctrl-hook " in said) == (source == "yaml")
    assert effective_settings(str(config), has_hooks=False).namespaces == namespaces
    assert bool(capsys.readouterr().err) == (bool(problem) and source != "yaml")


@pytest.mark.parametrize("words", here("list", "rdt show", "show -n shop", "top --once"))
@pytest.mark.parametrize("installed", [True, False], ids=["installed", "not installed"])
def test_unapplied_file_is_reported_by_the_last_line(
    config: Path, words: str, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    monkeypatch.setattr(cli_node, "CODE", str(config.parent / ("" if installed else "none")))
    config.write_text(f"resctrlPath: {config.parent}/none\nstateDir: {config.parent}/state\n")
    assert ("has never been applied" in call(config, *words.split()).stderr) is installed
    apply_file(str(config))
    config.write_text(config.read_text() + "namespaces: [shop]\n")
    os.utime(config, (4e9, 4e9))
    assert "is newer than the active settings" in call(config, *words.split()).stderr


def test_remark_on_unapplied_file_follows_the_output(host: Host) -> None:
    yaml = host.root / "config.yaml"
    yaml.write_text("namespaces: [shop]\n")
    os.utime(yaml, (4e9, 4e9))
    done = call(yaml, "list")
    assert done.exit_code == 0, done.output
    remedy = f"run `resctrl-hook --config {yaml} config apply`"
    assert done.output.splitlines()[-1].endswith(f"newer than the active settings; {remedy}")


def shown(config: Path) -> Any:
    result = call(config, "config", "show", "--json")
    assert result.exit_code == 0, result.output
    (item,) = json.loads(result.stdout)["items"]
    return item


def test_show_prints_active_settings(config: Path) -> None:
    said = shown(config)
    assert (said["source"], said["yaml"]["state"]) == ("yaml", "never-applied")
    apply_file(str(config))
    said = shown(config)
    assert (said["source"], said["yaml"]["state"]) == ("compiled", "applied")
    assert said["set"] == ["monitoring.release", "namespaces"]
    assert said["settings"]["resctrlPath"] == "/sys/fs/resctrl"
    assert said["settings"]["monitoring"]["failurePolicy"] == "ignore"
    config.write_text("namespaces: [shop]\nfailurePolicy: fail\n")
    said = shown(config)
    assert said["yaml"]["state"] == "differs"
    assert {"key": "failurePolicy", "old": "ignore", "new": "fail"} in said["yaml"]["differences"]
    config.write_text("zzz: 1")
    assert shown(config)["yaml"]["state"] == "invalid"
    config.unlink()
    assert shown(config)["yaml"]["state"] == "missing"
    assert shown(config.parent / "config.json")["yaml"]["state"] == "applied"


def test_show_prints_settings_compiled_by_another_version(config: Path) -> None:
    (config.parent / "config.json").write_text(json.dumps({"format": 1, "monitoring": {"future": 1}, "newer": 2}))
    said = shown(config)
    assert said["settings"]["monitoring"] == {"future": 1}
    assert "was written by another version: monitoring.future: unknown key" in said["warnings"][0]


def test_show_fails_without_usable_settings(config: Path) -> None:
    (config.parent / "config.json").write_text("{")
    result = call(config, "config", "show")
    assert result.exit_code == 2
    assert "invalid settings in" in result.stderr


def test_changes_in_lists_of_mappings_are_found() -> None:
    old = {"classes": [{"name": "a", "allowswap": True}]}
    new = {"classes": [{"name": "a", "memtierdconfig": "x\ny"}], "namespaces": [], "stateDir": "x" * 58, "a": "x" * 59}
    assert [str(change) for change in changes_between(old, new)] == [
        "classes[0].allowswap: true -> (none)",
        "classes[0].memtierdconfig: (none) -> (2 lines)",
        f'stateDir: (none) -> "{"x" * 58}"',
        f'a: (none) -> "{"x" * 59}…',
    ]


@pytest.mark.parametrize("applied", [False, True])
def test_manual_hook_uses_unapplied_file(host: Host, pod: Any, *, applied: bool) -> None:
    values = json.loads(host.config.read_text())
    del values["format"]
    host.config.unlink()
    host.root.chmod(0o755)
    yaml = host.root / "config.yaml"
    yaml.write_text(json.dumps(values | {"namespaces": ["shop"]}))
    yaml.chmod(0o644)
    if applied:
        apply_file(str(yaml))
    done = subprocess.run(
        [sys.executable, "-m", "resctrl_hooks", "--config", str(yaml), "createRuntime"],
        input=json.dumps(pod), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert len(host.groups()) == 1
    assert ("has never been applied" in done.stderr) == (not applied)
    assert sorted(path.name for path in host.root.glob("config*")) == (
        ["config.json", "config.last.json", "config.yaml"] if applied else ["config.yaml"]
    )


def test_commands_on_configured_node_do_not_import_models(config: Path) -> None:
    apply_file(str(config))
    code = (
        "import sys; from resctrl_hooks.core.config import effective_settings; "
        f"effective_settings({str(config)!r}); print('pydantic' in sys.modules, 'yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_dry_reconcile_uses_settings_that_a_real_one_would_apply(host: Host, config: Path) -> None:
    values = json.loads(host.config.read_text())
    host.config.unlink()
    config.write_text(json.dumps({name: value for name, value in values.items() if name != "format"}))
    done = call(config, "reconcile", "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    assert f"{config} is not applied and would be applied first" in done.stderr
    assert json.loads(done.stdout)["dryRun"] is True
    assert os.listdir(config.parent).count("config.json") == 0
    config.write_text("namespaces: 5\n")
    done = call(config, "reconcile", "--dry-run")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "config.yaml:1: namespaces" in done.stderr
    assert "is invalid; correct it" in done.stderr


def test_former_prefixes_stay_known_for_claims(config: Path) -> None:
    def apply(prefix: str) -> tuple[str, ...]:
        config.write_text(f'groupPrefix: "{prefix}"\n')
        apply_file(str(config))
        return load(str(config))[0].former_prefixes

    assert [apply(prefix) for prefix in ("", "a-", "a-", "b-", "")] == [(), ("",), ("",), ("a-", ""), ("b-", "a-")]
    assert [str(change) for change in apply_file(str(config)).changes] == []
    for number in range(20):
        apply(f"p{number}-")
    assert len(load(str(config))[0].former_prefixes) == 8


@pytest.mark.parametrize("former", [None, 1, "a-", {}, [1, None, "../x", ["a"]]])
def test_damaged_list_of_former_prefixes_is_ignored(former: Any) -> None:
    assert node_settings.Settings({"formerPrefixes": former}).former_prefixes == ()
