"""Checks of placement: the kubelet's managers, CPUs left to share, containers on exclusive CPUs of others.

Source: Kubernetes, "Control CPU Management Policies on the Node" and "Utilizing the NUMA-aware Memory Manager" for the
two state files.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from resctrl_hooks.core.doctor.finding import Check, Finding, ok, problem, warning
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.node.container.runtimes import living_containers
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cgroup import read_value
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.cpu_values import CpuValues
from resctrl_hooks.placement.node.interrupts import Interrupts
from resctrl_hooks.placement.node.kubelet import STATES
from resctrl_hooks.placement.node.reconcile import read_allocations
from resctrl_hooks.placement.node.usage import short_of_cpus

_EFFECTIVE: Final = "cpuset.cpus.effective"
_HOSTS_OWN: Final = ("system.slice", "user.slice")
_SHOWN: Final = 5
_ID: Final = 12


def placement(host: Host) -> Iterator[Finding]:
    """Check that exclusive CPUs are exclusive and that other containers have CPUs left."""
    if not host.settings.sections["placement"]["enabled"]:
        return
    try:
        book = read_allocations(host.context)
    except HookError as error:
        yield problem(str(error), "placement requires a working `resctrl-hook topology`")
        return
    usage = book.usage()
    short = short_of_cpus(usage)
    if short:
        yield problem(
            short, "bring CPUs online, or stop a container with exclusive CPUs; then run `resctrl-hook reconcile`"
        )
    offline = [entry for entry in book.entries.values() if entry.decision.owned & ~usage.online]
    if offline:
        yield warning(
            f"{len(offline)} containers own offline CPUs: {_listed([entry.id for entry in offline])}",
            "bring them online; `resctrl-hook reconcile` assigns other CPUs to containers without an online CPU",
        )
    strangers = _strangers(host, book, usage.owned & ~book.taken)
    if strangers:
        yield warning(
            f"{len(strangers)} containers without placement run on exclusive CPUs of other containers: "
            f"{_listed(strangers)}",
            "run `resctrl-hook reconcile` to place those that placement selects; set a cpuset for the others",
        )
    slices = [name for name in _HOSTS_OWN if _cpus(f"{host.settings.cgroup_path}/{name}") & usage.owned]
    if slices:
        keep = format_list(usage.reserved or usage.common)
        yield warning(
            f"host processes in {' and '.join(slices)} may run on exclusive CPUs of containers",
            "; ".join(f"systemctl set-property {name} AllowedCPUs={keep}" for name in slices),
        )
    for refused in CpuValues(host.context).refused():
        yield warning(
            f"CPU classes: {refused}",
            "remove the value from the class: the kernel lists valid ones in scaling_available_governors, "
            "energy_performance_available_preferences and cpuidle/state*/name",
        )
    for refused in Interrupts(host.context).refused():
        yield warning(
            f"interrupts: {refused}",
            "for managed interrupts boot with isolcpus=managed_irq,domain,CPUS, or give the device fewer queues",
        )
    if not (short or offline or strangers or slices):
        yield ok(f"{len(book.entries)} containers are placed; nothing else runs on their exclusive CPUs")
    if book.others:
        yield ok(f"CPUs {format_list(book.taken)} are other programs' and not assigned: {_listed([*book.others])}")


def _strangers(host: Host, book: Book, owned: int) -> list[str]:
    """Return running containers without a place whose cgroup includes exclusive CPUs of another container."""
    known = book.entries
    found = []
    for container in living_containers(host.settings, host.settings.proc_path) if owned else ():
        cgroups = cgroups_of(host.settings.proc_path, container.pid)
        if container.id not in known and cgroups:
            folder = cgroups[0].folder(host.settings.cgroup_path)
            # crun's processes can be one level below the cgroup with the cpuset.
            if (_cpus(folder) or _cpus(folder.rpartition("/")[0])) & owned:
                found.append(container.id)
    return found


def _cpus(folder: str) -> int:
    try:
        return parse_list(read_value(folder, _EFFECTIVE))
    except (OSError, ValueError):
        return 0


def _listed(ids: list[str]) -> str:
    return ", ".join(id_[:_ID] for id_ in ids[:_SHOWN])


def kubelet(host: Host) -> Iterator[Finding]:
    """Check for the kubelet's static managers, which write cpusets themselves."""
    folder = host.settings.sections["placement"]["kubeletPath"]
    for name, what, pinning in STATES:
        try:
            policy = str(json.loads(Path(host.tree.real(f"{folder}/{name}")).read_bytes())["policyName"])
        except (FileNotFoundError, NotADirectoryError):
            continue  # no kubelet here, or none with that manager
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it has no policyName"
            yield warning(
                f"cannot read {folder}/{name} ({reason}): whether the kubelet pins containers is unknown",
                "see the kubelet's log; a kubelet that starts writes the file again",
            )
            continue
        enabled = host.settings.sections["placement"]["enabled"]
        if policy in pinning and enabled:
            yield problem(
                f"the kubelet's {what} manager has the policy {policy}; placement is inactive while it is set",
                "use only one: set cpuManagerPolicy/memoryManagerPolicy to none, or placement.enabled to false",
            )
        else:
            yield ok(f"the kubelet's {what} manager has the policy {policy}")


CHECKS: Final = {"kubelet": Check(kubelet, after="units"), "placement": Check(placement, after="classes")}
