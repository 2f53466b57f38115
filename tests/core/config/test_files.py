"""Configuration files on disk: any order of edits, applications and damage; trust; the files of version 0.2."""

import json
import os
import posix
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from conftest import Host, examples
from hosts.commands import here
from hosts.faults import failing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from resctrl_hooks.core.cli import installed, main
from resctrl_hooks.core.cli import node as cli_node
from resctrl_hooks.core.config import effective, effective_settings, find_effective
from resctrl_hooks.core.config.applied import Change, apply_file, apply_if_newer, changes_between, compile_file
from resctrl_hooks.core.config.check import check_file
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.config.show import show_settings
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.node import settings as node_settings
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.host.files import stamp
from resctrl_hooks.core.node.settings import DEFAULTS, active_path, is_unapplied, load

NAMES = ("config.yaml", "b.yaml", "config.yml", "config", ".config.yaml", "my x.yaml")
NAME = st.sampled_from(NAMES[:3])
INVALID = ("zzz: 1", "a: [", "- a", "monitoring: {release: never}")


class File:
    """What is expected of one YAML file and its compiled ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text: str | None = None
        """A namespace, an invalid text, or nothing."""
        self.active: str | None = None
        self.edited = False
        self.damage = ""
        self.compiled = Path(active_path(str(path)))

    @property
    def valid(self) -> bool:
        return self.text is not None and self.text not in INVALID

    def check(self) -> None:
        """Check hooks' settings, those of commands, and `config show`."""
        path = str(self.path)
        if self.active is None:
            with pytest.raises(SettingsError):
                load(path)
            if not self.valid:
                with pytest.raises(SettingsError):
                    find_effective(path)
                return
            found = find_effective(path)
            assert (found.source, found.settings.namespaces) == ("yaml", [self.text])
            assert "has never been applied; until `resctrl-hook " in found.problem
            shown = show_settings(path)
            assert (shown.yaml.state, shown.set) == ("never-applied", ["namespaces"])
            assert shown.settings["namespaces"] == [self.text]
            return
        hooks, problem = load(path)
        found = find_effective(path)
        assert hooks.namespaces == found.settings.namespaces == [self.active]
        assert found.source == ("last-valid" if self.damage else "compiled")
        assert ("the last valid settings stay active" in problem) == bool(self.damage)
        if not self.damage:
            assert ("is newer than the active settings" in problem) == is_unapplied(path) == self.edited
        shown = show_settings(path)
        assert shown.settings["namespaces"] == [self.active]
        kept = "applied" if self.text == self.active else "differs"
        assert shown.yaml.state == ("missing" if self.text is None else kept if self.valid else "invalid")


class ConfigurationFiles(RuleBasedStateMachine):
    """Several files in one folder, each with settings of its own."""

    @initialize()
    def prepare(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="rh")
        root = Path(self.folder.name)
        root.chmod(0o755)
        self.files = {name: File(root / name) for name in NAMES}
        self.moment = 1e9

    @rule(name=NAME, text=st.sampled_from(["shop", "lab", *INVALID]), back=st.booleans())
    def edit(self, name: str, text: str, back: bool) -> None:
        file = self.files[name]
        file.text, file.edited = text, True
        file.path.write_text(text if text in INVALID else json.dumps({"namespaces": [text]}))
        file.path.chmod(0o644)
        self.moment += -1e8 if back else 3e8  # the clock is set back, or was ahead
        os.utime(file.path, (self.moment, self.moment))

    @rule(name=NAME)
    def delete(self, name: str) -> None:
        file = self.files[name]
        file.path.unlink(missing_ok=True)
        file.text, file.edited = None, False

    @rule(name=NAME, dry_run=st.booleans())
    def apply(self, name: str, dry_run: bool) -> None:
        file = self.files[name]
        before = {path: path.read_bytes() for path in file.path.parent.glob("*json")}
        if not file.valid:
            with pytest.raises(InvalidConfigError):
                apply_file(str(file.path), dry_run=dry_run)
        else:
            changed = {one.key for one in apply_file(str(file.path), dry_run=dry_run).changes}
            assert file.damage or changed == ({"namespaces"} if file.text != file.active else set())
            if not dry_run:
                file.active, file.edited, file.damage = file.text, False, ""
                return
        assert {path: path.read_bytes() for path in file.path.parent.glob("*json")} == before

    @rule(name=NAME)
    def reconcile(self, name: str) -> None:
        file = self.files[name]
        if file.damage:
            return  # it is applied again, as after any difference
        if file.text is not None and not file.valid and file.edited:
            with pytest.raises(InvalidConfigError):
                apply_if_newer(str(file.path))
            return
        done = apply_if_newer(str(file.path))
        assert (done is not None) == file.edited
        if done:
            file.active, file.edited = file.text, False

    @rule(name=NAME, how=st.sampled_from(["damaged", "lost"]))
    def damage(self, name: str, how: str) -> None:
        file = self.files[name]
        if file.active is not None:
            file.compiled.unlink(missing_ok=True)
            if how == "damaged":
                file.compiled.write_text("{")
            file.damage = how

    @rule(name=NAME)
    def refresh(self, name: str) -> None:
        """A YAML file replaced by an equal one is newer, and without an effect."""
        file = self.files[name]
        if file.text is not None:
            self.edit(name, file.text, back=False)

    @invariant()
    def each_file_has_settings_of_its_own(self) -> None:
        for name in NAMES[:3]:
            self.files[name].check()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestConfigurationFiles = ConfigurationFiles.TestCase
TestConfigurationFiles.settings = settings(max_examples=examples(12), stateful_step_count=12)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def written(path: Path, namespace: str, **more: object) -> str:
    path.write_text(json.dumps({"namespaces": [namespace], **more}))
    path.chmod(0o644)
    return str(path)


@pytest.fixture
def config(folder: Path) -> Path:
    return Path(written(folder / "config.yaml", "shop", monitoring={"release": "last-container"}))


def call(config: Path | str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--config", str(config), *arguments])


def test_applied_files_are_readable_by_all_and_have_the_settings_alone(config: Path) -> None:
    os.umask(0)
    try:
        apply_file(str(config))
    finally:
        os.umask(0o022)
    assert sorted(os.listdir(config.parent)) == ["config.json", "config.last.json", "config.yaml"]
    for name in ("config.json", "config.last.json"):
        path = config.parent / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert json.loads(path.read_text()) == {
            "format": 1, "appliedFrom": str(stamp(str(config))),
            "namespaces": ["shop"], "monitoring": {"release": "last-container"},
        }  # fmt: skip
    shown = show_settings(str(config))
    assert shown.set == ["monitoring.release", "namespaces"]
    assert (shown.settings["resctrlPath"], shown.settings["monitoring"]["failurePolicy"]) == (
        "/sys/fs/resctrl", "ignore",
    )  # fmt: skip
    config.write_text("namespaces: [shop, lab]\n")
    assert apply_file(str(config), dry_run=True).changes == [
        Change("namespaces", ["shop"], ["shop", "lab"]),
        Change("monitoring.release", "last-container", "pod"),
    ]


def test_failing_disk_or_foreign_owner_keeps_previous_settings(config: Path) -> None:
    apply_file(str(config))
    target = config.parent / "config.json"
    before = target.read_bytes()
    config.write_text("namespaces: [other]\n")
    with failing(posix, "fsync", OSError(28, "No space left on device")):
        result = call(config, "config", "apply")
    assert (result.exit_code, target.read_bytes()) == (1, before)
    assert "No space left on device; the previous configuration stays active" in result.stderr
    assert sorted(os.listdir(config.parent)) == ["config.json", "config.last.json", "config.yaml"]
    written(config, "shop")
    target.write_bytes(compile_file(str(config), managed_by="a MachineConfig"))
    written(config, "other")
    os.utime(target, (1, 1))
    before = target.read_bytes()
    result = call(config, "config", "apply")
    assert (result.exit_code, "belongs to a MachineConfig" in result.stderr) == (1, True)
    assert (apply_if_newer(str(config)), target.read_bytes()) == (None, before)
    result = call(target, "config", "apply")
    assert (result.exit_code, "apply the YAML file next to it" in result.stderr) == (2, True)
    assert apply_if_newer(str(target)) is None


def test_untrusted_missing_or_invalid_file_is_refused(config: Path) -> None:
    config.chmod(0o666)
    result = call(config, "config", "apply")
    assert result.exit_code == 2
    assert "is writable by users other than its owner" in result.stderr
    assert not (config.parent / "config.json").exists()
    with pytest.raises(SettingsError, match="is writable by users other than its owner"):
        find_effective(str(config))
    with pytest.raises(click.ClickException, match=r"no\.yaml does not exist; name another file with --c") as caught:
        effective_settings(str(config.parent / "no.yaml"))
    assert caught.value.exit_code == 2
    config.chmod(0o644)
    for text, more in (("a: 1", 0), ("a: 1\nb: 1\nc: 1", 2)):
        config.write_text(text)
        with pytest.raises(SettingsError) as refused:
            find_effective(str(config))
        assert refused.value.message.startswith(f"{config}:1: a: unknown key; known here: ")
        assert refused.value.message.endswith(f" (and {more} more)") == bool(more)
    assert "No such file or directory; create it, or" in str(check_file(f"{config}.no").errors[0])
    assert str(check_file(str(config.parent)).errors[0]).endswith("not a regular file")


@pytest.mark.parametrize("missing", [False, True])
def test_default_file_that_is_missing_or_never_applied_leaves_defaults(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, missing: bool
) -> None:
    for module in (effective, node_settings):
        monkeypatch.setattr(module, "DEFAULT_CONFIG", str(config))
    if missing:
        config.unlink()
    else:
        assert "has never been applied; the defaults apply" in load(str(config))[1]
    assert load(str(config))[0].namespaces == []
    found = find_effective(str(config))
    assert found.source == ("defaults" if missing else "yaml")
    assert ("installed hooks use the built-in defaults" in found.problem) is not missing
    assert effective_settings(str(config)).namespaces == found.settings.namespaces == ([] if missing else ["shop"])
    assert bool(capsys.readouterr().err) is not missing
    effective_settings(str(config), has_hooks=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", here("list", "rdt show", "show -n shop", "top --once"))
def test_unapplied_file_is_reported(config: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(f"resctrlPath: {config.parent}/none\nstateDir: {config.parent}/state\n")
    for installed_ in ("", "none"):
        monkeypatch.setattr(cli_node, "CODE", str(config.parent / installed_))
        assert ("has never been applied" in call(config, *words.split()).stderr) is (not installed_)
    apply_file(str(config))
    config.write_text(config.read_text() + "namespaces: [shop]\n")
    os.utime(config, (4e9, 4e9))
    assert "newer than the active settings; run `resctrl-hook" in call(config, *words.split()).stderr


def test_show_prints_settings_compiled_by_another_version_and_fails_without_usable_ones(config: Path) -> None:
    compiled = config.parent / "config.json"
    compiled.write_text(json.dumps({"format": 1, "monitoring": {"future": 1}, "newer": 2}))
    shown = show_settings(str(config))
    assert shown.settings["monitoring"] == {"future": 1}
    assert "was written by another version: monitoring.future: unknown key" in shown.warnings[0]
    assert show_settings(str(compiled)).yaml.state == "applied"
    compiled.write_text("{")
    result = call(config, "config", "show")
    assert (result.exit_code, "invalid settings in" in result.stderr) == (2, True)


def test_changes_in_lists_of_mappings_are_found() -> None:
    old = {"classes": [{"name": "a", "allowswap": True}]}
    new = {"classes": [{"name": "a", "memtierdconfig": "x\ny"}], "namespaces": [], "stateDir": "x" * 58, "a": "x" * 59}
    assert [str(change) for change in changes_between(old, new)] == [
        "classes[0].allowswap: true -> (none)",
        "classes[0].memtierdconfig: (none) -> (2 lines)",
        f'stateDir: (none) -> "{"x" * 58}"',
        f'a: (none) -> "{"x" * 59}…',
    ]


@pytest.mark.ci
@pytest.mark.parametrize("applied", [False, True])
def test_manual_hook_uses_unapplied_file(host: Host, pod: Any, *, applied: bool) -> None:
    values = {key: value for key, value in json.loads(host.config.read_text()).items() if key != "format"}
    host.config.unlink()
    host.root.chmod(0o755)
    yaml = Path(written(host.root / "config.yaml", "shop", **values))
    if applied:
        apply_file(str(yaml))
    words = [sys.executable, "-m", "resctrl_hooks", "--config", str(yaml), "createRuntime"]
    done = subprocess.run(words, input=json.dumps(pod), capture_output=True, text=True, check=False)
    assert (done.returncode, len(host.groups()), "has never been applied" in done.stderr) == (0, 1, not applied)
    assert (host.root / "config.json").exists() is applied


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
    for number in range(20):
        apply(f"p{number}-")
    assert len(load(str(config))[0].former_prefixes) == 8
    damaged: list[Any] = [None, 1, "a-", {}, [1, None, "../x", ["a"]]]
    for former in damaged:
        assert node_settings.Settings({"formerPrefixes": former}).former_prefixes == ()


# Several files in one folder


def of_version_0_2(folder: Path, namespace: str, **more: object) -> Path:
    path = Path(written(folder / "config.json", namespace, **{"format": 1, **more}))
    os.utime(path, (1e9, 1e9))
    return path


def test_settings_of_version_0_2_stay_active_until_applied(folder: Path) -> None:
    former = of_version_0_2(folder, "shop", groupPrefix="old-")
    config = str(folder / "prod.yaml")
    assert find_effective(config).path == str(former)
    Path(config).write_text("zzz: 1")
    assert find_effective(config).path == str(former)
    written(Path(config), "shop", groupPrefix="new-")
    assert find_effective(config).problem.endswith(f"installed hooks use {former} of version 0.2")
    hooks, problem = load(config)
    assert (hooks.namespaces, hooks.path) == (["shop"], str(former))
    assert problem == (
        f"{config} has never been applied; {former} of version 0.2 stays active; "
        f"run `resctrl-hook --config {config} config apply`"
    )
    assert is_unapplied(config), "reconcile applies it"
    applied = apply_if_newer(config)
    assert applied is not None
    assert [change.key for change in applied.changes] == ["groupPrefix"]
    hooks, problem = load(config)
    assert (hooks.group_prefix, hooks.former_prefixes, problem) == ("new-", ("old-",), "")
    assert former.exists(), "version 0.2 uses it after a downgrade"


@pytest.mark.parametrize("content", [None, {"managedBy": "machineconfig"}, {"format": 2}])
def test_settings_of_another_file_or_owner_are_not_used(folder: Path, content: dict[str, object] | None) -> None:
    of_version_0_2(folder, "shop", **(content or {}))
    if content is None:
        production = written(folder / "config.yaml", "shop")
        os.utime(production, (1, 1))
        assert load(production)[0].namespaces == ["shop"]
    with pytest.raises(SettingsError, match=r"no compiled settings at .*test\.yaml\.compiled\.json; |not a compiled"):
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


@pytest.mark.houses("placement")
def test_apply_names_the_installed_file_and_the_command_that_installs_missing_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    production = written(folder / "config.yaml", "shop", placement={"enabled": True})
    record = Manifest(config=production, houses=[])
    monkeypatch.setattr(installed, "read_manifest", lambda _: record)
    wanted = "the settings need modules that are not installed: placement; install again: `resctrl-hook install`"
    for words in (["--dry-run"], []):
        result = call(production, "config", "apply", *words)
        assert (result.exit_code, wanted in result.stderr, "note" in result.stderr) == (0, True, False)
    record.houses = ["placement"]
    assert "not installed" not in call(production, "config", "apply").stderr
    test = written(folder / "test.yaml", "lab")
    assert f"note: installed hooks use {production}" in call(test, "config", "apply").stderr
