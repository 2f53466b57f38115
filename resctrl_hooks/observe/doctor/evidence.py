"""The check of the node's evidence: what the tools can know of its pods, and what the node lacks for the rest."""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from resctrl_hooks.core.doctor.finding import Check, Finding, ok
from resctrl_hooks.core.doctor.host import Host, names
from resctrl_hooks.core.node.resctrl.absence import why_no_monitoring
from resctrl_hooks.core.node.resctrl.layouts import PERF, is_of

_COUNTERS_OF_CPUS: Final = ("cpu", "cpu_core", "cpu_atom")
_COUNTERS_OF_ARM: Final = ("armv8", "armv9", "arm_pmu")


class Fact(NamedTuple):
    """Something that can be known of pods: the words for it, the words for what it needs, and whether that is there."""

    text: str
    needs: str
    is_there: Callable[[Host], bool]


def _has_controllers(host: Host) -> bool:
    return os.path.exists(f"{host.settings.cgroup_path}/cgroup.controllers")


def _has_pressure(host: Host) -> bool:
    return os.path.exists(f"{host.settings.proc_path}/pressure/cpu")


def _has_cost(host: Host) -> bool:
    data = f"{host.settings.resctrl_path}/mon_data"
    packages = [name for name in names(data) if is_of(PERF, name)]
    if any(os.path.exists(f"{data}/{name}/uops_retired") for name in packages):
        return True  # resctrl's own counters, of Linux 7.0
    found = names(f"{host.settings.sys_path}/bus/event_source/devices")
    return any(name in _COUNTERS_OF_CPUS or name.startswith(_COUNTERS_OF_ARM) for name in found)


def _has_resctrl(host: Host) -> bool:
    return why_no_monitoring(host.context.monitor.resctrl) is None


FACTS: Final = (
    Fact("CPU, memory and disk use, CPU limits", "cgroup v2", _has_controllers),
    Fact("waits for CPUs, memory and disks", "pressure: boot with psi=1", _has_pressure),
    Fact("cost of work", "performance counters, rare in virtual machines", _has_cost),
    Fact("L3 cache and memory bandwidth", "resctrl with monitoring", _has_resctrl),
)


def evidence(host: Host) -> Iterator[Finding]:
    """Print what can be known of this node's pods, and what the rest needs."""
    if not host.settings.monitoring["enabled"] or not host.runs:
        return
    there = {fact: fact.is_there(host) for fact in FACTS}
    known = ", ".join(fact.text for fact, is_there in there.items() if is_there) or "nothing"
    unknown = "; ".join(f"{fact.text} (needs {fact.needs})" for fact, is_there in there.items() if not is_there)
    yield ok(f"known of pods: {known}" + (f"; unknown: {unknown}" if unknown else ""))


CHECKS: Final = {"evidence": Check(evidence, after="history")}
