"""Configuration files on disk: any order of edits, applications and damage; trust; the files of version 0.2."""

import json
import os
import posix
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import Host, examples
from golden import Golden
from hosts.faults import failing
from hosts.transcript import Transcript
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from resctrl_hooks.core.cli import config as cli_config
from resctrl_hooks.core.cli import installed, main
from resctrl_hooks.core.cli import node as cli_node
from resctrl_hooks.core.config import applied, effective, find_effective
from resctrl_hooks.core.config.applied import apply_file, apply_if_newer, changes_between, compile_file
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.config.show import show_settings
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.node import settings as node_settings
from resctrl_hooks.core.node.errors import SettingsError
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
            for read in (load, *(() if self.valid else (find_effective,))):
                with pytest.raises(SettingsError):
                    read(path)
            if not self.valid:
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


def of_a_machine_config(config: Path) -> None:
    compiled = config.with_name("config.json")
    compiled.write_bytes(compile_file(str(config), managed_by="a MachineConfig"))
    os.utime(compiled, (1, 1))
    assert apply_if_newer(str(config)) is apply_if_newer(str(compiled)) is None, "reconcile leaves it, too"


def of_another_version(config: Path) -> None:
    config.with_name("config.json").write_text(json.dumps({"format": 1, "monitoring": {"future": 1}, "newer": 2}))


def of_version_0_2(config: Path) -> None:
    path = Path(written(config.with_name("config.json"), "shop", format=1, groupPrefix="old-"))
    os.utime(path, (1e9, 1e9))


def lose(config: Path) -> None:
    for path in config.parent.glob("*.json"):
        path.unlink()


def newer(config: Path) -> None:
    config.write_text(config.read_text() + " ")
    os.utime(config, (4e9, 4e9))


EVENTS: dict[str, Callable[[Path], object]] = {
    "write": lambda path: written(path, "other"),
    "wrong": lambda path: path.write_text("a: 1"),
    "three wrong": lambda path: path.write_text("a: 1\nb: 1\nc: 1"),
    "delete": lambda path: path.unlink(missing_ok=True),
    "open to others": lambda path: path.chmod(0o666),
    "close": lambda path: path.chmod(0o644),
    "open the active ones": lambda path: path.with_name("config.json").chmod(0o666),
    "damage": lambda path: path.with_name("config.json").write_text("{"),
    "lose": lose,
    "MachineConfig": of_a_machine_config,
    "another version": of_another_version,
    "version 0.2": of_version_0_2,
    "newer": newer,
}
LIFE = (
    "check", "show", "apply --dry-run", "apply --dry-run -o json", "apply -o csv", "show", "apply", "apply --if-newer",
    "apply --if-newer -o json", "apply --dry-run", "write", "apply --dry-run", "show", "apply", "full: apply", "newer",
    "apply --if-newer", "open the active ones", "check", "open to others", "check", "apply", "lose", "show", "apply",
    "close", "apply", "three wrong", "apply", "apply -o json", "show", "check", "lose", "show", "write", "apply",
    "damage", "show", "lose", "show", "MachineConfig", "apply", "show", "json apply", "json check", "write",
    "another version", "show", "json show", "delete", "show", "check", "lose", "show", "check", "version 0.2", "show",
    "write", "show", "prod show", "prod apply", "lose",
)  # fmt: skip
LOOKS = ("list", "rdt show", "reconcile --dry-run")


def files_of(folder: Path) -> str:
    found = (f"{path.name} {path.stat().st_mode & 0o777:o} {path.read_text()}" for path in sorted(folder.glob("*.*")))
    return re.sub(r'"appliedFrom": "[^"]*"', "<stamp>", "\n".join(found))


@pytest.mark.parametrize("default", [False, True], ids=["of a path", "default"])
def test_commands_through_the_life_of_a_configuration(
    config: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch, *, default: bool
) -> None:
    """A failure leaves the active settings, and each command says which settings apply."""
    if default:
        for module in (effective, node_settings, cli_config, applied):
            monkeypatch.setattr(module, "DEFAULT_CONFIG", str(config))
    monkeypatch.setattr(cli_node, "CODE", str(config.parent))
    monkeypatch.setitem(DEFAULTS, "stateDir", str(config.parent / "state"))
    monkeypatch.setitem(DEFAULTS, "resctrlPath", str(config.parent / "none"))
    told = Transcript()
    for number, words in enumerate(LIFE):
        if words in EVENTS:
            EVENTS[words](config)
            told.add(number, words, "")
            continue
        name, _, command = words.rpartition(" ") if words.split()[0] in ("json", "prod") else ("", "", words)
        path = config.with_name({"json": "config.json", "prod": "prod.yaml"}.get(name, config.name))
        if name == "prod":
            written(path, "shop", groupPrefix="new-")
        full = words.startswith("full")
        with failing(posix, "fsync", OSError(28, "No space left on device"), when=lambda *_, full=full: full):
            before = os.umask(0)
            done = call(path, "config", *command.removeprefix("full: ").split(), *(["-o", "json"] * ("show" in words)))
            os.umask(before)
        said = re.sub('"host": ".*"', '"host": "<host>"', done.output)
        if words.endswith("check"):
            found = json.loads(call(path, "config", "check", "-o", "json").stdout)
            assert (found["valid"], found["file"]) == (done.exit_code == 0, str(path))
            assert any(one["severity"] == "error" for one in found["items"]) == (done.exit_code == 2)
        if "show" in words and not done.exit_code:
            (item,) = json.loads(done.stdout)["items"]
            chosen = {name: item["settings"].get(name) for name in ("namespaces", "groupPrefix")}
            said = "".join(f"{name}: {value}\n" for name, value in (item | {"settings": chosen}).items())
        after = files_of(config.parent) if "apply" in words else ""
        for look in LOOKS if words == "show" else ():
            after += f"\n{look}: {call(config, *look.split()).stderr}"
        told.add(number, words, f"{said}{after}", done.exit_code)
    golden(str(told), hide="pid time")


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


def test_former_prefixes_stay_known_for_claims_and_changes_in_lists_are_found(config: Path) -> None:
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
    old = {"classes": [{"name": "a", "allowswap": True}]}
    new = {"classes": [{"name": "a", "memtierdconfig": "x\ny"}], "namespaces": [], "stateDir": "x" * 58, "a": "x" * 59}
    assert [str(change) for change in changes_between(old, new)] == [
        "classes[0].allowswap: true -> (none)",
        "classes[0].memtierdconfig: (none) -> (2 lines)",
        f'stateDir: (none) -> "{"x" * 58}"',
        f'a: (none) -> "{"x" * 59}…',
    ]


def test_hooks_use_settings_of_version_0_2_until_others_are_applied(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_version_0_2(folder / "config.yaml")
    config, former = str(folder / "prod.yaml"), str(folder / "config.json")
    Path(config).write_text("zzz: 1")
    assert find_effective(config).path == former
    written(Path(config), "shop", groupPrefix="new-")
    assert effective.effective_settings(config).group_prefix == "new-"
    assert capsys.readouterr().err.endswith(f"installed hooks use {former} of version 0.2\n")
    hooks, problem = load(config)
    assert (hooks.path, hooks.group_prefix) == (former, "old-")
    assert problem.startswith(f"{config} has never been applied; {former} of version 0.2 stays active; run ")
    assert is_unapplied(config), "reconcile applies it"
    applied = apply_if_newer(config)
    assert applied is not None
    assert [change.key for change in applied.changes] == ["groupPrefix"]
    hooks, problem = load(config)
    assert (hooks.group_prefix, hooks.former_prefixes, problem) == ("new-", ("old-",), "")
    assert Path(former).exists(), "version 0.2 uses it after a downgrade"


@pytest.mark.parametrize("content", [None, {"managedBy": "machineconfig"}, {"format": 2}])
def test_settings_of_another_file_or_owner_are_not_used(folder: Path, content: dict[str, object] | None) -> None:
    of_version_0_2(folder / "config.yaml")
    former = folder / "config.json"
    former.write_text(json.dumps(json.loads(former.read_text()) | (content or {})))
    if content is None:
        production = written(folder / "config.yaml", "shop")
        os.utime(production, (1, 1))
        assert load(production)[0].namespaces == ["shop"]
    with pytest.raises(SettingsError, match=r"no compiled settings at .*test\.yaml\.compiled\.json; |not a compiled"):
        load(written(folder / "test.yaml", "lab"))


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
