"""Requirements of the configured memory classes on this node: cgroup v2, swap, memtierd and its trackers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.features.memtierd.feature import run_dir, supervisor_of
from resctrl_hooks.node.features.memtierd.preflight import Needs, missing_capabilities, swap_total, tracker_lacks
from resctrl_hooks.node.features.memtierd.run_dir import run_folders
from resctrl_hooks.node.host.cgroup import read_value
from resctrl_hooks.node.host.programs import ALL_FOLDERS, find_program
from resctrl_hooks.node.settings import Settings

Level = Literal["good", "note", "bad"]
_MIB = 1 << 20


@dataclass(frozen=True)
class MemoryCheck:
    """One requirement: its name, its state, and its remedy (empty if met)."""

    name: str
    level: Level
    found: str
    repair: str = ""


def memory_checks(settings: Settings) -> Iterator[MemoryCheck]:
    """Check the requirements of all configured classes; empty without classes."""
    if not settings.classes:
        return
    yield _controller(settings)
    needs = {str(spec["name"]): Needs(str(spec["memtierdconfig"])) for spec in settings.classes if _managed(spec)}
    swapping = [name for name, need in needs.items() if need.swaps]
    swapping += [
        str(spec["name"]) for spec in settings.classes if spec.get("allowswap") and spec["name"] not in swapping
    ]
    if swapping:
        yield _swap(settings, swapping)
    if needs:
        yield _program(settings)
        yield _supervisor(settings)
        yield from _trackers(settings, needs)
        missing = missing_capabilities()
        if missing:
            yield MemoryCheck("capabilities", "bad", f"{', '.join(missing)} missing here", "run as root on the host")


def _managed(spec: dict[str, object]) -> bool:
    return bool(spec.get("memtierdconfig"))


def _controller(settings: Settings) -> MemoryCheck:
    controllers = read_value(settings.cgroup_path, "cgroup.controllers").split()
    if "memory" in controllers:
        return MemoryCheck("cgroup", "good", f"{settings.cgroup_path} is cgroup v2 with the memory controller")
    if controllers:
        repair = "boot without cgroup_disable=memory, and unmount the cgroup v1 memory controller"
        return MemoryCheck("cgroup", "bad", f"{settings.cgroup_path} has no memory controller", repair)
    repair = "boot with systemd.unified_cgroup_hierarchy=1"
    return MemoryCheck("cgroup", "bad", f"{settings.cgroup_path} is not cgroup v2", repair)


def _swap(settings: Settings, classes: list[str]) -> MemoryCheck:
    total = swap_total(settings.proc_path)
    if total:
        return MemoryCheck("swap", "good", f"{total // _MIB} MiB of swap space")
    repair = "turn swap on (swapon, zram); on Kubernetes the kubelet must allow it (failSwapOn: false)"
    return MemoryCheck("swap", "note", f"no swap space for the memory classes {', '.join(classes)}", repair)


def _program(settings: Settings) -> MemoryCheck:
    name = str(settings.memtierd.get("binary", "memtierd"))
    try:
        return MemoryCheck("memtierd", "good", find_program(name, ALL_FOLDERS))
    except HookError as error:
        repair = error.hint or "install it (github.com/intel/memtierd), or set memtierd.binary to its path"
        return MemoryCheck("memtierd", "bad", error.message, repair)


def _supervisor(settings: Settings) -> MemoryCheck:
    who = "systemd supervises" if supervisor_of(settings) == "systemd" else "a resctrl-hooks process supervises"
    running = len(run_folders(run_dir(settings)))
    return MemoryCheck(
        "memtierd supervision", "good", f"{who} memtierd; {running} run directories in {run_dir(settings)}"
    )


def _trackers(settings: Settings, needs: dict[str, Needs]) -> Iterator[MemoryCheck]:
    users: dict[str, list[str]] = {}
    for name, need in needs.items():
        for tracker in need.trackers:
            users.setdefault(tracker, []).append(name)
    for tracker, classes in users.items():
        lacks = tracker_lacks(settings, tracker)
        if lacks:
            repair = f"use another tracker in {', '.join(classes)}, or a kernel that supports it"
            yield MemoryCheck(f"tracker {tracker}", "bad", lacks, repair)
        else:
            yield MemoryCheck(f"tracker {tracker}", "good", f"available for {', '.join(classes)}")
