"""Several configuration files in one folder, and the compiled files of version 0.2, which had one for each folder."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import Host
from hosts.commands import here

from resctrl_hooks.core.cli import installed, main
from resctrl_hooks.core.config import find_effective
from resctrl_hooks.core.config.applied import apply_file, apply_if_newer
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.settings import DEFAULTS, active_path, is_unapplied, load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def written(path: Path, namespace: str, **more: object) -> str:
    path.write_text(json.dumps({"namespaces": [namespace], **more}))
    path.chmod(0o644)
    return str(path)


def call(config: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--config", config, *arguments])


def of_version_0_2(folder: Path, namespace: str, **more: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"format": 1, "namespaces": [namespace], **more}))
    path.chmod(0o644)
    os.utime(path, (1e9, 1e9))
    return path


OTHERS = ("b.yaml", "config.yml", "config", "test.conf", ".config.yaml", "config.yaml.bak", "CONFIG.yaml", "my x.yaml")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("first", ["config.yaml", "a.yaml"])
def test_other_file_keeps_active_settings(folder: Path, first: str, name: str) -> None:
    production = written(folder / first, "shop")
    apply_file(production)
    other = written(folder / name, "lab")
    assert find_effective(other).settings.namespaces == ["lab"]
    assert f"{other} has never been applied" in find_effective(other).problem
    with pytest.raises(SettingsError, match="no compiled settings at"):
        load(other)
    apply_file(other)
    assert load(other)[0].namespaces == ["lab"]
    assert load(production)[0].namespaces == ["shop"]
    Path(active_path(other)).write_text("{")
    assert load(other)[0].namespaces == ["lab"], "its own last valid settings"
    shown = json.loads(call(production, "config", "show", "--json").stdout)["items"][0]
    assert shown["settings"]["namespaces"] == ["shop"]


def test_link_to_a_file_has_settings_of_its_own(folder: Path) -> None:
    production = written(folder / "config.yaml", "shop")
    apply_file(production)
    link = folder / "test.yaml"
    link.symlink_to("config.yaml")
    apply_file(str(link))
    written(folder / "config.yaml", "lab")
    apply_file(production)
    assert (load(production)[0].namespaces, load(str(link))[0].namespaces) == (["lab"], ["shop"])


def test_copied_folder_has_the_same_settings(folder: Path) -> None:
    for name in ("config.yaml", "b.yaml"):
        apply_file(written(folder / name, name[0]))
    copy = folder / "copy"
    copy.mkdir()
    for path in [*folder.glob("*.json"), *folder.glob("*.yaml")]:
        (copy / path.name).write_bytes(path.read_bytes())
        os.utime(copy / path.name, (path.stat().st_mtime,) * 2)
    assert [load(f"{copy}/{name}")[0].namespaces for name in ("config.yaml", "b.yaml")] == [["c"], ["b"]]


def test_renamed_file_leaves_hooks_their_settings(folder: Path) -> None:
    old = written(folder / "old.yaml", "shop")
    apply_file(old)
    os.rename(old, folder / "new.yaml")
    assert load(old)[0].namespaces == ["shop"]
    assert "has never been applied" in find_effective(str(folder / "new.yaml")).problem


@pytest.mark.parametrize("command", here("list", "top -n 1", "config show", "metrics"))
def test_command_uses_settings_of_the_named_file(tmp_path: Path, command: str) -> None:
    host = Host(tmp_path / "host")
    paths = {"resctrlPath": str(host.resctrl), "procPath": str(host.proc), "stateDir": str(host.state)}
    apply_file(written(tmp_path / "a.yaml", "shop", **{**paths, "stateDir": f"{tmp_path}/wrong"}))
    Path(tmp_path, "wrong").write_text("a file")
    other = written(tmp_path / "b.yaml", "lab", **paths)
    done = call(other, *command.split())
    assert "wrong" not in done.output
    assert done.exit_code == 0, done.output


def test_settings_of_version_0_2_stay_active_until_applied(folder: Path) -> None:
    former = of_version_0_2(folder, "shop", groupPrefix="old-")
    config = written(folder / "prod.yaml", "shop", groupPrefix="new-")
    settings, problem = load(config)
    assert (settings.namespaces, settings.path) == (["shop"], str(former))
    assert problem == (
        f"{config} has never been applied; {former} of version 0.2 stays active; "
        f"run `resctrl-hook --config {config} config apply`"
    )
    assert is_unapplied(config), "reconcile applies it"
    applied = apply_if_newer(config)
    assert applied is not None
    assert [change.key for change in applied.changes] == ["groupPrefix"]
    settings, problem = load(config)
    assert (settings.group_prefix, settings.former_prefixes, problem) == ("new-", ("old-",), "")
    assert former.exists(), "version 0.2 uses it after a downgrade"


def test_settings_of_version_0_2_stay_active_without_a_valid_file(folder: Path) -> None:
    former = of_version_0_2(folder, "shop")
    config = folder / "prod.yaml"
    assert find_effective(str(config)).path == str(former)
    config.write_text("zzz: 1")
    assert find_effective(str(config)).path == str(former)
    config.write_text("namespaces: [lab]")
    assert find_effective(str(config)).problem.endswith(f"installed hooks use {former} of version 0.2")


def test_settings_of_version_0_2_belong_to_config_yaml_beside_them(folder: Path) -> None:
    of_version_0_2(folder, "shop")
    production = written(folder / "config.yaml", "shop")
    os.utime(production, (1, 1))
    assert load(production)[0].namespaces == ["shop"]
    with pytest.raises(SettingsError, match=r"no compiled settings at .*test\.yaml\.compiled\.json; run"):
        load(written(folder / "test.yaml", "lab"))


def test_settings_of_a_deleted_file_are_not_used_for_another_one(folder: Path) -> None:
    production = written(folder / "config.yaml", "shop")
    apply_file(production)
    Path(production).unlink()
    assert load(production)[0].namespaces == ["shop"]
    with pytest.raises(SettingsError, match="no compiled settings at"):
        load(written(folder / "test.yaml", "lab"))
    assert find_effective(str(folder / "test.yaml")).settings.namespaces == ["lab"]


@pytest.mark.parametrize("content", [{"managedBy": "machineconfig"}, {"format": 2}])
def test_settings_of_another_owner_are_not_used(folder: Path, content: dict[str, object]) -> None:
    of_version_0_2(folder, "shop", **content)
    with pytest.raises(SettingsError, match=r"no compiled settings|not a compiled configuration"):
        load(written(folder / "test.yaml", "lab"))


def test_new_file_leaves_the_records_of_another_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present, new = folder / "present", folder / "new"
    (present / "pods").mkdir(parents=True)
    monkeypatch.setitem(DEFAULTS, "stateDir", str(present))
    apply_file(written(folder / "test.yaml", "lab", stateDir=str(new)))
    assert not os.path.lexists(new)
    apply_file(written(folder / "test.yaml", "lab", stateDir=str(present)))
    apply_file(written(folder / "test.yaml", "lab", stateDir=str(new)))
    assert new.resolve() == present, "records of the same file"


def test_apply_names_the_file_of_installed_hooks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    production, test = written(folder / "config.yaml", "shop"), written(folder / "test.yaml", "lab")
    monkeypatch.setattr(installed, "read_manifest", lambda _: Manifest(config=production))
    assert f"note: installed hooks use {production}" in call(test, "config", "apply").stderr
    assert "note" not in call(production, "config", "apply").stderr


@pytest.mark.houses("placement")
def test_apply_names_the_command_that_installs_missing_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(folder / "config.yaml", "shop", placement={"enabled": True})
    record = Manifest(config=config, houses=[])
    monkeypatch.setattr(installed, "read_manifest", lambda _: record)
    wanted = "the settings need modules that are not installed: placement; install again: `resctrl-hook install`"
    for words in (["--dry-run"], []):
        result = call(config, "config", "apply", *words)
        assert (result.exit_code, wanted in result.stderr) == (0, True)
    record.houses = ["placement"]
    assert "not installed" not in call(config, "config", "apply").stderr


def test_unwritable_folder_keeps_settings(folder: Path) -> None:
    config = written(folder / "b.yaml", "lab")
    (folder / "b.yaml.compiled.json").mkdir()
    done = call(config, "config", "apply")
    assert (done.exit_code, "not applied" in done.stderr) == (1, True)
