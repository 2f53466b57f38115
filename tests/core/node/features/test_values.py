"""Values of classes: of memory by annotation, of block I/O by device, of scheduling by thread."""

import json
import os
import posix
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import FIXTURES, ID, POD_CGROUP, Host, state, workload_of
from hosts.faults import Fail, failing
from hosts.processes import headless_process, is_headless, wait_until
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.config.applied import compiled
from resctrl_hooks.core.config.check import check_file, check_text
from resctrl_hooks.core.node import feature, registry, settings
from resctrl_hooks.core.node.classes.choice import ClassError
from resctrl_hooks.core.node.container import oci, running, runtimes
from resctrl_hooks.core.node.features import blockio, scheduling
from resctrl_hooks.core.node.host.procfs import start_time

CLASSES = [{"name": "noswap", "allowswap": False}, {"name": "swap", "allowswap": True}, {"name": "leave"}]
CGROUP = f"{POD_CGROUP}/crio-{ID}"
CLASS, SWAP, HIGH = "class.memtierd.nri.io", "memory.swap.max.memtierd.nri.io", "memory.high.memtierd.nri.io"
QOS_CLASS, QOS_HIGH = "class.memory-qos.nri.io", "memory.high.memory-qos.nri.io"
OOM = "memory.oom.group.memory-qos.nri.io"
GIB = 1 << 30


def give_limits(host: Host, **values: str) -> Path:
    """Put the files of a memory cgroup where the process of a container is."""
    folder = host.cgroup / CGROUP.lstrip("/")
    usual = {"memory.swap.max": "max\n", "memory.high": "max\n", "memory.current": "1000000\n"}
    for name, value in (usual | {"cgroup.controllers": "memory"} | values).items():
        (folder / name).write_text(value)
    return folder


@pytest.fixture
def limits(host: Host, pod: dict[str, Any]) -> Path:
    """Return the pod's container's cgroup, with classes configured."""
    host.configure(classes=CLASSES, memory={"allowLimits": {"shop": ["memory.*"]}})
    return give_limits(host)


def start(host: Host, pod: dict[str, Any], **annotations: str) -> Any:
    return host.call({**pod, "annotations": {**pod["annotations"], **annotations}})


def refused(host: Host, pod: dict[str, Any], **annotations: str) -> str:
    """Return the reason for which a container is refused."""
    outcome = start(host, pod, **annotations)
    assert (outcome.code, host.records()) == (79, [])
    return str(outcome.stderr)


@pytest.mark.parametrize("annotations, swap", [
    ({}, "max"), ({CLASS: "noswap"}, "0"), ({CLASS: "swap"}, "max"), ({CLASS: "noswap", f"{CLASS}/c0": "swap"}, "max"),
    ({CLASS: "noswap", f"{CLASS}/c0": ""}, "max"), ({CLASS: "swap", f"{CLASS}/c0": "noswap"}, "0"),
    ({CLASS: "noswap", f"{CLASS}/c1": "swap"}, "0"), ({CLASS: "noswap", SWAP: "8M"}, str(8 << 20)),
    ({CLASS: "noswap", SWAP: "8M", f"{SWAP}/c0": "9M"}, str(9 << 20)), ({CLASS: "noswap", f"{SWAP}/c0": ""}, "max"),
    ({SWAP: "0"}, "0"), ({CLASS: "leave"}, "max"), ({QOS_CLASS: "theirs", QOS_HIGH: "64M"}, "max"),
])  # fmt: skip
def test_annotations_work_as_in_plugin(host: Host, pod: Any, limits: Path, annotations: Any, swap: str) -> None:
    outcome = start(host, pod, **annotations)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert (limits / "memory.swap.max").read_text().strip() == swap
    assert (limits / "memory.high").read_text() == "max\n", "annotations of another plugin are left to it"


@pytest.fixture
def qos(host: Host, pod: dict[str, Any]) -> Path:
    """Return the cgroup of the pod's container, which has a memory limit of 1 GiB, with memory-qos' settings."""
    found = check_file(str(FIXTURES / "nri-memory-qos.yaml")).valid()
    host.configure(**found.model_dump(by_alias=True, exclude_unset=True))
    (Path(pod["bundle"]) / "config.json").write_text(json.dumps({"linux": {"resources": {"memory": {"limit": GIB}}}}))
    return give_limits(host, **{"memory.oom.group": "1", "memory.max": str(GIB)})


@pytest.mark.parametrize("annotations, high, oom, resized", [
    ({QOS_CLASS: "half"}, GIB // 2, "1", GIB // 4),
    ({QOS_CLASS: "half", f"{QOS_CLASS}/c0": "most"}, GIB * 3 // 4, "1", GIB * 3 // 8),
    ({QOS_CLASS: "half", f"{QOS_CLASS}/c0": ""}, "max", "1", "max"),
    ({QOS_CLASS: "half", QOS_HIGH: "64M"}, 64 << 20, "1", 64 << 20),
    ({f"{QOS_HIGH}/c0": "max", OOM: "0"}, "max", "0", "max"), ({CLASS: "half"}, GIB // 2, "1", GIB // 4),
])  # fmt: skip
def test_annotations_of_memory_qos_work_as_in_plugin_and_a_ratio_follows_a_resize(
    host: Host, pod: dict[str, Any], qos: Path, annotations: dict[str, str], high: object, oom: str, resized: object
) -> None:
    outcome = start(host, pod, **annotations)
    assert (outcome.code, outcome.stderr) == (0, "")
    found = [(qos / name).read_text().strip() for name in ("memory.high", "memory.swap.max", "memory.oom.group")]
    assert found == [str(high), "max", oom]
    (qos / "memory.max").write_text(f"{GIB // 2}\n")
    for times in (1, 0):
        assert len(host.enforce().applied.get("memory", [])) == (times if resized != high else 0)
        assert (qos / "memory.high").read_text().strip() == str(resized)


def test_impossible_annotation_of_memory_qos_is_refused(host: Host, pod: dict[str, Any], qos: Path) -> None:
    for annotations, why in (
        ({"memory.swap.max.memory-qos.nri.io": "0"}, "is not allowed; unifiedAnnotations"),
        ({OOM: "yes"}, "invalid memory.oom.group 'yes'; write 0 or 1"),
        ({QOS_CLASS: "none"}, "unknown memory class 'none'"),
        ({QOS_CLASS: "half", CLASS: "most"}, "name different classes"),
    ):  # fmt: skip
        assert why in refused(host, pod, **annotations)
    (Path(pod["bundle"]) / "config.json").write_text("{}")
    assert "has a swaplimitratio, but the container has no memory limit" in refused(host, pod, **{QOS_CLASS: "half"})


@pytest.mark.parametrize("section", ["memory", "memtierd"])
def test_forbidden_class_is_refused_and_a_similar_suggested(host: Host, pod: Any, limits: Path, section: str) -> None:
    host.configure(classes=CLASSES, **{section: {"allow": {"shop": ["no*"], "bank": ["*"]}}})
    assert start(host, pod, **{CLASS: "noswap"}).code == 0
    host.end_process(100)
    host.call(state(status="stopped", pid=0))
    host.configure(classes=CLASSES, **{section: {"allow": {"shop": ["noswap"]}}}, monitoring={"enabled": False})
    for asked, meant in {"noswp": "noswap", "NoSwap": "noswap", "swap": "", "swp": "", "gone": ""}.items():
        why = start(host, pod, **{CLASS: asked}).stderr
        assert f"namespace shop is not allowed to use memory class '{asked}'" in why
        assert ("unknown name; did you mean 'noswap'?" in why) == bool(meant)
        assert (f"{section}.allow" in why) != bool(meant)


def test_high_limit_that_would_stall_the_container_is_refused(host: Host, pod: dict[str, Any], limits: Path) -> None:
    used = 40 << 20
    (limits / "memory.current").write_text(f"{used}\n")
    for value, words in (("1M", "would stall"), ("0", "would stall"), (str(used - 1), f"container's current {used} b")):
        assert words in refused(host, pod, **{HIGH: value})
        assert (limits / "memory.high").read_text() == "max\n"
    assert start(host, pod, **{HIGH: "40M"}).code == 0
    assert (limits / "memory.high").read_text() == str(used)


@given(st.integers(0, 1 << 20), st.sampled_from(("", "k", "K", "M", "G", "T", "ki", "Ki", "Mi", "Gi", "Ti")))
def test_amounts_are_kubernetes_quantities(number: int, unit: str) -> None:
    power = " KMGT".index(unit[:1].upper()) if unit else 0
    assert blockio.amount(f"{number}{unit}") == number * (1024 if unit.endswith("i") else 1000) ** power
    assert blockio.amount(number) == number


GORESCTRLS = b"""
blockio:
  enabled: true
  Classes:
    Throttled:
      - Weight: 80
      - Devices: ["/dev/sd[a-c]", "/dev/vd[ac-d]*[1]"]
        ThrottleReadBps: 50M
        ThrottleWriteBps: 10Mi
        ThrottleReadIOPS: 10k
        ThrottleWriteIOPS: 5k
        Weight: 50
      - Devices: [/dev/other]
        ThrottleReadBps: 5
"""


def test_goresctrl_classes_are_accepted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys begin with capitals, and its patterns have brackets; a later part overrides an earlier one."""
    checked = check_text(GORESCTRLS, "config.yaml")
    assert checked.problems == []
    host.config.write_bytes(compiled(checked.valid()))
    tried: list[str] = []
    monkeypatch.setattr(blockio, "matches", lambda pattern, _: tried.append(pattern))
    monkeypatch.setattr(blockio, "list_folder", lambda _: ["any"])
    spec = settings.load(str(host.config))[0].blockio["classes"]["Throttled"]
    assert blockio.values_of(spec, "/sys") == ([["io.weight", "default 80"]], 80)
    assert tried == ["sda", "sdb", "sdc", "vda*1", "vdc*1", "vdd*1", "other"]
    monkeypatch.setattr(blockio, "devices_of", lambda patterns, _: ["8:0", "8:16"][-len(patterns) :])
    assert blockio.values_of(spec[2:], "/sys") == ([["io.max", "8:16 rbps=5"]], 0)
    every = "wbps=10485760 riops=10000 wiops=5000"
    assert blockio.values_of(spec, "/sys")[0] == [
        ["io.max", f"8:0 rbps=50000000 {every}"], ["io.max", f"8:16 rbps=5 {every}"], ["io.weight", "default 80"],
        ["io.weight", "8:0 50"], ["io.weight", "8:16 50"],
    ]  # fmt: skip


def test_whole_disks_of_matching_devices_are_sorted_and_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sda").touch()
    assert blockio.devices_of([f"{tmp_path}/s*", "/dev/nul?", "/nowhere/*"], "/sys") == []
    (tmp_path / "dev/block").mkdir(parents=True)
    for number in range(3):
        (tmp_path / f"dev/block/8:{number}").mkdir()
    (tmp_path / "dev/block/8:1/partition").write_text("1\n")
    (tmp_path / "dev/block/dev").write_text("8:0\n")
    block = stat.S_IFBLK | 0o660
    kinds: dict[str, tuple[int, int, int]] = {"notes": (stat.S_IFREG, 0, 0), "sdc": (0, 0, 0)}
    kinds |= {name: (block, 8, number) for number, name in enumerate(("sda", "sda1", "sdb"))}
    monkeypatch.setattr(blockio, "list_folder", {"/dev": list(kinds), "/": ["sda"]}.__getitem__)

    def seen(path: str) -> SimpleNamespace:
        if path == "/dev/sdc":
            raise FileNotFoundError(path)
        mode, *number = kinds[path.rpartition("/")[2]]
        return SimpleNamespace(st_mode=mode, st_rdev=os.makedev(*number))

    monkeypatch.setattr("posix.stat", seen)
    assert blockio.devices_of(["/dev/sd*", "/dev/n*"], str(tmp_path)) == ["8:0", "8:2"]  # sdc has gone meanwhile
    assert blockio.devices_of(["/dev/sdb", "/dev/sda1", "/dev/sda"], str(tmp_path)) == ["8:2", "8:0"]
    assert blockio.devices_of(["/sda"], str(tmp_path)) == ["8:0"]


def test_limits_of_the_specification_stay(host: Host, fail: Fail) -> None:
    host.configure(blockio={"enabled": True, "allow": {"*": ["*"]}, "classes": {"slow": [{"weight": 30}]}})
    host.process(100, CGROUP)
    by_nri = workload_of(host, **{"blockioclass.resource-policy.nri.io/pod": "slow"})
    (step,) = registry.plan(blockio.FEATURE, by_nri, host.context())
    assert step.parameters["class"] == "slow"
    by_nri.bundle = oci.Bundle({"linux": {"resources": {"blockIO": {"weight": 10}}}})
    (step,) = registry.plan(blockio.FEATURE, by_nri, host.context())
    assert (step.action, step.why) == ("skip", "the runtime limits its block I/O; left unchanged")
    assert step.foreign == ["limits of the specification instead of class slow"]
    fail(blockio, "chosen_class", ClassError("no such class"))
    assert blockio._foreign(by_nri, host.context()) == []


@pytest.mark.parametrize("there, wanted", [
    (["io.bfq.weight"], {"io.bfq.weight": "default 1000"}),
    (["io.weight", "io.bfq.weight"], {"io.weight": "default 3000", "io.bfq.weight": "default 1000"}),
])  # fmt: skip
def test_bfq_weights_are_written_and_repaired_where_loaded(host: Host, pod: Any, there: list[str], wanted: Any) -> None:
    host.configure(blockio={"enabled": True, "allow": {"shop": ["*"]}, "classes": {"fast": [{"weight": 3000}]}})
    folder = host.cgroup / CGROUP.lstrip("/")
    for undone in (*there, None):
        for name in [undone] if undone and wanted.keys() <= {path.name for path in folder.iterdir()} else there:
            (folder / name).write_text("default 100\n")
        if undone == there[0]:
            start(host, pod, **{"class.blockio.resctrl-hooks.io": "fast"})
        else:
            host.enforce()
        assert {name: (folder / name).read_text() for name in there} == wanted
    assert host.enforce().applied == {}


def test_attributes_apply_to_every_thread_and_are_compared() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        pid = process.pid
        scheduling._schedule(pid, {"policy": "batch", "nice": 7})
        assert (os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)) == (os.SCHED_BATCH, 7)
        matching: list[Any] = [{}, {"nice": 7}, {"policy": "batch"}, {"policy": "batch", "nice": 7}]
        other: list[Any] = [{"policy": "idle", "nice": 7}, {"policy": "batch", "nice": 8}, {"priority": 1}]
        assert [scheduling._is_scheduled(pid, one) for one in (*matching, *other)] == [True] * 4 + [False] * 3
        scheduling._set_io_priority([pid], {"ioClass": "best-effort", "ioPriority": 6})
        said = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        assert said.strip() == "best-effort: prio 6"
        process.kill()
    scheduling._schedule(pid, {"policy": "batch", "nice": 7})
    names = {"normal": "OTHER", "fifo": "FIFO", "rr": "RR", "batch": "BATCH", "idle": "IDLE"}
    assert {name: getattr(os, f"SCHED_{one}") for name, one in names.items()} == scheduling.POLICIES


def test_schedule_of_container_without_main_thread_is_that_of_a_living_thread(tmp_path: Path) -> None:
    host = Host(tmp_path, real_proc=True)
    needs = {"process": {"nice": 7, "ioClass": "best-effort", "ioPriority": 6}, "values": []}
    with headless_process() as process:
        wait_until(lambda: is_headless(process.pid), "its main thread has ended")
        found = runtimes.Found(ID, process.pid, start_time("/proc", process.pid), "")
        container = running.Running(ID, found, {"steps": []}, recorded=True)
        step = feature.Step(scheduling.NAME, "schedule", needs, "")
        assert not scheduling.FEATURE.holds(step, container, host.context())
        with host.context().monitor.hold(ID) as locked:
            scheduling.FEATURE.apply(step, container, locked, host.context())
        assert scheduling.FEATURE.holds(step, container, host.context())
    assert scheduling.FEATURE.holds(step, container, host.context()), "nothing is left to schedule"


@pytest.mark.parametrize("spec, values, properties", [
    ({"cpuIdle": True}, [["cpu.idle", "1"]], {"CPUWeight": "idle"}), ({"cpuIdle": False}, [["cpu.idle", "0"]], {}),
    ({"cpuMax": "50000 100000"}, [["cpu.max", "50000 100000"]],
     {"CPUQuota": "50.00%", "CPUQuotaPeriodSec": "100000us"}),
    ({"cpuMax": "max"}, [["cpu.max", "max 100000"]], {"CPUQuota": "", "CPUQuotaPeriodSec": "100000us"}),
    ({"uclampMin": 12.5, "uclampMax": 50}, [["cpu.uclamp.min", "12.50"], ["cpu.uclamp.max", "50.00"]], {}),
    ({"memoryMax": "max"}, [["memory.max", "max"]], {"MemoryMax": "infinity"}),
    ({"hugepages": {"2MB": "1G"}}, [["hugetlb.2MB.max", "1073741824"]], {}),
])  # fmt: skip
def test_class_gives_values(spec: dict[str, Any], values: list[list[str]], properties: dict[str, str]) -> None:
    assert scheduling.cgroup_values_of(spec) == values
    assert scheduling.properties_of(values) == properties
    step = feature.Step(
        "scheduling", "schedule", {"class": "a", "process": {}, "values": values, "properties": properties}, ""
    )
    nothing: Any = None
    assert scheduling.FEATURE.values(step) == values
    assert scheduling.FEATURE.properties(step, nothing, nothing) == properties


def test_ended_process_needs_no_scheduling_and_a_refused_real_time_policy_has_a_hint(fail: Fail) -> None:
    for name in ("sched_getscheduler", "sched_getparam", "getpriority"):
        fail(posix, name, ProcessLookupError())
    wishes: list[Any] = [{"policy": "batch"}, {"priority": 3}, {"nice": 5}]
    assert [scheduling._is_scheduled(100, wanted) for wanted in wishes] == [True] * 3
    refusals: list[Any] = [(1, "fifo", True), (1, "rr", True), (1, "batch", False), (22, "rr", False)]
    for number, policy, hint in refusals:
        refusal = OSError(number, os.strerror(number))
        with failing(posix, "sched_setscheduler", refusal), pytest.raises(ClassError) as caught:
            scheduling._schedule(100, {"policy": policy})
        assert (caught.value.errno, "has no real-time budget" in str(caught.value)) == (number, hint)


@pytest.mark.parametrize("process, words, shown", [
    ({"ioClass": "best-effort"}, ["-c", "2", "-n", "4"], "best-effort: prio 4"),
    ({"ioClass": "realtime", "ioPriority": 0}, ["-c", "1", "-n", "0"], "realtime: prio 0"),
    ({"ioClass": "idle"}, ["-c", "3"], "idle"),
])  # fmt: skip
def test_io_priority_is_set_and_read_with_ionice(monkeypatch: Any, process: Any, words: list[str], shown: str) -> None:
    calls: list[list[str]] = []
    answers = iter([(0, ""), (0, f"{shown}\n"), (0, "none: prio 0\n"), (1, ""), (1, "no permission")])

    def run(arguments: list[str], _: float) -> tuple[int, str]:
        calls.append(arguments)
        return next(answers)

    monkeypatch.setattr("resctrl_hooks.core.node.host.programs.run", run)
    monkeypatch.setattr("resctrl_hooks.core.node.host.programs.find_program", lambda name: f"/usr/bin/{name}")
    scheduling._set_io_priority([7, 8], process)
    assert [scheduling._is_scheduled(7, process) for _ in range(3)] == [True, False, True]
    with pytest.raises(ClassError, match="no permission"):
        scheduling._set_io_priority([7], process)
    assert calls[:2] == [["/usr/bin/ionice", *words, "-p", "7", "8"], ["/usr/bin/ionice", "-p", "7"]]


def test_scheduler_of_the_specification_stays() -> None:
    mine: Any = {"policy": "batch", "nice": 5}
    for theirs, process, kept in (
        ({}, mine, []), (mine, mine, []),
        ({"policy": "rr", "priority": 3}, {}, ["policy rr priority 3 instead of policy batch nice 5"]),
    ):  # fmt: skip
        found: list[str] = []
        assert scheduling._process_of(mine, theirs, found) == process
        assert found == kept
