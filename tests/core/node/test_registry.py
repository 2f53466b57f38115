"""Engines follow the feature table: none of them has a feature's name, module or settings; a feature can be missing."""

import ast
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state
from houses import missing

from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.failure_policies import failure_policy
from resctrl_hooks.core.node.feature import SKIP, Feature, Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features import monitoring
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.registry import feature_named, features_in_use, serves
from resctrl_hooks.core.node.settings import Settings


def test_features_are_found_by_name() -> None:
    assert feature_named("monitoring") is monitoring.FEATURE
    assert feature_named("of-a-later-version") is None
    for name in FEATURES:
        feature = feature_named(name)
        assert feature is not None
        assert isinstance(feature, Feature)
        assert feature.name == name
        for function in ("plan", "apply", "holds"):
            assert getattr(type(feature), function) is not getattr(Feature, function), f"{name} has no {function}"
        assert FEATURES[name].reverts == (type(feature).revert is not Feature.revert), name


PLACEMENT = pytest.mark.houses("placement")
OTHERS = {"enabled": True, "allow": {"other": ["*"]}}
ALL = {
    "classes": [{"name": "batch", "memtierdconfig": "policy: {}"}],
    "rdt": OTHERS,
    "placement": {**OTHERS, "namespaces": ["other"]},
    "blockio": OTHERS,
    "scheduling": OTHERS,
}


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
def test_only_applicable_features_are_imported(
    annotations: dict[str, str], sections: dict[str, Any], concerned: list[str]
) -> None:
    told = State(ID, "created", 0, "/b", crio_annotations() | annotations)
    workload = derive(told, Bundle({}), [], "/cg")
    settings = Settings(ALL | sections)
    assert len(features_in_use(settings)) == len(FEATURES)
    found = [one.name for one in features_in_use(settings, workload)]
    assert sorted(found) == sorted(["monitoring", *concerned])


def test_every_feature_has_a_policy() -> None:
    for name in FEATURES:
        usual = "fail" if name in {"memory", "memtierd"} else "ignore"
        assert failure_policy(name, Settings()) == usual, name
        assert failure_policy(name, Settings({"failurePolicy": "fail"})) == "fail", name
        for own in ("ignore", "fail"):
            assert failure_policy(name, Settings({name: {"failurePolicy": own}})) == own, name
    both = {"memory": {"failurePolicy": "ignore"}, "memtierd": {"failurePolicy": "fail"}}
    assert [failure_policy(name, Settings(both)) for name in both] == ["ignore", "fail"]
    assert failure_policy("memtierd", Settings({"memory": {"failurePolicy": "ignore"}})) == "ignore"


@pytest.mark.parametrize(
    "name, section, served",
    [
        ("monitoring", {"namespaces": ["shop-*"]}, ["shop-1"]),
        ("monitoring", {}, ["shop-1", "other", "shop"]),
        pytest.param(
            "placement", {"placement": {"namespaces": ["shop-*", "other"]}}, ["shop-1", "other"], marks=PLACEMENT
        ),
        pytest.param("placement", {}, ["shop-1", "other", "shop"], marks=PLACEMENT),
        ("memory", {"placement": {"namespaces": ["other"]}}, ["shop-1", "other", "shop"]),
    ],
)
def test_feature_serves_the_selected_or_listed_namespaces(name: str, section: Any, served: list[str]) -> None:
    assert [one for one in ("shop-1", "other", "shop") if serves(name, one, Settings(section))] == served


def test_feature_without_more_has_nothing_to_adopt_repair_or_show() -> None:
    feature, nothing = Feature(), cast("Any", None)
    step = Step("x", SKIP, {}, "")
    assert feature.values(step) == []
    assert feature.properties(step, nothing, nothing) == {}
    assert feature.preview(step, nothing, nothing) is step
    assert feature.lost(step, nothing, nothing) == ""
    assert feature.adopt(nothing, [], dry_run=False) == ([], {})
    assert feature.orphans(nothing) == []
    assert feature.repair(nothing, set()) == 0


PACKAGE = Path(__file__).parents[3] / "resctrl_hooks"
ENGINES = (
    "core/node/hook", "core/node/reconcile", "core/node/lifecycle.py", "core/node/registry.py",
    "nri/node/creation.py", "nri/node/event.py", "nri/node/events.py", "nri/node/plugin.py",
)  # fmt: skip
HERE = [PACKAGE / name for name in ENGINES if name.partition("/")[0] not in missing()]
MODULES = [path for place in HERE for path in ([place] if place.suffix else place.rglob("*.py"))]


def features_in(tree: ast.AST) -> set[str]:
    """Return the features that a module names: as a string, as a section of the settings, or by an import."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(name)) | ast.Attribute(attr=name) if name in FEATURES:
                found.add(name)
            case ast.ImportFrom(module=str(module)) if "features" in module.split("."):
                found.add(module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_engine_names_no_feature(path: Path) -> None:
    assert features_in(ast.parse(path.read_text())) == set()


# Settings enable a feature whose modules are not on the node: it fails by its policy, and the rest works


SLOW = {"enabled": True, "classes": {"slow": [{"weight": 20}]}, "defaults": {"namespaces": {"shop": "slow"}}}
WORDS = (
    "the modules of blockio are not installed here; "
    "run `resctrl-hook install`, or render the MachineConfig, with these settings"
)


def with_blockio(host: Host, **section: Any) -> dict[str, Any]:
    host.configure(blockio={**SLOW, **section})
    pid = host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    notes = crio_annotations()
    return state(pid=pid, bundle=host.bundle({"annotations": notes, "linux": {}}), annotations=notes)


@pytest.fixture
def _without_blockio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resctrl_hooks.core.node.features.blockio", None)


@pytest.mark.usefixtures("_without_blockio")
def test_hook_follows_the_features_policy_and_reconcile_continues(host: Host) -> None:
    outcome = host.call(with_blockio(host))
    assert (outcome.code, host.groups()) == (0, [f"mon_groups/{UID}"])
    assert WORDS in outcome.log
    report = reconcile(host.context())
    assert report.ok
    assert report.events["unmet"] == {f"{ID[:12]} blockio": WORDS}
    assert host.call(with_blockio(host, failurePolicy="fail")).code == 79


@pytest.mark.usefixtures("_without_blockio")
def test_reconcile_reports_a_missing_feature_that_adopts_containers(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FEATURES["blockio"], "adopts", True)
    host.call(with_blockio(host))
    for dry_run in (True, False):
        assert reconcile(host.context(), Options(dry_run=dry_run)).events["failed"] == {"blockio": WORDS}
