"""The compiled settings: defaults, refused values, the last valid file, filters, permissions; and the feature table."""

import ast
import itertools
import json
import os
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations
from hosts.hostile_inputs import STRANGE
from houses import missing
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node import errors, failure_policies, feature_table, permissions, registry
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.feature import SKIP, Feature, Step
from resctrl_hooks.core.node.features import monitoring
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.settings import DEFAULTS, Settings, is_unapplied, load


def write(folder: Path, name: str = "config.json", **values: Any) -> str:
    path = folder / name
    path.write_text(json.dumps({"format": 1, **values}))
    return str(path)


def test_defaults_are_complete_and_their_own() -> None:
    plain = Settings()
    paths = (plain.resctrl_path, plain.state_dir)
    assert (plain.failure_policy, *paths) == ("ignore", "/sys/fs/resctrl", "/run/resctrl-hooks")
    assert len(vars(plain)) == len(DEFAULTS) + len(feature_table.FEATURES) + len({"path", "applied_from", "sections"})
    changed = Settings()
    for name in feature_table.FEATURES:
        getattr(changed, name)["failurePolicy"] = "ignore"
    sections = [values for values in changed.sections.values() if isinstance(values, dict)]
    for values in (*sections, changed.log, changed.label_selector, changed.runtime_roots):
        values["changed"] = ""
    changed.namespaces.append("shop")
    changed.classes.append({"name": "a"})
    assert vars(Settings()) == vars(Settings({})) != vars(changed)
    assert [name for name, row in feature_table.FEATURES.items() if "failurePolicy" in row.defaults] == []
    assert [name for name, default in DEFAULTS.items() if default and isinstance(default, (dict, list))] == []


@given(st.sampled_from([*DEFAULTS, *feature_table.FEATURES]), st.sampled_from(STRANGE))
def test_any_value_is_refused_by_name_or_replaced_by_the_default_or_of_its_type(name: str, value: Any) -> None:
    folder = Path(f"/dev/shm/settings-{os.getpid()}")
    folder.mkdir(exist_ok=True)
    try:
        found, problem = load(write(folder, **{name: value}))
    except errors.SettingsError as error:
        said = str(error)
        assert value is not None
        assert said.startswith(f"invalid settings in {folder}/config.json: ")
        assert said.isprintable()
        return
    finally:
        (folder / "config.json").unlink()
        folder.rmdir()
    assert problem == ""
    default = vars(Settings())
    changed = [key for key, one in vars(found).items() if one != default[key] and key not in ("path", "sections")]
    assert len(changed) <= 1
    for key in changed:
        kinds = (int, float) if isinstance(default[key], float) else type(default[key])
        assert isinstance(vars(found)[key], kinds), key


PATHS = ("resctrlPath", "cgroupPath", "procPath", "sysPath", "stateDir")


@pytest.mark.parametrize("name, value", [
    *itertools.product(["deadlineSeconds"], (0, -1, 1e308, True)), ("failurePolicy", "Fail"), ("groupPrefix", "../x"),
    ("groupPrefix", ".x"), *itertools.product(PATHS, ("", "relative", "./x", "\0")),
    *itertools.product(feature_table.FEATURES, (False, 0, "", [], "on")),
])  # fmt: skip
def test_invalid_value_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(
        errors.SettingsError, match=f"{name} should be dict" if name in feature_table.FEATURES else name
    ):
        load(write(tmp_path, **{name: value}))


def test_problem_is_reported_once_and_a_long_value_truncated(tmp_path: Path) -> None:
    hint = re.escape(errors.SettingsError.hint)
    for value, words in (
        ({"runtimeRoots": "/x"}, rf"^invalid settings in [^ ]*: runtimeRoots should be dict, not str; {hint}$"),
        ({"groupPrefix": "/" * 100}, f"groupPrefix '{'/' * 80}'"),
        ({"log": {"level": 1}}, r"log\.level should be str, not int"),
    ):
        with pytest.raises(errors.SettingsError, match=words):
            load(write(tmp_path, **value))
    assert load(write(tmp_path, log={"level": "debug", "file": None}))[0].log == {"level": "debug", "file": None}


def test_compiled_file_is_active(tmp_path: Path) -> None:
    values: dict[str, Any] = {"resctrlPath": "/r/", "failurePolicy": "fail", "namespaces": ["a"], "deadlineSeconds": 1}
    path = write(tmp_path, **values, unknown={}, log=None)
    for config in (path, str(tmp_path / "config.yaml")):
        found, problem = load(config)
        assert problem == ""
        assert (found.resctrl_path, found.failure_policy, found.namespaces) == ("/r", "fail", ["a"])
        assert (found.deadline, found.log, found.path) == (1, {}, path)
    (tmp_path / "link").mkdir()
    (tmp_path / "link/config.json").symlink_to(path)
    assert load(str(tmp_path / "link/config.yaml"))[0].namespaces == ["a"], "it can be a link of root's"


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b"null", b"\xff", b'{"format":2}', b'{"namespaces":7}', b'{"log":{"level":[]}}', None]
)
def test_damaged_or_missing_settings_are_replaced_by_valid_ones(tmp_path: Path, monkeypatch: Any, garbage: Any) -> None:
    path = tmp_path / "config.json"
    if garbage is not None:
        path.write_bytes(garbage)
    with pytest.raises(errors.SettingsError, match="invalid settings in" if garbage is not None else "does not exist"):
        load(str(path))
    write(tmp_path, "config.last.json", failurePolicy="fail")
    monkeypatch.chdir(tmp_path)
    for config in (str(path), str(tmp_path / "config.yaml"), "config.json", "config.yaml"):
        found, problem = load(config)
        assert found.failure_policy == "fail"
        assert "the last valid settings stay active" in problem


def test_missing_file_means_defaults_only_if_it_is_the_default_one(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(errors.SettingsError, match=f"^{path} does not exist; name another file with --config$"):
        load(str(path))
    monkeypatch.setattr("resctrl_hooks.core.node.settings.DEFAULT_CONFIG", str(path))
    found, problem = load(str(path))
    assert (found.path, problem) == ("", "")
    path.touch()
    said = f"{path} has never been applied; the defaults apply; run `resctrl-hook config apply`"
    assert load(str(path))[1] == said
    monkeypatch.undo()
    with pytest.raises(errors.SettingsError, match=r"no compiled settings at .*config.json; .*config apply"):
        load(str(path))


def test_file_writable_by_others_or_too_large_is_ignored(tmp_path: Path) -> None:
    path = Path(write(tmp_path, namespaces=["shop"]))
    text = path.read_text()
    for size, mode, words in (
        (1 << 20, 0o600, ""), ((1 << 20) + 1, 0o600, "invalid settings in"),
        (0, 0o666, "it is owned or writable by a user other than root"),
    ):  # fmt: skip
        path.write_text(text.ljust(size))
        path.chmod(mode)
        with pytest.raises(errors.SettingsError, match=words) if words else nullcontext():
            assert load(str(path))[0].namespaces == ["shop"]


def test_unapplied_yaml_is_reported(tmp_path: Path) -> None:
    yaml = tmp_path / "config.yaml"
    assert not is_unapplied(str(yaml)), "it was not edited"
    yaml.touch()
    assert is_unapplied(str(yaml)), "it was never applied"
    compiled = write(tmp_path)
    os.utime(compiled, (1000, 1000))
    for time, reported in ((1000.5, False), (1001, False), (1001.5, True), (2000, True)):
        os.utime(yaml, (time, time))  # what was written together may differ by a second
        assert ("config apply" in load(str(yaml))[1]) is reported, time
        assert is_unapplied(str(yaml)) is reported
        assert not is_unapplied(compiled)


def test_filters_select_namespaces_and_labels() -> None:
    assert Settings().selects("any") == Settings().selects_labels({}) == ""
    found = Settings({"namespaces": ["shop", "team-*"], "labelSelector": {"a": "1", "b": "2"}})
    assert found.selects("shop") == found.selects("team-a") == ""
    assert "namespace shop2 is not among" in found.selects("shop2")
    assert found.selects("") == "a container without a namespace is not among the configured namespaces"
    for pattern, selected in (("?*", ["shop"]), ("", [""])):  # Podman's containers have no namespace
        assert [name for name in ("shop", "") if not Settings({"namespaces": [pattern]}).selects(name)] == selected
    assert found.selects_labels({"a": "1", "b": "2", "c": "3"}) == ""
    assert "label b=2" in found.selects_labels({"a": "1"})
    for section in ("priority", "reserve", "share"):
        assert not Settings({"monitoring": {"release": "pod"}}).shares_rmids
        assert Settings({"monitoring": {section: {}}}).shares_rmids


@pytest.mark.parametrize("namespace, name, allowed", [
    ("shop", "gold", True), ("shop", "silver", False), ("team-a", "silver", True), ("other", "gold", False),
])  # fmt: skip
def test_table_gives_permissions(namespace: str, name: str, *, allowed: bool) -> None:
    table = {"shop": ["gold"], "team-*": ["*"]}
    assert permissions.allows(table, namespace, name) is allowed
    assert not permissions.allows({}, namespace, name)
    assert not permissions.allows(None, namespace, name)
    found = Settings({"rdt": {"enabled": True, "allow": table}})
    asking = SimpleNamespace(namespace=namespace, verified=True)
    words = r"other|shop.* is not allowed to use it; rdt\.allow in the configuration lists what"
    with nullcontext() if allowed else pytest.raises(errors.SettingsError, match=words):
        permissions.check_allowed(found, "rdt.allow", asking, name, "use it", errors.SettingsError)


# Engines follow the feature table: none of them has a feature's name, module or settings


def test_features_are_found_by_name_and_have_their_types() -> None:
    tree = ast.parse(Path(feature_table.__file__).read_text())
    (named,) = (node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "Sections")
    assert [ast.unparse(line.target) for line in named if isinstance(line, ast.AnnAssign)] == [*feature_table._OF_CORE]
    assert registry.feature_named("monitoring") is monitoring.FEATURE
    assert registry.feature_named("of-a-later-version") is None
    for name in feature_table.FEATURES:
        feature = registry.feature_named(name)
        assert isinstance(feature, Feature)
        assert feature.name == name
        for function in ("plan", "apply", "holds"):
            assert getattr(type(feature), function) is not getattr(Feature, function), f"{name} has no {function}"
        assert feature_table.FEATURES[name].reverts == (type(feature).revert is not Feature.revert), name


PLACEMENT = pytest.mark.houses("placement")
OTHERS = {"enabled": True, "allow": {"other": ["*"]}}
ALL = {
    "classes": [{"name": "batch", "memtierdconfig": "policy: {}"}], "placement": {**OTHERS, "namespaces": ["other"]},
    "rdt": OTHERS, "blockio": OTHERS, "scheduling": OTHERS,
}  # fmt: skip


@pytest.mark.parametrize("annotations, sections, concerned", [
    ({}, {}, []), ({"class.memtierd.nri.io/c0": "batch"}, {}, ["memory", "memtierd"]),
    ({"rdt.resources.beta.kubernetes.io/pod": "gold"}, {}, ["rdt"]),
    ({"io.kubernetes.cri.rdt-class": "gold"}, {}, ["rdt"]),
    ({"blockio.resources.beta.kubernetes.io/container.c0": "slow"}, {}, ["blockio"]),
    ({"scheduling-class.resource-policy.nri.io": "batch"}, {}, ["scheduling"]),
    ({}, {"rdt": {**OTHERS, "defaults": {"qos": {"BestEffort": "bronze"}}}}, ["rdt"]),
    ({}, {"scheduling": {**OTHERS, "defaults": {"namespaces": {"shop": "batch"}}}}, ["scheduling"]),
    pytest.param({}, {"placement": OTHERS}, ["placement"], marks=PLACEMENT),
    pytest.param({}, {"placement": {**OTHERS, "namespaces": ["s*"]}}, ["placement"], marks=PLACEMENT),
])  # fmt: skip
def test_only_applicable_features_are_imported(annotations: Any, sections: Any, concerned: list[str]) -> None:
    workload = derive(State(ID, "created", 0, "/b", crio_annotations() | annotations), Bundle({}), [], "/cg")
    settings = Settings(ALL | sections)
    assert len(registry.features_in_use(settings)) == len(feature_table.FEATURES)
    assert {one.name for one in registry.features_in_use(settings, workload)} == {"monitoring", *concerned}


def test_every_feature_has_a_policy() -> None:
    for name in feature_table.FEATURES:
        usual = "fail" if name in {"memory", "memtierd"} else "ignore"
        assert failure_policies.failure_policy(name, Settings()) == usual, name
        assert failure_policies.failure_policy(name, Settings({"failurePolicy": "fail"})) == "fail", name
        for own in ("ignore", "fail"):
            assert failure_policies.failure_policy(name, Settings({name: {"failurePolicy": own}})) == own, name
    both = {"memory": {"failurePolicy": "ignore"}, "memtierd": {"failurePolicy": "fail"}}
    assert [failure_policies.failure_policy(name, Settings(both)) for name in both] == ["ignore", "fail"]
    assert failure_policies.failure_policy("memtierd", Settings({"memory": {"failurePolicy": "ignore"}})) == "ignore"


@pytest.mark.parametrize("name, section, served", [
    ("monitoring", {"namespaces": ["shop-*"]}, ["shop-1"]), ("monitoring", {}, ["shop-1", "other", "shop"]),
    pytest.param("placement", {"placement": {"namespaces": ["shop-*", "other"]}}, ["shop-1", "other"], marks=PLACEMENT),
    pytest.param("placement", {}, ["shop-1", "other", "shop"], marks=PLACEMENT),
    ("memory", {"placement": {"namespaces": ["other"]}}, ["shop-1", "other", "shop"]),
])  # fmt: skip
def test_feature_serves_the_selected_or_listed_namespaces(name: str, section: Any, served: list[str]) -> None:
    assert [one for one in ("shop-1", "other", "shop") if registry.serves(name, one, Settings(section))] == served


def test_feature_without_more_has_nothing_to_adopt_repair_or_show() -> None:
    feature, nothing = Feature(), cast("Any", None)
    step = Step("x", SKIP, {}, "")
    assert (feature.values(step), feature.orphans(nothing), feature.repair(nothing, set())) == ([], [], 0)
    assert (feature.properties(step, nothing, nothing), feature.lost(step, nothing, nothing)) == ({}, "")
    assert feature.preview(step, nothing, nothing) is step
    assert feature.adopt(nothing, [], dry_run=False) == ([], {})


PACKAGE = Path(__file__).parents[3] / "resctrl_hooks"
ENGINES = (
    "core/node/hook", "core/node/reconcile", "core/node/lifecycle.py", "core/node/registry.py",
    "nri/node/creation.py", "nri/node/event.py", "nri/node/events.py", "nri/node/plugin.py",
)  # fmt: skip
HERE = [PACKAGE / name for name in ENGINES if name.partition("/")[0] not in missing()]
MODULES = [path for place in HERE for path in ([place] if place.suffix else place.rglob("*.py"))]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_engine_names_no_feature(path: Path) -> None:
    """As a string, as a section of the settings, or by an import."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Constant(value=str(name)) | ast.Attribute(attr=name) if name in feature_table.FEATURES:
                found.add(name)
            case ast.ImportFrom(module=str(module)) if "features" in module.split("."):
                found.add(module)
    assert found == set()


@pytest.mark.parametrize("adopts", [False, True])
def test_feature_without_modules_follows_its_policy(host: Host, pod: Any, monkeypatch: Any, *, adopts: bool) -> None:
    words = "the modules of blockio are not installed here; run `resctrl-hook install`, or render the MachineConfig, "
    words += "with these settings"
    monkeypatch.setitem(sys.modules, "resctrl_hooks.core.node.features.blockio", None)
    monkeypatch.setattr(feature_table.FEATURES["blockio"], "adopts", adopts)
    slow = {"enabled": True, "classes": {"slow": [{"weight": 20}]}, "defaults": {"namespaces": {"shop": "slow"}}}
    host.configure(blockio=slow)
    host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    host.bundle({"annotations": pod["annotations"], "linux": {}})
    outcome = host.call(pod)
    assert (outcome.code, host.groups()) == (0, [f"mon_groups/{UID}"])
    assert words in outcome.log
    for dry_run in (True, False) if adopts else (False,):
        report = reconcile(host.context(), Options(dry_run=dry_run))
        assert report.ok is not adopts
        assert report.events["failed"] == ({"blockio": words} if adopts else {})
    assert adopts or report.events["unmet"] == {f"{ID[:12]} blockio": words}
    host.configure(blockio={**slow, "failurePolicy": "fail"})
    assert host.call(pod).code == 79
