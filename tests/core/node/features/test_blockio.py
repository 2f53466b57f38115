"""Block I/O classes: amounts, patterns, parts, and existing devices."""

from __future__ import annotations

import os
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, POD_CGROUP, Host, raising, workload_of

from resctrl_hooks.core.node import registry
from resctrl_hooks.core.node.classes.choice import ClassError
from resctrl_hooks.core.node.features import blockio
from resctrl_hooks.core.node.host.cgroup import CgroupError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "text, number",
    [("7", 7), (7, 7), ("1k", 1000), ("1K", 1000), ("2Ki", 2048), ("3G", 3 * 10**9), ("3Gi", 3 << 30), ("1T", 10**12)],
)
def test_amounts_are_parsed(text: object, number: int) -> None:
    assert blockio.amount(text) == number


@pytest.mark.parametrize(
    "pattern, names",
    [("sda", ["sda"]), ("sd[ab]", ["sda", "sdb"]), ("nvme[0-1]n[12]", ["nvme0n1", "nvme0n2", "nvme1n1", "nvme1n2"])],
)
def test_patterns_without_brackets_match(pattern: str, names: list[str]) -> None:
    assert blockio.without_brackets(pattern) == names


def test_class_gives_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blockio, "devices_of", lambda patterns, _: [f"8:{16 * len(p)}" for p in patterns])
    spec: list[dict[str, Any]] = [
        {"devices": ["a", "bb"], "throttleReadBps": "10M", "throttleWriteIops": 100},
        {"devices": ["bb"], "throttleReadBps": 5, "weight": 70},
        {"weight": 30},
    ]
    assert blockio.values_of(spec, "/sys") == (
        [
            ["io.max", "8:16 rbps=10000000 wiops=100"],
            ["io.max", "8:32 rbps=5 wiops=100"],
            ["io.weight", "default 30"],
            ["io.weight", "8:32 70"],
        ],
        30,
    )


def test_partition_stands_for_its_disk(tmp_path: Path) -> None:
    disk = tmp_path / "devices/pci/block/sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "dev").write_text("8:0\n")
    (disk / "sda1/partition").write_text("1\n")
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/8:1").symlink_to(disk / "sda1")
    (tmp_path / "dev/block/8:0").symlink_to(disk)
    assert blockio.whole_disk("8:1", str(tmp_path)) == "8:0"
    assert blockio.whole_disk("8:0", str(tmp_path)) == "8:0"


def test_only_block_devices_match(tmp_path: Path) -> None:
    (tmp_path / "sda").touch()
    assert blockio.devices_of([f"{tmp_path}/s*", "/dev/nul?", "/nowhere/*"], "/sys") == []


def test_whole_disks_are_sorted_and_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sda").mkdir()
    (tmp_path / "dev/block").mkdir(parents=True)
    for number, name in enumerate(("sda", "sda1", "sdb")):
        (tmp_path / "sda" / name).touch()
        (tmp_path / f"dev/block/8:{number}").mkdir()
    (tmp_path / "dev/block/8:1/partition").write_text("1\n")
    (tmp_path / "dev/block/dev").write_text("8:0\n")
    names = {"sda": "8:0", "sda1": "8:1", "sdb": "8:2", "sdc": "", "notes": "file"}
    monkeypatch.setattr(blockio, "list_folder", {"/dev": list(names), "/": ["sda"]}.__getitem__)

    def seen(path: str) -> SimpleNamespace:
        name = path.rpartition("/")[2]
        if not names[name]:
            raise FileNotFoundError(path)
        if names[name] == "file":
            return SimpleNamespace(st_mode=stat.S_IFREG | 0o644, st_rdev=0)
        return SimpleNamespace(st_mode=stat.S_IFBLK | 0o660, st_rdev=os.makedev(*map(int, names[name].split(":"))))

    monkeypatch.setattr("posix.stat", seen)
    assert blockio.devices_of(["/dev/sd*", "/dev/n*"], str(tmp_path)) == ["8:0", "8:2"]  # sdc has gone meanwhile
    assert blockio.devices_of(["/dev/sdb", "/dev/sda1", "/dev/sda"], str(tmp_path)) == ["8:2", "8:0"]
    assert blockio.devices_of(["/sda"], str(tmp_path)) == ["8:0"]


def test_annotation_of_resource_policy_plugins_chooses_class(host: Host) -> None:
    host.configure(blockio={"enabled": True, "allow": {"*": ["*"]}, "classes": {"slow": [{"weight": 30}]}})
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    annotations = {"blockioclass.resource-policy.nri.io/pod": "slow"}
    (step,) = registry.plan(blockio.FEATURE, workload_of(host, **annotations), host.context())
    assert step.parameters["class"] == "slow"


@pytest.mark.parametrize(
    "present, kept",
    [
        ("8:16 rbps=100 wbps=max riops=max wiops=max", ["io.max is 8:16 rbps=100 wbps=max riops=max wiops=max"]),
        ("8:16 rbps=5000 wbps=max riops=max wiops=max", []),
        ("8:16 rbps=max wbps=max riops=max wiops=max", []),
        ("8:32 rbps=100 wbps=max riops=max wiops=max", []),
        ("", []),
    ],
)
def test_limit_of_another_program_for_the_same_device_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch, present: str, kept: list[str]
) -> None:
    monkeypatch.setattr(blockio, "devices_of", lambda *_: ["8:16"])
    classes = {"slow": [{"devices": ["/dev/x"], "throttleReadBps": 5000}]}
    host.configure(blockio={"enabled": True, "classes": classes, "defaults": {"namespaces": {"*": "slow"}}})
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    (host.cgroup / POD_CGROUP.lstrip("/") / f"crio-{ID}/io.max").write_text(f"{present}\n")
    (step,) = registry.plan(blockio.FEATURE, workload_of(host), host.context())
    assert step.foreign == [f"{one} instead of 8:16 rbps=5000" for one in kept]
    assert step.parameters["values"] == ([] if kept else [["io.max", "8:16 rbps=5000"]])


def test_container_without_class_has_no_step(host: Host) -> None:
    host.configure(blockio={"enabled": True, "classes": {"slow": [{"weight": 30}]}})
    host.process(100, "/x")
    (step,) = registry.plan(blockio.FEATURE, workload_of(host), host.context())
    assert (step.action, step.why) == ("skip", "no blockio class by annotation or default")


def test_container_without_own_cgroup_is_reported(host: Host) -> None:
    host.configure(blockio={"enabled": True, "classes": {"slow": []}, "defaults": {"namespaces": {"*": "slow"}}})
    host.process(100, "/")
    with pytest.raises(CgroupError):
        registry.plan(blockio.FEATURE, workload_of(host), host.context())


@pytest.mark.parametrize("name, kept", [("slow", ["limits of the specification instead of class slow"]), ("", [])])
def test_class_is_not_applied_over_limits_of_the_specification(
    monkeypatch: pytest.MonkeyPatch, name: str, kept: list[str]
) -> None:
    nothing: Any = None
    context: Any = SimpleNamespace(settings=None)
    monkeypatch.setattr(blockio, "chosen_class", lambda *_: (name, {}, ""))
    assert blockio._foreign(nothing, context) == kept
    monkeypatch.setattr(blockio, "chosen_class", raising(ClassError("no such class")))
    assert blockio._foreign(nothing, context) == []
