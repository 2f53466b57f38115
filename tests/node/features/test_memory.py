"""Memory classes: selection by annotations, accepted values, and writes to a container's cgroup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from conftest import FIXTURES, ID, POD_CGROUP, Host, always, fixture, state, workload_of
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.config.check import check_file
from resctrl_hooks.node import registry
from resctrl_hooks.node.classes.memory import MemoryClassError, choice_of
from resctrl_hooks.node.container.oci import Bundle, parse_state
from resctrl_hooks.node.container.workload import derive
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.feature import Step
from resctrl_hooks.node.features import memory
from resctrl_hooks.node.host import cgroup
from resctrl_hooks.node.host.cgroup import CgroupError, Leaf, same_value, write_value
from resctrl_hooks.node.host.procfs import cgroups_of
from resctrl_hooks.node.registry import features_in_use
from resctrl_hooks.node.settings import Settings

if TYPE_CHECKING:
    from hosts.faults import Fail

NOSWAP = {"name": "noswap", "allowswap": False}
CLASSES = [NOSWAP, {"name": "swap", "allowswap": True}, {"name": "leave"}]
ANYTHING = {"*": ["*"]}
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


def start(host: Host, pod: dict[str, Any], **annotations: str) -> Any:
    pod["annotations"] |= annotations
    return host.call(pod)


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
    return give_limits(host, **{"memory.oom.group": "1"})


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
    outcome = start(host, pod, **annotations)
    assert outcome.code == 79
    assert why in outcome.stderr


def test_swap_ratio_without_memory_limit_is_refused(host: Host, pod: dict[str, Any], qos: Path) -> None:
    (Path(pod["bundle"]) / "config.json").write_text("{}")
    outcome = start(host, pod, **{QOS_CLASS: "half"})
    assert outcome.code == 79
    assert "has a swaplimitratio, but the container has no memory limit" in outcome.stderr


def test_annotations_of_memory_qos_are_left_to_its_plugin_without_its_settings(
    host: Host, pod: dict[str, Any], limits: Path
) -> None:
    assert start(host, pod, **{QOS_CLASS: "theirs", QOS_HIGH: "64M"}).code == 0
    assert (limits / "memory.high").read_text() == "max\n"


def test_absent_allowswap_changes_nothing(host: Host, pod: dict[str, Any], limits: Path) -> None:
    (limits / "memory.swap.max").write_text("12288\n")
    assert start(host, pod, **{CLASS: "leave"}).code == 0
    assert (limits / "memory.swap.max").read_text() == "12288\n"


def test_plugin_sample_with_captured_pod_works() -> None:
    sample = yaml.safe_load((FIXTURES / "nri-memtierd.yaml").read_text())
    captured = fixture("crio-crun-createRuntime-state.json")
    workload = derive(parse_state(json.dumps(captured).encode()), Bundle({}), [], "/sys/fs/cgroup")
    choice = choice_of(workload, Settings(sample))
    assert (choice.name, choice.limits) == ("swap-idle-data", {"memory.swap.max": "max"})
    workload.container = "c1"
    assert choice_of(workload, Settings(sample)).name == ""


def test_annotations_without_classes_are_ignored_at_no_cost(host: Host, pod: dict[str, Any]) -> None:
    folder = give_limits(host)
    assert [one.name for one in features_in_use(host.context().settings)] == ["monitoring"]
    assert start(host, pod, **{CLASS: "no-such-class", SWAP: "nonsense"}).code == 0
    assert (folder / "memory.swap.max").read_text() == "max\n"


def test_unknown_class_is_refused_with_known_names(host: Host, pod: dict[str, Any], limits: Path) -> None:
    outcome = start(host, pod, **{CLASS: "gone"})
    assert outcome.code == 79
    assert "unknown memory class 'gone'" in outcome.stderr
    assert "noswap, swap, leave" in outcome.stderr
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
    outcome = start(host, pod, **{CLASS: "swap"})
    assert outcome.code == 79
    assert "namespace shop is not allowed to use memory class 'swap'" in outcome.stderr
    assert f"{section}.allow" in outcome.stderr


def test_direct_limits_need_permission(host: Host, pod: dict[str, Any], limits: Path) -> None:
    host.configure(classes=CLASSES)
    outcome = start(host, pod, **{HIGH: "64M"})
    assert outcome.code == 79
    assert "namespace shop is not allowed to set memory.high by annotation" in outcome.stderr


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


@pytest.mark.parametrize("more, code", [(-1, 79), (0, 0)])
def test_high_limit_must_exceed_use_by_a_minimum(
    host: Host, pod: dict[str, Any], limits: Path, more: int, code: int
) -> None:
    (limits / "memory.current").write_text(f"{4 << 20}\n")
    assert start(host, pod, **{HIGH: str((4 << 20) + more)}).code == code


@pytest.mark.parametrize("value, words", [("1M", "would stall the container's start"), ("0", "would stall")])
def test_high_limit_near_zero_is_refused(host: Host, pod: dict[str, Any], limits: Path, value: str, words: str) -> None:
    outcome = start(host, pod, **{HIGH: value})
    assert outcome.code == 79
    assert words in outcome.stderr
    assert (limits / "memory.high").read_text() == "max\n"


def test_high_limit_below_current_use_is_refused(host: Host, pod: dict[str, Any], limits: Path) -> None:
    (limits / "memory.current").write_text("50000000\n")
    outcome = start(host, pod, **{HIGH: "40M"})
    assert outcome.code == 79
    assert "below the container's current 50000000 bytes" in outcome.stderr
    assert start(host, pod, **{HIGH: "60M"}).code == 0
    assert (limits / "memory.high").read_text() == str(60 << 20)


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
    outcome = start(host, pod | {"annotations": {}}, **{CLASS: "noswap"})
    assert outcome.code == 79
    assert words in outcome.stderr


def test_each_kernel_refusal_has_its_words(tmp_path: Path) -> None:
    folder = tmp_path / "leaf"
    with pytest.raises(CgroupError, match="the container has ended"):
        write_value(str(folder), "memory.high", "max")
    folder.mkdir()
    with pytest.raises(CgroupError, match="memory controller is not enabled"):
        write_value(str(folder), "memory.high", "max")
    assert not (folder / "memory.high").exists()
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(CgroupError, match=r"this kernel has no memory.swap.max.*CONFIG_SWAP"):
        write_value(str(folder), "memory.swap.max", "0")
    outside = tmp_path / "outside"
    outside.write_text("safe")
    (folder / "memory.high").symlink_to(outside)
    with pytest.raises(CgroupError, match="cannot write"):
        write_value(str(folder), "memory.high", "max")
    assert outside.read_text() == "safe"


def test_value_changed_by_kernel_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.high").write_text("max")
    monkeypatch.setattr(cgroup, "read_value", always("0"))
    with pytest.raises(CgroupError, match=r"the kernel set memory.high to '0' instead of '5000'"):
        write_value(str(tmp_path), "memory.high", "5000")


@pytest.mark.parametrize(
    "name, have, want, same",
    [
        ("memory.high", "max", "max", True),
        ("memory.high", "0", "0", True),
        ("memory.max", "4096", "5000", True),
        ("memory.low", "0", "4096", False),
        ("memory.high", "max", "1", False),
        ("hugetlb.2MB.max", "2097152", "3000000", True),
        ("hugetlb.2MB.max", "2097152", "5000000", False),
        ("hugetlb.1GB.max", "1073741824", "2000000000", True),
        ("hugetlb.odd.max", "1", "2", False),
        ("cpu.weight", "20", "21", False),
        ("cpu.weight", "20", "20", True),
        ("cpuset.cpus", "1", "2", False),
        ("cpu.idle", "0", "1", False),
        ("cpu.uclamp.max", "max", "100.00", True),
        ("cpu.uclamp.max", "50.00", "100.00", False),
    ],
)
def test_values_match_their_file_format(name: str, have: str, want: str, same: bool) -> None:
    assert same_value(name, have, want) is same


@pytest.mark.parametrize(
    "path, unit, own",
    [
        (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", f"crio-{ID}.scope", True),
        (f"/machine.slice/libpod-{ID}.scope/container", f"libpod-{ID}.scope", True),
        (f"/machine.slice/libpod-{ID}.scope/container/inner", f"libpod-{ID}.scope", False),
        (f"/system.slice/web.service/libpod-payload-{ID}", "web.service", False),
        (f"/user.slice/user-0.slice/user@0.service/app.slice/libpod-{ID}.scope", "user@0.service", False),
        (f"/kubepods/burstable/pod1/{ID}", "", False),
        (f"/libpod_parent/libpod-{ID}", "", False),
        ("/machine.slice", "", False),
    ],
)
def test_systemd_unit_of_cgroup_is_found(path: str, unit: str, own: bool) -> None:
    leaf = Leaf("/sys/fs/cgroup", path)
    assert (leaf.unit, leaf.own_scope) == (unit, own)
    assert leaf.folder == f"/sys/fs/cgroup{path}"
    assert leaf.scope == (leaf.folder.removesuffix("/container") if own and path.endswith("/container") else "")


@pytest.fixture
def scope(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Return a systemd that accepts everything, and its calls."""
    told: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr("resctrl_hooks.node.host.systemd.available", always(value=True))
    monkeypatch.setattr(
        "resctrl_hooks.node.host.systemd.set_properties",
        lambda unit, properties, seconds: told.append((unit, properties)),
    )
    host.configure(classes=CLASSES, memory={"allowLimits": {"*": ["*"]}})
    return told


def test_crun_below_scope_writes_both(host: Host, scope: list[Any]) -> None:
    path = f"/machine.slice/libpod-{ID}.scope"
    host.process(100, f"{path}/container")
    upper, lower = give_limits(host, path), give_limits(host, f"{path}/container")
    outcome = start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "noswap", HIGH: "1G"})
    assert (outcome.code, outcome.stderr) == (0, "")
    assert scope == [(f"libpod-{ID}.scope", {"MemorySwapMax": "0", "MemoryHigh": "1073741824"})]
    assert [(folder / "memory.swap.max").read_text() for folder in (upper, lower)] == ["0", "0"]
    assert [(folder / "memory.high").read_text() for folder in (upper, lower)] == [str(1 << 30)] * 2


def test_max_is_infinity_for_systemd(host: Host, scope: list[Any]) -> None:
    host.process(100, f"/machine.slice/libpod-{ID}.scope")
    give_limits(host, f"/machine.slice/libpod-{ID}.scope")
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
    fail("resctrl_hooks.node.host.systemd", "set_properties", CgroupError("systemd says no"))
    path = f"/machine.slice/libpod-{ID}.scope"
    host.process(100, f"{path}/container")
    upper, lower = give_limits(host, path), give_limits(host, f"{path}/container")
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


def test_sandbox_has_no_class(host: Host) -> None:
    workload = workload_of(host, **{CLASS: "gone", "io.kubernetes.cri-o.ContainerType": "sandbox"})
    host.configure(classes=CLASSES)
    (step,) = registry.plan(memory.FEATURE, workload, host.context())
    assert (step.action, step.why) == ("skip", "memory does not apply to a pod's sandbox")


@given(st.text(min_size=1, max_size=40).filter(lambda name: name.strip() not in ("", "noswap", "swap", "leave")))
def test_annotation_never_selects_another_class(name: str) -> None:
    workload = derive(
        parse_state(json.dumps(state(annotations={CLASS: name})).encode()), Bundle({}), [], "/sys/fs/cgroup"
    )
    with pytest.raises(MemoryClassError):
        choice_of(workload, Settings({"classes": CLASSES}))


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
    (why,) = host.enforce().failures.values()
    assert "memory.high 67108864 is below the" in why
    assert (limits / "memory.high").read_text() == "max\n"
    host.end_process(100)
    assert repaired(host) == 0


def test_repair_in_scope_is_sent_to_systemd(host: Host, scope: list[Any]) -> None:
    path = f"/machine.slice/libpod-{ID}.scope"
    host.process(100, f"{path}/container")
    upper, lower = give_limits(host, path), give_limits(host, f"{path}/container")
    start(host, state(bundle=host.bundle(), annotations={}), **{CLASS: "noswap"})
    scope.clear()
    give_limits(host, path)
    give_limits(host, f"{path}/container")
    assert repaired(host) == 1
    assert scope == [(f"libpod-{ID}.scope", {"MemorySwapMax": "0"})]
    assert [(folder / "memory.swap.max").read_text() for folder in (upper, lower)] == ["0", "0"]


def test_scope_is_repaired_if_leaf_has_its_limit_and_exceeds_it(host: Host, scope: list[Any]) -> None:
    """Exceeding an active high limit is normal, so writing it again delays nothing."""
    path = f"/machine.slice/libpod-{ID}.scope"
    host.process(100, f"{path}/container")
    upper, lower = give_limits(host, path), give_limits(host, f"{path}/container")
    start(host, state(bundle=host.bundle(), annotations={}), **{HIGH: "64M"})
    (lower / "memory.current").write_text("90000000\n")
    (upper / "memory.high").write_text("max\n")
    report = host.enforce()
    assert (len(report.applied["memory"]), report.failures) == (1, {})
    assert (upper / "memory.high").read_text() == (lower / "memory.high").read_text() == str(64 << 20)


def test_undo_does_nothing(host: Host, limits: Path) -> None:
    context = Context(host.context().settings)
    with context.monitor.hold("k") as locked:
        memory.FEATURE.revert(Step("memory", "limit", {}, ""), {"id": ID}, locked, context)
    assert (limits / "memory.swap.max").read_text() == "max\n"
