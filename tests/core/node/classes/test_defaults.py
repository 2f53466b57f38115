"""The operator's default class: what a pod's author needs permission for, for each feature with defaults."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state, temporary_host, workload_of
from hosts.hostile_inputs import NASTY
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.node.classes import memory
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.features import blockio, rdt_class, scheduling
from resctrl_hooks.core.node.settings import Settings

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
ROOT = ("/", "system/default")
WORDS = ("", " ", "\t\n", *ROOT, "gold", "bronze", "nothing-like-it", "none", "default", "*", "bronze,gold")
FOLDER = f"{POD_CGROUP}/crio-{ID}".lstrip("/")


def configure(host: Host, feature: str, allow: list[str], policy: str = "ignore", defaults: Any = DEFAULTS) -> None:
    """Configure a default for one feature, for a process with a cgroup."""
    for name in ("bronze", "gold"):
        host.add_class(name)
    section = {**CLASSES[feature], "defaults": defaults, "allow": {"shop": allow}, "failurePolicy": policy}
    host.configure(**{feature: section, **(BY_NAME if feature == "memory" else {})})
    host.process(100, f"/{FOLDER}", rdt="/")
    for name, value in FILES.items():
        (host.cgroup / FOLDER / name).write_text(value)


def start(host: Host, notes: dict[str, str]) -> int:
    """Start a container with these annotations; return the hook's exit code."""
    return host.call(state(bundle=host.bundle(), annotations=crio_annotations() | notes)).code


def chosen(host: Host, feature: str) -> str:
    """Return the class in the container's record; empty for none."""
    record = json.loads((host.state / "pods" / UID / f"c-{ID}").read_text())
    return next((step["needs"]["class"] for step in record["steps"] if step["feature"] == feature), "")


def expected(feature: str, value: str, allow: list[str], default: str) -> tuple[str, bool]:
    """Return the class that a container gets, and whether its author's request is refused."""
    none = ("", *ROOT) if feature == "rdt" else ("",)
    if len(value) > 1024 or not all(one.isprintable() or one in "\n\t\r" for one in value):
        return default, True
    wanted = value.strip()
    if wanted in none:
        names = {*none, "none"} - {""}
        permitted = not default or any(fnmatchcase(name, pattern) for name in names for pattern in allow)
        return ("" if permitted else default), not permitted
    permitted = wanted in ("bronze", "gold") and any(fnmatchcase(wanted, pattern) for pattern in allow)
    return (wanted if permitted else default), not permitted


@settings(max_examples=80)
@given(
    st.sampled_from([(feature, name) for feature, names in NAMES.items() for name in names]),
    st.sampled_from(WORDS) | st.sampled_from(NASTY),
    st.lists(st.sampled_from(("gold", "g*", "*", "none", "/", "system/*", "other")), max_size=2),
    st.sampled_from(("bronze", "bronze", "")),
    st.sampled_from(("ignore", "fail")),
)
@example(("scheduling", scheduling.ANNOTATIONS[0]), "nothing-like-it", ["*"], "bronze", "ignore")
@example(("scheduling", scheduling.ANNOTATIONS[0]), "", ["none"], "bronze", "ignore")
def test_default_class_stays_whatever_an_author_without_permission_writes(
    place: tuple[str, str], value: str, allow: list[str], default: str, policy: str
) -> None:
    """And the request counts with permission; under `fail`, a refused one refuses the container."""
    feature, name = place
    found, refused = expected(feature, value, allow, default)
    with temporary_host() as host:
        configure(host, feature, allow, policy, DEFAULTS if default else {})
        code = start(host, {name: value})
        log = host.log.read_text()
        assert "Traceback" not in log
        if refused and policy == "fail":
            assert code == 79
            assert not (host.state / "pods" / UID / f"c-{ID}").exists()
            return
        assert (code, chosen(host, feature)) == (0, found)
        assert log.count("the default is applied") in ((1,) if refused and default else (0, int(refused))), log


def test_default_class_stays_although_one_of_its_limits_is_refused(host: Host) -> None:
    configure(host, "memory", [])
    for name, value in (("memory.high", "junk"), ("memory.swap.max", ""), ("class", "gold")):
        (host.cgroup / FOLDER / "memory.swap.max").write_text("max")
        assert start(host, {f"{name}.memtierd.nri.io": value}) == 0
        assert chosen(host, "memory") == "bronze", name
        assert (host.cgroup / FOLDER / "memory.swap.max").read_text() == "0"
    workload = workload_of(host, **{"class.memtierd.nri.io": "gold"})
    assert memory.choice_or_default(workload, host.context().settings).name == "bronze"


@pytest.mark.parametrize("limit", ["memory.swap.max.memtierd.nri.io", "memory.swap.max.memory-qos.nri.io"])
@pytest.mark.parametrize("allow, default, found", [
    (["bronze"], DEFAULTS, "0"), (["bronze", "gold"], DEFAULTS, "0"), (["bronze", "none"], DEFAULTS, "max"),
    (["bronze"], {}, "max"),
])  # fmt: skip
def test_named_class_keeps_its_limits(host: Host, limit: str, allow: list[str], default: Any, found: str) -> None:
    """With an empty limit, unless its author may leave the default class or there is none."""
    configure(host, "memory", allow, defaults=default)
    config = json.loads(host.config.read_text())
    config["classes"].append({"name": "ratio", "swaplimitratio": 0.5})  # the annotations of memory-qos are read
    host.config.write_text(json.dumps(config))
    assert start(host, {"class.memtierd.nri.io": "bronze", limit: ""}) == 0
    assert (host.cgroup / FOLDER / "memory.swap.max").read_text() == found


def test_config_check_accepts_the_permission_for_no_class() -> None:
    for text in (
        "rdt: {enabled: true, classes: {bronze: {MB: 20}}, allow: {shop: [none, /, system/default]}}",
        "scheduling: {enabled: true, classes: {bronze: {nice: 3}}, allow: {shop: [none]}}",
        "classes: [{name: bronze, allowswap: true}]\nmemory: {allow: {shop: [none]}}",
    ):
        checked = check_text(text.encode(), "config.yaml")
        assert checked.config is not None
        assert "allow" not in " ".join(problem.key for problem in checked.problems)


UNITS = {"": 1, "k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
NUMBERS = st.integers(0, 1 << 62) | st.sampled_from((0, 4095, 4096, (1 << 60) - 1, 1 << 60))


@given(NUMBERS, st.sampled_from(list(UNITS)))
def test_plain_amounts_from_a_page_to_an_exbibyte_are_accepted(number: int, unit: str) -> None:
    size = number * UNITS[unit]
    if size and not 4096 <= size < 1 << 60:
        with pytest.raises(memory.MemoryLimitError):
            memory.canonical("memory.high", f"{number}{unit}")
    elif number or not unit:
        assert memory.canonical("memory.high", f"{number}{unit}") == str(size)
    assert memory.canonical("memory.high", "max") == "max"


INVALID = (
    *("abc", "-1", "+5", "10MB", "1.5G", "1e9", "MAX", "50%", "", "\n", "010", "0x100", "10E", "00", "max\0", "\xb2"),
    *(" 10M", "10M\n", "\uff11\uff10M", "9" * 19, "99999999T", "9" * 5000, "M", "1_000_000"),
)


@given(st.sampled_from(INVALID) | st.text(max_size=30))
def test_any_other_value_is_refused_in_few_words(value: str) -> None:
    try:
        size = memory.canonical("memory.swap.max", value)
    except memory.MemoryLimitError as refused:
        said = str(refused)
    else:
        assert value not in INVALID
        assert size in ("max", "0") or 4096 <= int(size) < 1 << 60
        return
    assert len(said) < 250


@given(st.text(min_size=1, max_size=40).filter(lambda name: name.strip() not in ("", "noswap", "swap", "leave")))
def test_annotation_never_selects_another_class(name: str) -> None:
    settings = Settings({"classes": [{"name": one} for one in ("noswap", "swap", "leave")]})
    told = parse_state(json.dumps(state(annotations={"class.memtierd.nri.io": name})).encode())
    workload = derive(told, Bundle({}), [], "/sys/fs/cgroup")
    if not all(one.isprintable() or one in "\n\t\r" for one in name):
        assert memory.choice_of(workload, settings).name == ""  # the wish is dropped
        return
    with pytest.raises(memory.MemoryClassError):
        memory.choice_of(workload, settings)
