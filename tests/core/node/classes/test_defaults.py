"""The operator's default class: what a pod's author needs permission for, for each feature with defaults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state, workload_of
from hosts import crun
from hosts.hostile_inputs import NASTY

from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.node.classes.memory import choice_or_default
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features import blockio, rdt_class, scheduling
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = {"namespaces": {"shop": "bronze"}}
CLASSES: dict[str, Any] = {
    "rdt": {"enabled": True, "classes": {"bronze": {}, "gold": {}}},
    "scheduling": {"enabled": True, "classes": {"bronze": {"cpuWeight": 20}, "gold": {"cpuWeight": 500}}},
    "blockio": {"enabled": True, "classes": {"bronze": [{"weight": 20}], "gold": [{"weight": 500}]}},
    "memory": {"allowLimits": {}},
}
BY_NAME = {"classes": [{"name": "bronze", "allowswap": False}, {"name": "gold", "allowswap": True}]}
FILES = {"cpu.weight": "100", "io.weight": "default 100", "memory.swap.max": "max", "memory.high": "max"}
NAMES = {
    "rdt": (rdt_class.OURS, rdt_class._NRI, f"{rdt_class._NRI}/pod", f"{rdt_class.OURS}/c0"),
    "scheduling": (*scheduling.ANNOTATIONS, f"{scheduling.ANNOTATIONS[0]}/container.c0"),
    "blockio": (*blockio.ANNOTATIONS, f"{blockio.ANNOTATIONS[1]}/pod"),
    "memory": ("class.memtierd.nri.io", "class.memtierd.nri.io/c0"),
}
NONE = ("", " ", "\t\n")
ROOT = ("/", "system/default")
REFUSED = (*NONE, *ROOT, "gold", "nothing-like-it", "none", "default", "*", "bronze,gold", *NASTY)


def node(root: Path, feature: str, allow: list[str], policy: str = "ignore", defaults: Any = DEFAULTS) -> Host:
    """Return a host with a default for one feature."""
    host = Host(root)
    host.add_class("bronze")
    host.add_class("gold")
    section = {**CLASSES[feature], "defaults": defaults, "allow": {"shop": allow}, "failurePolicy": policy}
    roots = {"runtimeRoots": {"crun": str(root / "crun")}}
    host.configure(**{feature: section, **roots, **(BY_NAME if feature == "memory" else {})})
    return host


def start(host: Host, notes: dict[str, str]) -> int:
    """Start a container with these annotations; return the hook's exit code."""
    pid = host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    for name, value in FILES.items():
        (folder / name).write_text(value)
    return host.call(state(pid=pid, bundle=host.bundle(), annotations=crio_annotations() | notes)).code


def chosen(host: Host, feature: str) -> str:
    """Return the class in the container's record; empty for none."""
    record = json.loads((host.state / "pods" / UID / f"c-{ID}").read_text())
    return next((step["needs"]["class"] for step in record["steps"] if step["feature"] == feature), "")


@pytest.fixture(params=NAMES)
def feature(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def test_table_has_each_feature_with_defaults() -> None:
    with_defaults = {name for name in FEATURES if name not in ("monitoring", "placement", "memtierd")}
    assert set(NAMES) == with_defaults


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: ascii(value)[:24])
def test_default_class_stays_whatever_an_author_without_permission_writes(
    tmp_path: Path, feature: str, value: str
) -> None:
    for number, name in enumerate(NAMES[feature]):
        host = node(tmp_path / str(number), feature, [])
        assert start(host, {name: value}) == 0
        assert chosen(host, feature) == "bronze", name
        log = host.log.read_text()
        assert log.count("the default is applied") == 1, log
        assert "Traceback" not in log


def test_default_class_stays_although_one_of_its_limits_is_refused(tmp_path: Path) -> None:
    for number, (name, value) in enumerate(
        {
            "memory.high.memtierd.nri.io": "junk",
            "memory.swap.max.memtierd.nri.io": "",
            "class.memtierd.nri.io": "gold",
        }.items()
    ):
        host = node(tmp_path / str(number), "memory", [])
        assert start(host, {name: value}) == 0
        assert chosen(host, "memory") == "bronze", name
        folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
        assert (folder / "memory.swap.max").read_text() == "0"


@pytest.mark.parametrize("limit", ["memory.swap.max.memtierd.nri.io", "memory.swap.max.memory-qos.nri.io"])
@pytest.mark.parametrize(
    "allow, default, found",
    [
        (["bronze"], DEFAULTS, "0"),
        (["bronze", "gold"], DEFAULTS, "0"),
        (["bronze", "none"], DEFAULTS, "max"),
        (["bronze"], {}, "max"),
    ],
)
def test_named_class_keeps_its_limits_where_the_default_one_may_not_be_left(
    tmp_path: Path, limit: str, allow: list[str], default: Any, found: str
) -> None:
    host = node(tmp_path, "memory", allow, defaults=default)
    config = json.loads(host.config.read_text())
    config["classes"].append({"name": "ratio", "swaplimitratio": 0.5})  # the annotations of memory-qos are read
    host.config.write_text(json.dumps(config))
    assert start(host, {"class.memtierd.nri.io": "bronze", limit: ""}) == 0
    folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    assert (folder / "memory.swap.max").read_text() == found


@pytest.mark.parametrize("value", [*NONE, "gold"], ids=ascii)
def test_author_with_permission_leaves_the_default(tmp_path: Path, feature: str, value: str) -> None:
    host = node(tmp_path, feature, ["*"])
    assert start(host, {NAMES[feature][0]: value}) == 0
    assert chosen(host, feature) == value.strip()


@pytest.mark.parametrize(
    "allow, values, found", [("/", ROOT + NONE, ""), ("system/*", ROOT + NONE, ""), ("gold", ROOT + NONE, "bronze")]
)
def test_root_class_needs_permission_under_one_of_its_names(
    tmp_path: Path, allow: str, values: tuple[str, ...], found: str
) -> None:
    for number, value in enumerate(values):
        host = node(tmp_path / str(number), "rdt", [allow])
        assert start(host, {rdt_class.OURS: value}) == 0
        assert chosen(host, "rdt") == found


def test_word_none_permits_no_class(tmp_path: Path, feature: str) -> None:
    for number, (allow, found) in enumerate({"none": "", "gold": "bronze"}.items()):
        host = node(tmp_path / str(number), feature, [allow])
        assert start(host, {NAMES[feature][0]: ""}) == 0
        assert chosen(host, feature) == found


def test_unknown_class_that_a_pattern_allows_gets_the_default(tmp_path: Path, feature: str) -> None:
    host = node(tmp_path, feature, ["g*"])
    assert start(host, {NAMES[feature][0]: "gone"}) == 0
    assert chosen(host, feature) == "bronze"


@pytest.mark.parametrize("value", ["", "gold", "nothing-like-it"])
def test_refused_class_refuses_the_container_under_fail(tmp_path: Path, feature: str, value: str) -> None:
    host = node(tmp_path, feature, [], "fail")
    assert start(host, {NAMES[feature][0]: value}) != 0
    assert not (host.state / "pods" / UID / f"c-{ID}").exists()


def test_running_container_gets_the_default_also_under_fail(tmp_path: Path, feature: str) -> None:
    host = node(tmp_path, feature, [], "fail")
    pid = host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    bundle = host.bundle({"annotations": crio_annotations() | {NAMES[feature][0]: ""}, "linux": {}})
    crun.record(tmp_path / "crun", ID, pid, bundle, 1000)
    reconcile(host.context(), Options())
    assert chosen(host, feature) == "bronze"


def test_empty_annotation_without_a_default_is_no_request(tmp_path: Path, feature: str) -> None:
    host = node(tmp_path, feature, [], "fail", {})
    assert start(host, {NAMES[feature][0]: ""}) == 0
    assert chosen(host, feature) == ""


def test_refused_memory_class_leaves_the_parts_of_the_default_class(tmp_path: Path) -> None:
    host = node(tmp_path, "memory", [])
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    workload = workload_of(host, **{"class.memtierd.nri.io": "gold"})
    assert choice_or_default(workload, host.context().settings).name == "bronze"


@pytest.mark.parametrize(
    "text",
    [
        "rdt: {enabled: true, classes: {bronze: {MB: 20}}, allow: {shop: [none, /, system/default]}}",
        "scheduling: {enabled: true, classes: {bronze: {nice: 3}}, allow: {shop: [none]}}",
        "classes: [{name: bronze, allowswap: true}]\nmemory: {allow: {shop: [none]}}",
    ],
)
def test_config_check_accepts_the_permission_for_no_class(text: str) -> None:
    checked = check_text(text.encode(), "config.yaml")
    assert checked.config is not None
    assert "allow" not in " ".join(problem.key for problem in checked.problems)
