"""Checks of processor, kernel and the mounted resctrl with its RMIDs.

Sources: Linux, Documentation/filesystems/resctrl.rst and Documentation/admin-guide/kernel-parameters.txt (``rdt=``).
"""

import os
from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.inventory.creators import greediest
from resctrl_hooks.core.inventory.gather import queued_pods
from resctrl_hooks.core.inventory.models import Inventory
from resctrl_hooks.core.node.errors import HookError, NoMonitoringError, NoResctrlError
from resctrl_hooks.core.node.feature_table import AUTO
from resctrl_hooks.core.node.names import RESCTRL_ROOT
from resctrl_hooks.core.node.resctrl.absence import how_to_mount, why_no_monitoring
from resctrl_hooks.core.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.core.node.sharing.bandwidth_counters import KEEP
from resctrl_hooks.core.node.sharing.runtimes import reserved
from resctrl_hooks.core.parts import clause

from .finding import Check, Finding, ok, problem, some, warning
from .host import Host, names

_FLAGS: Final = {
    "cqm_occup_llc": "cache occupancy",
    "cqm_mbm_total": "memory bandwidth",
    "cqm_mbm_local": "local memory bandwidth",
}
_MANY: Final = 0.25
"""The part of all RMIDs from which one program's groups are reported although no pod waits."""
_WORDS: Final = {
    "Unavailable": "the hardware could not count at that moment, for example for a new group; read again later",
    "Unassigned": "the group has no assigned counter (AMD ABMC, Arm MPAM; see mbm_assign_mode in info/*_MON)",
    "Error": "the kernel failed to read it; see dmesg",
}


def _expected(host: Host) -> bool:
    """Return whether resctrl should be mounted; a node that cannot have it is one line of `processor`."""
    missing = why_no_monitoring(host.context.monitor.resctrl)
    return host.settings.uses_resctrl and not isinstance(missing, NoResctrlError)


def processor(host: Host) -> Iterator[Finding]:
    """Check the processor's monitoring capabilities."""
    if not host.settings.uses_resctrl:
        yield ok("monitoring and RDT classes are disabled; resctrl is not needed")
        return
    missing = why_no_monitoring(host.context.monitor.resctrl)
    if isinstance(missing, NoResctrlError) and host.settings.monitoring["enabled"] == AUTO:
        yield ok(f"{missing.message}; pods have no groups (monitoring.enabled: auto)")
        return
    if isinstance(missing, NoResctrlError):
        yield warning(f"{missing}", f"use a processor with Intel RDT or AMD QoS to monitor pods{clause('hardware')}")
        return
    line = next((line for line in host.proc("cpuinfo").splitlines() if line.startswith("flags")), "")
    flags = set(line.partition(":")[2].split())
    found = [text for flag, text in _FLAGS.items() if flag in flags]
    if found:
        yield ok(f"the processor counts {', '.join(found)}")
    elif _is_simulated(host):
        yield warning("the processor reports no cache or bandwidth monitoring", "simulated; see mount below")
    elif names(f"{host.settings.resctrl_path}/info"):
        yield ok("the kernel supports resctrl; /proc/cpuinfo is not relevant")
    else:
        yield problem(
            "the processor reports no cache or bandwidth monitoring (cqm_* in /proc/cpuinfo)",
            f"use a processor with Intel RDT or AMD QoS (virtual machines often hide it){clause('hidden')}",
        )


def kernel(host: Host) -> Iterator[Finding]:
    """Check whether the kernel has resctrl, and which version of its interface."""
    if not _expected(host):
        return
    release = host.proc("sys/kernel/osrelease").strip()
    if "resctrl" in host.proc("filesystems"):
        yield ok(f"Linux {release} has resctrl")
    elif _is_simulated(host):
        yield warning(f"Linux {release} has no resctrl", "simulated; see mount below")
    else:
        yield problem(
            f"Linux {release} has no resctrl",
            "boot a kernel with CONFIG_X86_CPU_RESCTRL=y (or its architecture's), 5.10 or later",
        )
    arguments = [word for word in host.proc("cmdline").split() if word.startswith("rdt=")]
    off = [part for word in arguments for part in word[len("rdt=") :].split(",") if part.startswith("!")]
    if off:
        yield warning(
            f"the kernel's command line turns off {', '.join(off)} ({' '.join(arguments)})",
            "remove these options and reboot",
        )
    elif arguments:
        yield ok(f"the kernel's command line has {' '.join(arguments)}")


def mount(host: Host) -> Iterator[Finding]:
    """Check whether resctrl is mounted at the configured path, with the configured options."""
    if not _expected(host):
        return
    path = host.settings.resctrl_path
    kind, options = _mounted(host)
    if kind:
        if "ro" in options.split(","):
            yield problem(f"{path} is mounted read-only", f"mount -o remount,rw {path}")
        else:
            how = "a simulation" if _is_simulated(host) else f"{kind}; {options.replace(',', ', ')}"
            yield ok(f"{path} is mounted ({how})")
    elif os.path.isdir(f"{path}/info"):
        yield ok(f"{path} exists")
    else:
        yield problem(
            f"resctrl is not mounted at {path}",
            how_to_mount(path, host.context.proc)
            + (", or `systemctl start sys-fs-resctrl.mount`" if path == RESCTRL_ROOT else ""),
        )


def _mounted(host: Host) -> tuple[str, str]:
    """Return type and options of the mount at resctrl's path; empty without a mount."""
    lines = [line.split() for line in host.proc("self/mounts").splitlines()]
    there = [words for words in lines if len(words) > 3 and words[1] == host.settings.resctrl_path]  # noqa: PLR2004
    return (there[-1][2], there[-1][3]) if there else ("", "")


def _is_simulated(host: Host) -> bool:
    return _mounted(host)[0].startswith("fuse")


def rmids(host: Host) -> Iterator[Finding]:
    """Check how many RMIDs exist, are used, and are waited for."""
    inventory = host.inventory
    if inventory is None or inventory.rmids is None:
        return
    total, used = inventory.rmids.total, inventory.rmids.used
    text = f"{used} of {total} RMIDs in use, {inventory.rmids.free} free, {len(inventory.waiting)} waiting"
    by_class = inventory.rmids.free_by_class
    if by_class:
        text += f"; free by class: {inventory.rmids.classes_text()}"
    waiting = [pod for pod in inventory.pods if pod.key in inventory.waiting]
    queued = queued_pods(host.context, waiting)
    if waiting and host.settings.shares_rmids:
        yield warning(
            f"{text}, according to the rules in `monitoring`",
            "`resctrl-hook list --demand` shows how much of the time each pod is counted, and the effect of "
            "other rules",
        )
    elif len(waiting) > len(queued):
        text += f": {some([pod.name for pod in waiting if pod not in queued])}"
        spare = reserved(host.context)
        if _free_now(inventory, spare):
            yield warning(
                text,
                "wait for the next pass of reconcile, at most 30 seconds, or run `resctrl-hook reconcile`: it creates "
                "the groups",
            )
            return
        yield problem(
            f"{text}; {spare} stay free for container runtimes" if spare else text,
            "run fewer pods on this node, narrow `namespaces` or `labelSelector`, remove groups of other tools, "
            "or select the counted pods with `monitoring.priority` and `.share`; waiting pods get RMIDs as they "
            "become free",
        )
    elif used >= total * 0.9 or (by_class and min(by_class.values()) <= 0):
        yield warning(text, "few RMIDs are left: narrow `namespaces` or `labelSelector`")
    else:
        yield ok(f"{text} because of `monitoring.limits`" if queued else text)


def _free_now(inventory: Inventory, spare: int) -> bool:
    """Return whether each class has an RMID that is not in limbo, besides those that are reserved for runtimes."""
    by_class = inventory.account.free_by_class if inventory.account else {}
    limbo = bool(inventory.account and inventory.account.rmids.get("limbo"))
    free = inventory.rmids.free if inventory.rmids else 0
    return not limbo and min(by_class.values(), default=free) > spare


def bandwidth_counters(host: Host) -> Iterator[Finding]:
    """Check that every pod has a bandwidth counter where the kernel assigns them, and count those of foreign groups."""
    inventory = host.inventory
    if inventory is None or not inventory.bandwidth_counters:
        return
    parts = [
        f"{one.free} of {one.total} free in {one.resource} domain {one.domain}" for one in inventory.bandwidth_counters
    ]
    text = f"the kernel assigns bandwidth counters: {', '.join(parts)}"
    keeps = host.settings.monitoring["classCounters"] == KEEP
    without = [pod.name for pod in inventory.pods if pod.state in ("uncounted", "part-counted")]
    if without:
        more = "set `monitoring.classCounters: while-free`, " if keeps else ""
        yield warning(
            f"{text}; {len(without)} pods lack a bandwidth counter in some or all domains: {', '.join(without[:5])}",
            f"{more}monitor fewer pods (`namespaces`, `labelSelector`), list only one event in `monitoring.events`, "
            "or let pods take turns (`monitoring.share`)",
        )
    else:
        yield ok(text)
    yield ok(
        "the root group and classes keep their bandwidth counters (monitoring.classCounters: keep)"
        if keeps
        else "the root group and classes have bandwidth counters while no pod needs them (monitoring.classCounters)"
    )


def counters(host: Host) -> Iterator[Finding]:
    """Check which counters exist, and which of them count nothing."""
    folder = host.settings.resctrl_path
    missing = why_no_monitoring(host.context.monitor.resctrl)
    if isinstance(missing, NoMonitoringError) and host.settings.monitoring["enabled"]:
        yield warning(f"{missing.message}; pods are not counted, and RDT classes work", missing.hint)
    try:
        slots = layout(f"{folder}/mon_data")
        _, values = read_group(folder, slots)
    except (OSError, HookError):
        return
    if not slots:
        yield problem("resctrl offers no counters", "see the checks processor and kernel above")
        return
    offered = sorted({slot.counter.name for slot in slots})
    domains = len({slot.domain for slot in slots})
    yield ok(f"{', '.join(offered)} in {domains} domains")
    for word, meaning in _WORDS.items():
        without = sorted({slot.counter.name for slot, value in zip(slots, values, strict=True) if value == word})
        if without:
            yield warning(f"{', '.join(without)} of the root group: {word}", meaning)


def owners(host: Host) -> Iterator[Finding]:
    """Print the owners, and name the program that holds the most RMIDs for other groups than those of pods."""
    inventory = host.inventory
    if inventory is None or inventory.account is None or not inventory.account.rmids:
        return
    found = inventory.account
    yield ok(found.as_line())
    greedy = greediest(found)
    if greedy is None:
        return
    creator, groups = greedy
    total = sum(found.rmids.values())
    text = f"{creator.name} holds {len(groups)} of {total} RMIDs: {some([one.name for one in groups])}"
    yield warning(text, creator.remedy) if inventory.waiting or len(groups) >= _MANY * total else ok(text)


CHECKS: Final = {
    "processor": Check(processor),
    "kernel": Check(kernel),
    "mount": Check(mount),
    "RMIDs": Check(rmids),
    "bandwidth": Check(bandwidth_counters),
    "counters": Check(counters),
    "RMID owners": Check(owners),
}
