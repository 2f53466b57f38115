"""Scheduling and block I/O classes: selection, values, writes and repairs."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state
from hosts.processes import headless_process, is_headless, wait_until

from resctrl_hooks.core.config.applied import compiled
from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.node.container.running import Running
from resctrl_hooks.core.node.container.runtimes import Found
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features import blockio, scheduling
from resctrl_hooks.core.node.host.procfs import start_time, threads_of
from resctrl_hooks.core.node.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLASS = "class.scheduling.resctrl-hooks.io"
IO_CLASS = "class.blockio.resctrl-hooks.io"
CGROUP = f"{POD_CGROUP}/crio-{ID}"
SECTION = {
    "enabled": True,
    "allow": {"shop": ["batch", "small"]},
    "classes": {"batch": {"policy": "batch", "nice": 7}, "small": {"cpuWeight": 20, "memoryLow": "1M"}, "other": {}},
}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as started:
        yield started
        started.kill()


def configure(host: Host, **sections: Any) -> None:
    host.configure(monitoring={"enabled": False}, **sections)


def call(host: Host, **annotations: str) -> str:
    notes = crio_annotations() | {name.replace("__", "/"): value for name, value in annotations.items()}
    outcome = host.call(state(bundle=host.bundle(), annotations=notes))
    assert outcome.code == 0
    return outcome.log


def files(host: Host, **values: str) -> Path:
    folder = host.cgroup / CGROUP.lstrip("/")
    for name, value in values.items():
        (folder / name.replace("_", ".")).write_text(value)
    return folder


def test_policy_and_nice_apply_to_every_thread(process: subprocess.Popen[bytes]) -> None:
    for tid in threads_of("/proc", process.pid):
        scheduling._schedule(tid, {"policy": "batch", "nice": 7})
    assert os.sched_getscheduler(process.pid) == os.SCHED_BATCH
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 7


def test_ended_thread_is_skipped(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    scheduling._schedule(process.pid, {"policy": "batch", "nice": 7})


def test_io_priority_is_set(process: subprocess.Popen[bytes]) -> None:
    scheduling._set_io_priority([process.pid], {"ioClass": "best-effort", "ioPriority": 6})
    said = subprocess.run(["ionice", "-p", str(process.pid)], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "best-effort: prio 6"


def test_schedule_of_container_without_main_thread_is_that_of_a_living_thread(tmp_path: Path) -> None:
    host = Host(tmp_path, real_proc=True)
    needs = {"process": {"nice": 7, "ioClass": "best-effort", "ioPriority": 6}, "values": []}
    with headless_process() as process:
        wait_until(lambda: is_headless(process.pid), "its main thread has ended")
        found = Found(ID, process.pid, start_time("/proc", process.pid), "")
        container = Running(ID, found, {"steps": []}, recorded=True)
        step = Step(scheduling.NAME, "schedule", needs, "")
        assert not scheduling.FEATURE.holds(step, container, host.context())
        with host.context().monitor.hold(ID) as locked:
            scheduling.FEATURE.apply(step, container, locked, host.context())
        assert scheduling.FEATURE.holds(step, container, host.context())
    assert scheduling.FEATURE.holds(step, container, host.context()), "nothing is left to schedule"


def test_values_are_written_and_repaired(host: Host) -> None:
    configure(host, scheduling=SECTION)
    host.process(100, CGROUP)
    folder = files(host, cpu_weight="100\n", memory_low="0\n")
    assert "cpu.weight 20, memory.low 1048576: scheduling class small by annotation" in call(host, **{CLASS: "small"})
    assert (folder / "cpu.weight").read_text() == "20"
    assert (folder / "memory.low").read_text() == "1048576"
    assert host.enforce().applied == {}
    (folder / "cpu.weight").write_text("100\n")
    assert host.enforce().applied == {"scheduling": [ID]}
    assert (folder / "cpu.weight").read_text() == "20"
    host.end_process(100)
    (folder / "cpu.weight").write_text("100\n")
    assert host.enforce().applied == {}


def test_failed_repair_does_not_stop_others(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(host, scheduling=SECTION)
    folders = {}
    for number in range(3):
        id_ = f"{number:064x}"
        cgroup = f"{POD_CGROUP}/crio-{id_}"
        host.process(100 + number, cgroup)
        folders[id_] = host.cgroup / cgroup.lstrip("/")
        for name in ("cpu.weight", "memory.low"):
            (folders[id_] / name).write_text("0\n")
        notes = crio_annotations() | {CLASS: "small"}
        assert host.call(state(id=id_, pid=100 + number, bundle=host.bundle(), annotations=notes)).code == 0
        (folders[id_] / "cpu.weight").write_text("100\n")
    unreadable, unwritable, good = sorted(folders)
    record = host.state / "pods" / UID / f"c-{unreadable}"
    record.unlink()
    record.mkdir()
    (folders[unwritable] / "cpu.weight").unlink()
    (folders[unwritable] / "cpu.weight").mkdir()
    report = host.enforce()
    assert report.applied == {"scheduling": [good]}
    assert list(report.events["failed"]) == [f"{unwritable[:12]} scheduling"]
    assert (folders[good] / "cpu.weight").read_text() == "20"


def test_init_in_its_own_nested_cgroup_leaves_values_in_place(host: Host) -> None:
    configure(host, scheduling=SECTION)
    host.process(100, CGROUP)
    folder = files(host, cpu_weight="100\n", memory_low="0\n")
    call(host, **{CLASS: "small"})
    host.process(100, f"{CGROUP}/init.scope")
    assert host.enforce().applied == {}
    (folder / "cpu.weight").write_text("100\n")
    assert host.enforce().applied == {"scheduling": [ID]}
    assert (folder / "cpu.weight").read_text() == "20"
    assert [path.name for path in (folder / "init.scope").iterdir()] == []


@pytest.mark.parametrize(
    "annotations, words",
    [
        ({CLASS: "other"}, "namespace shop is not allowed to use scheduling class 'other'"),
        ({CLASS: "x" * 500}, "is not allowed to"),
        ({CLASS: "btach"}, "is not allowed to use scheduling class 'btach': unknown name; did you mean 'batch'?"),
        ({f"{CLASS}__c0": "other", CLASS: "batch"}, "is not allowed to use scheduling class 'other'"),
        ({CLASS: ""}, "is empty: no class"),
        ({}, "no feature applies"),
    ],
)
def test_container_without_class_has_no_step(host: Host, annotations: dict[str, str], words: str) -> None:
    configure(host, scheduling=SECTION)
    host.process(100, CGROUP)
    assert words in call(host, **annotations)


def test_missing_class_is_reported(host: Host) -> None:
    configure(host, scheduling=SECTION | {"allow": {"*": ["*"]}})
    host.process(100, CGROUP)
    assert "unknown scheduling class 'gone'; the classes are batch, small, other" in call(host, **{CLASS: "gone"})


def test_default_class_applies(host: Host) -> None:
    configure(host, scheduling=SECTION | {"defaults": {"qos": {"Burstable": "small"}}})
    host.process(100, CGROUP)
    files(host, cpu_weight="100\n", memory_low="0\n")
    assert "scheduling class small by the default of QoS class Burstable" in call(host)


@pytest.mark.parametrize(
    "spec, values, properties",
    [
        ({"cpuIdle": True}, [["cpu.idle", "1"]], {"CPUWeight": "idle"}),
        ({"cpuIdle": False}, [["cpu.idle", "0"]], {}),
        (
            {"cpuMax": "50000 100000"},
            [["cpu.max", "50000 100000"]],
            {"CPUQuota": "50.00%", "CPUQuotaPeriodSec": "100000us"},
        ),
        ({"cpuMax": "max"}, [["cpu.max", "max 100000"]], {"CPUQuota": "", "CPUQuotaPeriodSec": "100000us"}),
        ({"uclampMin": 12.5, "uclampMax": 50}, [["cpu.uclamp.min", "12.50"], ["cpu.uclamp.max", "50.00"]], {}),
        ({"memoryMax": "max"}, [["memory.max", "max"]], {"MemoryMax": "infinity"}),
        ({"hugepages": {"2MB": "1G"}}, [["hugetlb.2MB.max", "1073741824"]], {}),
    ],
)
def test_class_gives_values(spec: dict[str, Any], values: list[list[str]], properties: dict[str, str]) -> None:
    assert scheduling.cgroup_values_of(spec) == values
    assert scheduling.properties_of(values) == properties


# Block I/O


GORESCTRLS = b"""
blockio:
  enabled: true
  Classes:
    Throttled:
      - Weight: 80
      - Devices: ["/dev/sd[a-c]", "/dev/vd[ac-d]*"]
        ThrottleReadBps: 50M
        ThrottleWriteBps: 10Mi
        ThrottleReadIOPS: 10k
        ThrottleWriteIOPS: 5k
        Weight: 50
"""


def test_goresctrl_classes_are_accepted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys begin with capitals, its amounts are Kubernetes' quantities, and its patterns have brackets."""
    checked = check_text(GORESCTRLS, "config.yaml")
    assert checked.problems == []
    host.config.write_bytes(compiled(checked.valid()))
    tried: list[str] = []

    def matches(pattern: str, name: str) -> bool:
        del name
        tried.append(pattern)
        return False

    monkeypatch.setattr(blockio, "matches", matches)
    monkeypatch.setattr(blockio, "list_folder", lambda _: ["any"])
    spec = load(str(host.config))[0].blockio["classes"]["Throttled"]
    assert blockio.values_of(spec, "/sys") == ([["io.weight", "default 80"]], 80)
    assert tried == ["sda", "sdb", "sdc", "vda*", "vdc*", "vdd*"]
    monkeypatch.setattr(blockio, "devices_of", lambda patterns, _: ["8:0"] if patterns else [])
    lines, _ = blockio.values_of(spec, "/sys")
    assert lines[0] == ["io.max", "8:0 rbps=50000000 wbps=10485760 riops=10000 wiops=5000"]
    assert lines[-1] == ["io.weight", "8:0 50"]


def test_io_limits_are_written(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {"slow": [{"devices": ["/dev/x"], "throttleReadBps": "1M"}, {"weight": 30}]}
    configure(host, blockio={"enabled": True, "allow": {"shop": ["*"]}, "classes": classes})
    monkeypatch.setattr(blockio, "devices_of", lambda patterns, _: ["8:0"] if patterns else [])
    host.process(100, CGROUP)
    folder = files(host, io_max="", io_weight="default 100\n")
    assert "io.max 8:0 rbps=1000000, io.weight default 30: blockio class slow" in call(host, **{IO_CLASS: "slow"})
    assert (folder / "io.max").read_text() == "8:0 rbps=1000000"
    assert (folder / "io.weight").read_text() == "default 30"


@pytest.mark.parametrize(
    "there, wanted",
    [
        (["io.bfq.weight"], {"io.bfq.weight": "default 1000"}),
        (["io.weight", "io.bfq.weight"], {"io.weight": "default 3000", "io.bfq.weight": "default 1000"}),
    ],
)
def test_bfq_weights_are_written_where_loaded(host: Host, there: list[str], wanted: dict[str, str]) -> None:
    classes = {"fast": [{"weight": 3000}]}
    configure(host, blockio={"enabled": True, "allow": {"shop": ["*"]}, "classes": classes})
    host.process(100, CGROUP)
    folder = files(host, **{name.replace(".", "_"): "default 100\n" for name in there})
    call(host, **{IO_CLASS: "fast"})
    assert {name: (folder / name).read_text() for name in there} == wanted
    assert host.enforce().applied == {}
    for name in there:
        (folder / name).write_text("default 100\n")
        assert host.enforce().applied == {"blockio": [ID]}
        assert {name: (folder / name).read_text() for name in there} == wanted


def test_limits_of_runtime_stay(host: Host) -> None:
    configure(host, blockio={"enabled": True, "allow": {"*": ["*"]}, "classes": {"slow": []}})
    host.process(100, CGROUP)
    bundle = host.bundle({"linux": {"resources": {"blockIO": {"weight": 10}}}})
    outcome = host.call(state(bundle=bundle, annotations=crio_annotations() | {IO_CLASS: "slow"}))
    assert "the runtime limits its block I/O; left unchanged" in outcome.log


def test_policies_match_kernel_numbers() -> None:
    kernels = {
        "normal": os.SCHED_OTHER,
        "fifo": os.SCHED_FIFO,
        "rr": os.SCHED_RR,
        "batch": os.SCHED_BATCH,
        "idle": os.SCHED_IDLE,
    }
    assert kernels == scheduling.POLICIES


def test_scheduling_check_compares_all_recorded_attributes(process: subprocess.Popen[bytes]) -> None:
    pid = process.pid
    assert scheduling._is_scheduled(pid, {})
    assert scheduling._is_scheduled(pid, {"nice": os.getpriority(os.PRIO_PROCESS, pid)})
    scheduling._schedule(pid, {"policy": "batch", "nice": 7})
    assert scheduling._is_scheduled(pid, {"policy": "batch", "nice": 7})
    assert scheduling._is_scheduled(pid, {"policy": "batch"})
    assert not scheduling._is_scheduled(pid, {"policy": "idle", "nice": 7})
    assert not scheduling._is_scheduled(pid, {"policy": "batch", "nice": 8})
    assert not scheduling._is_scheduled(pid, {"policy": "batch", "priority": 1})
