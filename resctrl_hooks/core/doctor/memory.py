"""Requirements of the configured memory classes on this node: cgroup v2, swap, memtierd and its trackers."""

from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.inventory.feature_display.memtierd import NOT_RUNNING
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.features.memtierd.feature import NAME as MEMTIERD
from resctrl_hooks.core.node.features.memtierd.feature import run_dir, supervisor_of
from resctrl_hooks.core.node.features.memtierd.preflight import Needs, missing_capabilities, swap_total, tracker_lacks
from resctrl_hooks.core.node.features.memtierd.run_dir import run_folders
from resctrl_hooks.core.node.host.cgroup import read_value
from resctrl_hooks.core.node.host.programs import ALL_FOLDERS, find_program
from resctrl_hooks.core.node.settings import Settings

from .finding import Check, Finding, ok, problem, warning
from .host import Host

_MIB = 1 << 20
_SHOWN: Final = 5


def memory(host: Host) -> Iterator[Finding]:
    """Check the requirements of the configured memory classes."""
    yield from requirements(host.settings)
    without = [
        f"{pod.name}/{one.name or one.id[:12]}"
        for pod in (host.inventory.pods if host.inventory else ())
        for one in pod.living
        if one.details.get(MEMTIERD, {}).get("state") == NOT_RUNNING
    ]
    if without:
        yield problem(
            f"{len(without)} containers run without their memtierd: {', '.join(without[:_SHOWN])}",
            "see `resctrl-hook show POD` and the journal for the cause; restart the container if reconcile "
            "cannot start memtierd",
        )


def requirements(settings: Settings) -> Iterator[Finding]:
    """Check the requirements of all configured classes; empty without classes."""
    if not settings.classes:
        return
    yield _controller(settings)
    needs = {
        str(spec["name"]): Needs(str(spec["memtierdconfig"])) for spec in settings.classes if spec.get("memtierdconfig")
    }
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
            yield problem(f"capabilities: {', '.join(missing)} missing here", "run as root on the host")


def _controller(settings: Settings) -> Finding:
    controllers = read_value(settings.cgroup_path, "cgroup.controllers").split()
    if "memory" in controllers:
        return ok(f"cgroup: {settings.cgroup_path} is cgroup v2 with the memory controller")
    if controllers:
        remedy = "boot without cgroup_disable=memory, and unmount the cgroup v1 memory controller"
        return problem(f"cgroup: {settings.cgroup_path} has no memory controller", remedy)
    return problem(f"cgroup: {settings.cgroup_path} is not cgroup v2", "boot with systemd.unified_cgroup_hierarchy=1")


def _swap(settings: Settings, classes: list[str]) -> Finding:
    total = swap_total(settings.proc_path)
    if total:
        return ok(f"swap: {total // _MIB} MiB of swap space")
    remedy = "turn swap on (swapon, zram); on Kubernetes the kubelet must allow it (failSwapOn: false)"
    return warning(f"swap: no swap space for the memory classes {', '.join(classes)}", remedy)


def _program(settings: Settings) -> Finding:
    name = str(settings.memtierd.get("binary", "memtierd"))
    try:
        return ok(f"memtierd: {find_program(name, ALL_FOLDERS)}")
    except HookError as error:
        remedy = error.hint or "install it (github.com/intel/memtierd), or set memtierd.binary to its path"
        return problem(f"memtierd: {error.message}", remedy)


def _supervisor(settings: Settings) -> Finding:
    who = "systemd supervises" if supervisor_of(settings) == "systemd" else "a resctrl-hooks process supervises"
    running = len(run_folders(run_dir(settings)))
    return ok(f"memtierd supervision: {who} memtierd; {running} run directories in {run_dir(settings)}")


def _trackers(settings: Settings, needs: dict[str, Needs]) -> Iterator[Finding]:
    users: dict[str, list[str]] = {}
    for name, need in needs.items():
        for tracker in need.trackers:
            users.setdefault(tracker, []).append(name)
    for tracker, classes in users.items():
        lacks = tracker_lacks(settings, tracker)
        if lacks:
            remedy = f"use another tracker in {', '.join(classes)}, or a kernel that supports it"
            yield problem(f"tracker {tracker}: {lacks}", remedy)
        else:
            yield ok(f"tracker {tracker}: available for {', '.join(classes)}")


CHECKS: Final = {"memory": Check(memory)}
