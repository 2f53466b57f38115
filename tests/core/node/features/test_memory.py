"""Memory classes: selection by annotations, accepted values, and writes to a container's cgroup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import FIXTURES, ID, POD_CGROUP, Host, always, state, workload_of

from resctrl_hooks.core.config.check import check_file
from resctrl_hooks.core.node import locks, registry
from resctrl_hooks.core.node.container.oci import Bundle, parse_state
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import memory
from resctrl_hooks.core.node.host.cgroup import CgroupError
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.registry import features_in_use

if TYPE_CHECKING:
    from hosts.faults import Fail

NOSWAP = {"name": "noswap", "allowswap": False}
CLASSES = [NOSWAP, {"name": "swap", "allowswap": True}, {"name": "leave"}]
CGROUP = f"{POD_CGROUP}/crio-{ID}"
VALUES = {
    "memory.swap.max": "max\n",
    "memory.high": "max\n",
    "memory.current": "1000000\n",
    "cgroup.controllers": "memory\n",
}


def give_limits(host: Host, path: str = CGROUP, **values: str) -> Path:
    """Put the files of a memory cgroup where a process is."""
    folder = host.cgroup / path.lstrip("/")
    for name, value in (VALUES | values).items():
        (folder / name).write_text(value)
    return folder


@pytest.fixture
def limits(host: Host, pod: dict[str, Any]) -> Path:
    """Return the pod's container's cgroup, with classes configured."""
    host.configure(classes=CLASSES, memory={"allowLimits": {"shop": ["memory.*"]}})
    return give_limits(host)


SCOPE = f"/machine.slice/libpod-{ID}.scope"


def below_scope(host: Host) -> tuple[Path, Path]:
    """Return the cgroups of a scope and of a container that crun has put below it, with their initial values."""
    if not (host.proc / "100").exists():
        host.process(100, f"{SCOPE}/container")
    return give_limits(host, SCOPE), give_limits(host, f"{SCOPE}/container")


def start(host: Host, pod: dict[str, Any], **annotations: str) -> Any:
    pod["annotations"] |= annotations
    return host.call(pod)


def refused(host: Host, pod: dict[str, Any], **annotations: str) -> str:
    """Return the reason for which a container is refused."""
    outcome = start(host, pod, **annotations)
    assert outcome.code == 79
    return str(outcome.stderr)


CLASS, SWAP, HIGH = "class.memtierd.nri.io", "memory.swap.max.memtierd.nri.io", "memory.high.memtierd.nri.io"


@pytest.mark.parametrize(
    "annotations, swap",
    [
        ({}, "max"),
        ({CLASS: "noswap"}, "0"),
        ({CLASS: "swap"}, "max"),
        ({CLASS: "noswap", f"{CLASS}/c0": "swap"}, "max"),
        ({CLASS: "noswap", f"{CLASS}/c0": ""}, "max"),
        ({CLASS: "swap", f"{CLASS}/c0": "noswap"}, "0"),
        ({CLASS: "noswap", f"{CLASS}/c1": "swap"}, "0"),
        ({CLASS: "noswap", SWAP: "8M"}, str(8 << 20)),
        ({CLASS: "noswap", SWAP: "8M", f"{SWAP}/c0": "9M"}, str(9 << 20)),
        ({CLASS: "noswap", f"{SWAP}/c0": ""}, "max"),
        ({SWAP: "0"}, "0"),
    ],
)
def test_annotations_work_as_in_plugin(
    host: Host, pod: dict[str, Any], limits: Path, annotations: dict[str, str], swap: str
) -> None:
    outcome = start(host, pod, **annotations)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert (limits / "memory.swap.max").read_text().strip() == swap


QOS_CLASS, QOS_HIGH = "class.memory-qos.nri.io", "memory.high.memory-qos.nri.io"
OOM = "memory.oom.group.memory-qos.nri.io"
GIB = 1 << 30


@pytest.fixture
def qos(host: Host, pod: dict[str, Any]) -> Path:
    """Return the cgroup of the pod's container, which has a memory limit of 1 GiB, with memory-qos' settings."""
    found = check_file(str(FIXTURES / "nri-memory-qos.yaml")).valid()
    host.configure(**found.model_dump(mode="json", by_alias=True, exclude_unset=True))
    (Path(pod["bundle"]) / "config.json").write_text(json.dumps({"linux": {"resources": {"memory": {"limit": GIB}}}}))
    return give_limits(host, **{"memory.oom.group": "1", "memory.max": str(GIB)})


@pytest.mark.parametrize(
    "annotations, high, swap, oom",
    [
        ({QOS_CLASS: "half"}, str(GIB // 2), "max", "1"),
        ({QOS_CLASS: "half", f"{QOS_CLASS}/c0": "most"}, str(GIB * 3 // 4), "max", "1"),
        ({QOS_CLASS: "half", f"{QOS_CLASS}/c0": ""}, "max", "max", "1"),
        ({QOS_CLASS: "half", QOS_HIGH: "64M"}, str(64 << 20), "max", "1"),
        ({f"{QOS_HIGH}/c0": "max", OOM: "0"}, "max", "max", "0"),
        ({CLASS: "half"}, str(GIB // 2), "max", "1"),
    ],
)
def test_annotations_of_memory_qos_work_as_in_plugin(
    host: Host, pod: dict[str, Any], qos: Path, annotations: dict[str, str], high: str, swap: str, oom: str
) -> None:
    outcome = start(host, pod, **annotations)
    assert (outcome.code, outcome.stderr) == (0, "")
    found = [(qos / name).read_text().strip() for name in ("memory.high", "memory.swap.max", "memory.oom.group")]
    assert found == [high, swap, oom]


@pytest.mark.parametrize(
    "annotations, why",
    [
        ({"memory.swap.max.memory-qos.nri.io": "0"}, "is not allowed; unifiedAnnotations"),
        ({OOM: "yes"}, "invalid memory.oom.group 'yes'; write 0 or 1"),
        ({QOS_CLASS: "none"}, "unknown memory class 'none'"),
        ({QOS_CLASS: "half", CLASS: "most"}, "name different classes"),
    ],
)
def test_impossible_annotation_of_memory_qos_is_refused(
    host: Host, pod: dict[str, Any], qos: Path, annotations: dict[str, str], why: str
) -> None:
    assert why in refused(host, pod, **annotations)


@pytest.mark.parametrize(
    "annotations, size, high",
    [
        ({}, GIB * 3 // 2, str(GIB * 3 // 4)),
        ({}, GIB // 2, str(GIB // 4)),
        ({QOS_HIGH: "64M"}, GIB // 2, str(64 << 20)),
    ],
    ids=["grown", "shrunk", "fixed"],
)
def test_memory_high_of_a_ratio_follows_a_resize(
    host: Host, pod: dict[str, Any], qos: Path, annotations: dict[str, str], size: int, high: str
) -> None:
    assert start(host, pod, **{QOS_CLASS: "half"}, **annotations).code == 0
    (qos / "memory.max").write_text(f"{size}\n")
    assert repaired(host) == (0 if annotations else 1)
    assert (qos / "memory.high").read_text().strip() == high
    assert repaired(host) == 0


def test_swap_ratio_without_memory_limit_is_refused(host: Host, pod: dict[str, Any], qos: Path) -> None:
    (Path(pod["bundle"]) / "config.json").write_text("{}")
    assert "has a swaplimitratio, but the container has no memory limit" in refused(host, pod, **{QOS_CLASS: "half"})


def test_annotations_of_memory_qos_are_left_to_its_plugin_without_its_settings(
    host: Host, pod: dict[str, Any], limits: Path
) -> None:
    assert start(host, pod, **{QOS_CLASS: "theirs", QOS_HIGH: "64M"}).code == 0
    assert (limits / "memory.high").read_text() == "max\n"


def test_absent_allowswap_changes_nothing(host: Host, pod: dict[str, Any], limits: Path) -> None:
    (limits / "memory.swap.max").write_text("12288\n")
    assert start(host, pod, **{CLASS: "leave"}).code == 0
    assert (limits / "memory.swap.max").read_text() == "12288\n"


def test_annotations_without_classes_are_ignored_at_no_cost(host: Host, pod: dict[str, Any]) -> None:
    folder = give_limits(host)
    assert [one.name for one in features_in_use(host.context().settings)] == ["monitoring"]
    assert start(host, pod, **{CLASS: "no-such-class", SWAP: "nonsense"}).code == 0
    assert (folder / "memory.swap.max").read_text() == "max\n"


def test_unknown_class_is_refused_with_known_names(host: Host, pod: dict[str, Any], limits: Path) -> None:
    why = refused(host, pod, **{CLASS: "gone"})
    assert "unknown memory class 'gone'" in why
    assert "noswap, swap, leave" in why
    assert host.groups() == []
    assert host.records() == []


@pytest.mark.parametrize("section", ["memory", "memtierd"])
def test_policy_ignore_continues_and_reports(host: Host, pod: dict[str, Any], limits: Path, section: str) -> None:
    host.configure(classes=CLASSES, **{section: {"failurePolicy": "ignore"}})
    outcome = start(host, pod, **{CLASS: "gone"})
    assert outcome.code == 0
    assert outcome.stderr.count("unknown memory class 'gone'") == 1
    assert len(host.groups()) == 1


@pytest.mark.parametrize("section", ["memory", "memtierd"])
def test_forbidden_class_is_refused(host: Host, pod: dict[str, Any], limits: Path, section: str) -> None:
    host.configure(classes=CLASSES, **{section: {"allow": {"shop": ["no*"], "bank": ["*"]}}})
    assert start(host, pod, **{CLASS: "noswap"}).code == 0
    why = refused(host, pod, **{CLASS: "swap"})
    assert "namespace shop is not allowed to use memory class 'swap'" in why
    assert f"{section}.allow" in why


@pytest.mark.parametrize("section", ["memory", "memtierd"])
def test_mistyped_class_suggests_the_allowed_one_with_a_similar_name(
    host: Host, pod: dict[str, Any], limits: Path, section: str
) -> None:
    host.configure(classes=CLASSES, **{section: {"allow": {"shop": ["noswap"]}}})
    for asked in ("noswp", "noswpa", "NoSwap"):
        why = refused(host, pod, **{CLASS: asked})
        assert f"is not allowed to use memory class '{asked}': unknown name; did you mean 'noswap'?" in why
    for asked in ("swap", "swp", "gone"):
        assert "did you mean" not in refused(host, pod, **{CLASS: asked})


def test_direct_limits_need_permission(host: Host, pod: dict[str, Any], limits: Path) -> None:
    host.configure(classes=CLASSES)
    assert "namespace shop is not allowed to set memory.high by annotation" in refused(host, pod, **{HIGH: "64M"})


def test_empty_annotation_needs_no_permission(host: Host, pod: dict[str, Any], limits: Path) -> None:
    host.configure(classes=CLASSES)
    assert start(host, pod, **{CLASS: "noswap", f"{SWAP}/c0": ""}).code == 0


def test_container_without_own_cgroup_is_reported(host: Host) -> None:
    host.configure(classes=CLASSES)
    host.process(100, "/")
    told = parse_state(json.dumps(state(annotations={CLASS: "noswap"})).encode())
    plain = derive(told, Bundle({}), cgroups_of(str(host.proc), 100), str(host.cgroup))
    with pytest.raises(CgroupError):
        registry.plan(memory.FEATURE, plain, host.context())


@pytest.mark.parametrize("value, words", [("1M", "would stall the container's start"), ("0", "would stall")])
def test_high_limit_near_zero_is_refused(host: Host, pod: dict[str, Any], limits: Path, value: str, words: str) -> None:
    assert words in refused(host, pod, **{HIGH: value})
    assert (limits / "memory.high").read_text() == "max\n"


def test_high_limit_below_current_use_is_refused(host: Host, pod: dict[str, Any], limits: Path) -> None:
    used = 40 << 20
    (limits / "memory.current").write_text(f"{used}\n")
    assert f"below the container's current {used} bytes" in refused(host, pod, **{HIGH: str(used - 1)})
    assert start(host, pod, **{HIGH: "40M"}).code == 0
    assert (limits / "memory.high").read_text() == str(used)


@pytest.mark.parametrize(
    "lines, words",
    [
        ("5:memory:/a\n0::/a\n", "mixes cgroup v1 and v2"),
        ("5:memory:/a\n4:cpu:/a\n", "uses cgroup v1"),
        ("0::/\n", "root cgroup"),
        ("0::/a/../..\n", "root cgroup"),
    ],
)
def test_hosts_and_containers_without_memory_cgroup_are_reported(
    host: Host, pod: dict[str, Any], limits: Path, lines: str, words: str
) -> None:
    (host.proc / "100/cgroup").write_text(lines)
    assert words in refused(host, pod | {"annotations": {}}, **{CLASS: "noswap"})


@pytest.fixture
def scope(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Return a systemd that accepts everything, and its calls."""
    told: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr("resctrl_hooks.core.node.host.systemd.available", always(value=True))
    monkeypatch.setattr(
        "resctrl_hooks.core.node.host.systemd.set_properties",
        lambda unit, properties, seconds: told.append((unit, properties, *locks._threads)),  # held keys
    )
    host.configure(classes=CLASSES, memory={"allowLimits": {"*": ["*"]}})
    return told


def test_crun_below_scope_writes_both(host: Host, scope: list[Any]) -> None:
    upper, lower = below_scope(host)
    outcome = start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "noswap", HIGH: "1G"})
    assert (outcome.code, outcome.stderr) == (0, "")
    assert scope == [(f"libpod-{ID}.scope", {"MemorySwapMax": "0", "MemoryHigh": "1073741824"})]
    assert [(folder / "memory.swap.max").read_text() for folder in (upper, lower)] == ["0", "0"]
    assert [(folder / "memory.high").read_text() for folder in (upper, lower)] == [str(1 << 30)] * 2


def test_max_is_infinity_for_systemd(host: Host, scope: list[Any]) -> None:
    host.process(100, SCOPE)
    give_limits(host, SCOPE)
    assert start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "swap"}).code == 0
    assert scope == [(f"libpod-{ID}.scope", {"MemorySwapMax": "infinity"})]


def test_only_leaf_is_written_below_service(host: Host, scope: list[Any]) -> None:
    path = f"/system.slice/web.service/libpod-payload-{ID}"
    host.process(100, path)
    service, leaf = give_limits(host, "/system.slice/web.service"), give_limits(host, path)
    assert start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "noswap"}).code == 0
    assert scope == []
    assert (service / "memory.swap.max").read_text() == "max\n"
    assert (leaf / "memory.swap.max").read_text() == "0"


def test_refusing_systemd_leaves_limits_that_reload_undoes(host: Host, scope: list[Any], fail: Fail) -> None:
    fail("resctrl_hooks.core.node.host.systemd", "set_properties", CgroupError("systemd says no"))
    upper, lower = below_scope(host)
    outcome = start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "noswap"})
    assert outcome.code == 0
    assert "are lost at the next systemctl daemon-reload" in outcome.stderr
    assert [(folder / "memory.swap.max").read_text() for folder in (upper, lower)] == ["0", "0"]


def test_plan_has_no_effect_and_needs_no_process(host: Host, pod: dict[str, Any], limits: Path) -> None:
    context = host.context()
    workload = workload_of(host, **{CLASS: "noswap"})
    (step,) = registry.plan(memory.FEATURE, workload, context)
    assert step.parameters == {"class": "noswap", "limits": {"memory.swap.max": "0"}}
    assert "memory class noswap by annotation class.memtierd.nri.io" in step.why
    assert (limits / "memory.swap.max").read_text() == "max\n"
    gone = workload_of(host, **{CLASS: "noswap"})
    host.end_process(100)
    assert [one.parameters for one in registry.plan(memory.FEATURE, gone, context)] == [step.parameters]
    with context.monitor.hold(gone.key) as locked, pytest.raises(CgroupError, match="process 100 has ended"):
        memory.FEATURE.apply(step, gone, locked, context)


def repaired(host: Host) -> int:
    return len(host.enforce().applied.get("memory", []))


def test_reconcile_repairs_undone_values(host: Host, pod: dict[str, Any], limits: Path) -> None:
    start(host, pod, **{CLASS: "noswap", HIGH: "64M"})
    assert repaired(host) == 0
    (limits / "memory.swap.max").write_text("max\n")
    (limits / "memory.current").write_text("90000000\n")  # above the high limit, which is active and stays
    assert repaired(host) == 1
    assert (limits / "memory.swap.max").read_text() == "0"
    assert (limits / "memory.high").read_text() == str(64 << 20)
    assert repaired(host) == 0


def test_high_limit_that_would_stall_now_is_reported_and_not_repaired(
    host: Host, pod: dict[str, Any], limits: Path
) -> None:
    start(host, pod, **{HIGH: "64M"})
    (limits / "memory.high").write_text("max\n")
    (limits / "memory.current").write_text("90000000\n")
    (why,) = host.enforce().events["failed"].values()
    assert "memory.high 67108864 is below the" in why
    assert (limits / "memory.high").read_text() == "max\n"
    host.end_process(100)
    assert repaired(host) == 0


def test_repair_in_scope_is_sent_to_systemd(host: Host, scope: list[Any]) -> None:
    upper, lower = below_scope(host)
    start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "noswap"})
    scope.clear()
    below_scope(host)
    assert repaired(host) == 1
    assert scope == [(f"libpod-{ID}.scope", {"MemorySwapMax": "0"})]
    assert [(folder / "memory.swap.max").read_text() for folder in (upper, lower)] == ["0", "0"]


def test_scope_is_repaired_if_leaf_has_its_limit_and_exceeds_it(host: Host, scope: list[Any]) -> None:
    """Exceeding an active high limit is normal, so writing it again delays nothing."""
    upper, lower = below_scope(host)
    start(host, state(bundle=host.bundle(), annotations={}), **{HIGH: "64M"})
    (lower / "memory.current").write_text("90000000\n")
    (upper / "memory.high").write_text("max\n")
    report = host.enforce()
    assert (len(report.applied["memory"]), report.events["failed"]) == (1, {})
    assert (upper / "memory.high").read_text() == (lower / "memory.high").read_text() == str(64 << 20)


def test_undo_does_nothing(host: Host, limits: Path) -> None:
    context = Context(host.context().settings)
    with context.monitor.hold("k") as locked:
        memory.FEATURE.revert(Step("memory", "limit", {}, ""), {"id": ID}, locked, context)
    assert (limits / "memory.swap.max").read_text() == "max\n"
