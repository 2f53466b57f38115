import ast
import itertools
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from resctrl_hooks.core.node import feature_table
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.permissions import allows, check_allowed
from resctrl_hooks.core.node.settings import (
    DEFAULT_CONFIG,
    DEFAULTS,
    Settings,
    compiled_path,
    is_unapplied,
    last_valid_path,
    load,
)


def write(folder: Path, name: str = "config.json", **values: Any) -> str:
    path = folder / name
    path.write_text(json.dumps({"format": 1, **values}))
    return str(path)


def test_defaults_are_complete() -> None:
    assert Settings().failure_policy == "ignore"
    assert Settings().resctrl_path == "/sys/fs/resctrl"
    assert Settings().state_dir == "/run/resctrl-hooks"
    assert len(vars(Settings())) == len(DEFAULTS) + len(FEATURES) + len({"path", "applied_from", "sections"})


def test_changed_settings_do_not_change_defaults() -> None:
    changed = Settings()
    for name in FEATURES:
        getattr(changed, name)["failurePolicy"] = "ignore"
    sections = [values for values in changed.sections.values() if isinstance(values, dict)]
    for values in (*sections, changed.log, changed.label_selector, changed.runtime_roots):
        values["changed"] = ""
    changed.namespaces.append("shop")
    changed.classes.append({"name": "a"})
    assert vars(Settings()) == vars(Settings({})) != vars(changed)
    assert [name for name, row in FEATURES.items() if "failurePolicy" in row.defaults] == []
    assert [name for name, default in DEFAULTS.items() if default and isinstance(default, (dict, list))] == []


def test_section_has_defaults_for_missing_keys(tmp_path: Path) -> None:
    settings, _ = load(write(tmp_path, monitoring={"takeOver": True, "release": None}, memtierd=None))
    assert (settings.monitoring["takeOver"], settings.monitoring["release"]) == (True, "pod")
    assert settings.memtierd == FEATURES["memtierd"].defaults


@pytest.mark.parametrize("name", list(FEATURES))
@pytest.mark.parametrize("value", [False, 0, "", [], "on"])
def test_invalid_section_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"{name} should be dict"):
        load(write(tmp_path, **{name: value}))


def test_empty_value_is_replaced_by_default(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "monitoring": {"release": "", "events": [], "classCounters": None},
        "memtierd": {"runDir": "", "binary": [], "startSeconds": 0, "allow": {}},
        "memory": {"allow": []},
    }
    settings, problem = load(write(tmp_path, **given))
    assert problem == ""
    assert settings.monitoring == FEATURES["monitoring"].defaults
    assert settings.memtierd == {**FEATURES["memtierd"].defaults, "startSeconds": 0, "allow": {}}
    assert not settings.memory["allow"], "no namespace is allowed more than configured"


def test_compiled_file_is_active(tmp_path: Path) -> None:
    path = write(
        tmp_path, resctrlPath="/r/", failurePolicy="fail", namespaces=["a"], deadlineSeconds=1, unknown={}, log=None
    )
    for config in (path, str(tmp_path / "config.yaml")):
        settings, problem = load(config)
        assert problem == ""
        assert (settings.resctrl_path, settings.failure_policy, settings.namespaces) == ("/r", "fail", ["a"])
        assert (settings.deadline, settings.log, settings.path) == (1, {}, path)


def test_compiled_file_lies_next_to_yaml() -> None:
    assert compiled_path(DEFAULT_CONFIG) == "/etc/resctrl-hooks/config.json"
    assert compiled_path("/x/y.yaml") == "/x/y.yaml.compiled.json"
    assert compiled_path("/config.yaml") == "/config.json"
    assert compiled_path("config.yaml") == "config.json"
    assert compiled_path("y.yaml") == "y.yaml.compiled.json"
    assert compiled_path("/x/y.json") == "/x/y.json"
    assert last_valid_path(compiled_path(DEFAULT_CONFIG)) == "/etc/resctrl-hooks/config.last.json"


def test_compiled_files_of_different_files_differ() -> None:
    names = ["config.yaml", "config", "config.yml", "config.last", "a", "a.yaml", "a.yml", "a.yaml.compiled", "A.yaml"]
    compiled = [compiled_path(f"/x/{name}") for name in names]
    paths = {*compiled, *map(last_valid_path, compiled)}
    assert len(paths) == 2 * len(names)
    assert paths.isdisjoint(f"/x/{name}" for name in names)


def test_last_valid_settings_lie_next_to_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text("{")
    Path("config.last.json").write_text('{"format": 1, "namespaces": ["shop"]}')
    assert load("config.yaml")[0].namespaces == ["shop"]
    assert load("config.json")[0].namespaces == ["shop"]


def test_missing_default_file_means_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = str(tmp_path / "config.yaml")
    monkeypatch.setattr("resctrl_hooks.core.node.settings.DEFAULT_CONFIG", default)
    settings, problem = load(default)
    assert (settings.path, problem) == ("", "")


def test_missing_named_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(SettingsError, match=f"^{path} does not exist; name another file with --config$"):
        load(str(path))
    path.touch()
    with pytest.raises(SettingsError, match=r"no compiled settings at .*config.json; .*config apply"):
        load(str(path))


def test_problem_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"format": 1, "runtimeRoots": "/x"}')
    with pytest.raises(SettingsError) as refused:
        load(str(path))
    assert str(refused.value) == (
        f"invalid settings in {path}: runtimeRoots should be dict, not str; {SettingsError.hint}"
    )


GARBAGE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b'{"format":2}',
    b'{"namespaces":7}',
    b'{"stateDir":[]}',
    b'{"deadlineSeconds":"x"}',
    b'{"log":{"level":[]}}',
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_damaged_settings_are_replaced_by_last_valid_ones(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(garbage)
    with pytest.raises(SettingsError, match="invalid settings in"):
        load(str(path))
    write(tmp_path, "config.last.json", failurePolicy="fail")
    settings, problem = load(str(path))
    assert settings.failure_policy == "fail"
    assert "the last valid settings stay active" in problem


def test_missing_settings_are_replaced_by_last_valid_ones(tmp_path: Path) -> None:
    write(tmp_path, "config.last.json", failurePolicy="fail")
    settings, problem = load(str(tmp_path / "config.yaml"))
    assert settings.failure_policy == "fail"
    assert "the last valid settings stay active" in problem


@pytest.mark.parametrize(
    "name, value",
    [
        *itertools.product(
            ("resctrlPath", "cgroupPath", "procPath", "sysPath", "stateDir"), ("", "relative", "./x", "\0")
        ),
        *itertools.product(["deadlineSeconds"], (0, -1, 1e308, True)),
        ("failurePolicy", "Fail"),
        *itertools.product(["groupPrefix"], ("../x", ".x")),
    ],
)
def test_invalid_value_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        load(write(tmp_path, **{name: value}))


def test_file_writable_by_others_is_ignored(tmp_path: Path) -> None:
    path = write(tmp_path)
    os.chmod(path, 0o666)
    with pytest.raises(SettingsError, match="it is owned or writable by a user other than root"):
        load(path)


def test_unapplied_yaml_is_reported(tmp_path: Path) -> None:
    compiled = write(tmp_path)
    yaml = tmp_path / "config.yaml"
    yaml.touch()
    os.utime(compiled, (1000, 1000))
    for time, reported in ((1000.5, False), (1001, False), (1001.5, True), (2000, True)):
        os.utime(yaml, (time, time))  # what was written together may differ by a second
        assert ("config apply" in load(str(yaml))[1]) is reported, time


def test_namespace_filter_matches() -> None:
    assert Settings().selects("any") == ""
    settings = Settings({"namespaces": ["shop", "team-*"]})
    assert settings.selects("shop") == settings.selects("team-a") == ""
    assert "namespace shop2 is not among" in settings.selects("shop2")
    assert settings.selects("") == "a container without a namespace is not among the configured namespaces"


def test_label_selector_matches() -> None:
    settings = Settings({"labelSelector": {"a": "1", "b": "2"}})
    assert settings.selects_labels({"a": "1", "b": "2", "c": "3"}) == ""
    assert "label b=2" in settings.selects_labels({"a": "1"})
    assert Settings().selects_labels({}) == ""


def test_allow_tables_match() -> None:
    table = {"shop": ["gold"], "team-*": ["*"]}
    assert allows(table, "shop", "gold")
    assert not allows(table, "shop", "silver")
    assert allows(table, "team-a", "silver")
    assert not allows(table, "other", "gold")
    assert not allows({}, "shop", "gold")
    assert not allows(None, "shop", "gold")


@pytest.mark.parametrize("section", ["priority", "reserve", "share"])
def test_each_of_three_settings_enables_sharing_rules(section: str) -> None:
    assert not Settings({"monitoring": {"release": "pod"}}).shares_rmids
    assert Settings({"monitoring": {section: {}}}).shares_rmids


def test_types_cover_exactly_the_feature_sections() -> None:
    (named,) = (
        node.body
        for node in ast.walk(ast.parse(Path(feature_table.__file__).read_text()))
        if isinstance(node, ast.ClassDef) and node.name == "Sections"
    )
    assert [ast.unparse(line.target) for line in named if isinstance(line, ast.AnnAssign)] == list(
        feature_table._OF_CORE
    )


def test_missing_yaml_was_not_edited(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    assert not is_unapplied(str(config))
    config.touch()
    assert is_unapplied(str(config)), "it was never applied"
    compiled = write(tmp_path)
    assert not is_unapplied(str(config))
    assert not is_unapplied(compiled)
    os.utime(config, (2e9, 2e9))
    assert is_unapplied(str(config))


def test_log_value_is_a_string_or_missing(tmp_path: Path) -> None:
    settings, problem = load(write(tmp_path, log={"level": "debug", "file": None}))
    assert (settings.log, problem) == ({"level": "debug", "file": None}, "")
    with pytest.raises(SettingsError, match=r"log\.level should be str, not int"):
        load(write(tmp_path, log={"level": 1}))


def test_settings_can_be_a_link_of_root(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "config.json").symlink_to(write(tmp_path / "elsewhere", namespaces=["shop"]))
    assert load(str(tmp_path / "config.yaml"))[0].namespaces == ["shop"]


def test_unapplied_settings_are_reported_as_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = tmp_path / "config.yaml"
    default.touch()
    monkeypatch.setattr("resctrl_hooks.core.node.settings.DEFAULT_CONFIG", str(default))
    said = f"{default} has never been applied; the defaults apply; run `resctrl-hook config apply`"
    assert load(str(default))[1] == said


def test_oversized_file_is_not_read(tmp_path: Path) -> None:
    path = Path(write(tmp_path, namespaces=["shop"]))
    text = path.read_text()
    path.write_text(text.ljust(1 << 20))
    assert load(str(path))[0].namespaces == ["shop"]
    path.write_text(text.ljust((1 << 20) + 1))
    with pytest.raises(SettingsError, match="invalid settings in"):
        load(str(path))


def test_long_prefix_is_truncated_in_messages(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"groupPrefix '{'/' * 80}'"):
        load(write(tmp_path, groupPrefix="/" * 100))


def test_table_gives_permissions(tmp_path: Path) -> None:
    settings, _ = load(write(tmp_path, rdt={"enabled": True, "allow": {"shop": ["gold"]}}))
    asking = SimpleNamespace(namespace="shop", verified=True)
    check_allowed(settings, "rdt.allow", asking, "gold", "use RDT class gold", SettingsError)
    for namespace, name in (("shop", "silver"), ("other", "gold")):
        asking = SimpleNamespace(namespace=namespace, verified=True)
        with pytest.raises(
            SettingsError, match=r"other|shop.* is not allowed to use it; rdt\.allow in the configuration lists what"
        ):
            check_allowed(settings, "rdt.allow", asking, name, "use it", SettingsError)
