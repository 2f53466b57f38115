"""Checks of the system: user namespace, cgroups, systemd's units.

Source: systemd.unit(5).
"""

import os
import shlex
import time
from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.install import systemd
from resctrl_hooks.core.install.guard import node_command
from resctrl_hooks.core.install.paths import PYTHON, UNITS
from resctrl_hooks.core.install.unit_files import WITHOUT_SYSTEMD
from resctrl_hooks.core.install.units import COMPILE, MOUNT, TIMER, WAKE
from resctrl_hooks.core.install.units import RECONCILE as RECONCILE_UNIT
from resctrl_hooks.core.inventory.attention import LATE, reconcile_age
from resctrl_hooks.core.node.call_metrics import read as read_calls

from .finding import Check, Finding, ok, problem, warning
from .host import Host

RECONCILE: Final = "reconcile"
_LATELY: Final = 300  # seconds; longer than any reasonable period


def cgroups(host: Host) -> Iterator[Finding]:
    """Check cgroup version 2 and its controllers."""
    path = host.settings.cgroup_path
    try:
        with open(f"{path}/cgroup.controllers", encoding="ascii") as file:
            controllers = file.read().split()
    except OSError:
        yield warning(
            f"{path} is not cgroup v2: limits cannot be set, and a pod ends with its last container",
            "boot with systemd.unified_cgroup_hierarchy=1",
        )
        return
    yield ok(f"cgroup v2 with {', '.join(controllers) or 'no controllers'}")


def units(host: Host) -> Iterator[Finding]:
    """Check whether reconcile's timer and path unit are active."""
    if host.manifest is None:
        return
    there = [unit for unit in (MOUNT, COMPILE, TIMER, WAKE) if f"{UNITS}/{unit}" in host.manifest.files]
    if not there or (host.live and not systemd.is_running()):
        yield _reconciled(host, "systemd does not run here" if there else "installed without units")
        return
    gone = [unit for unit in there if not host.tree.exists(f"{UNITS}/{unit}")]
    if gone:
        yield problem(f"{', '.join(gone)} is missing from {UNITS}", "install again: `resctrl-hook install`")
    if not host.live or not systemd.is_running():
        return
    for unit in (TIMER, WAKE):
        if unit in there and unit not in gone:
            state = host.run("systemctl", "is-active", unit)
            if state == "active":
                yield ok(f"{unit} is active")
            else:
                start = f"systemctl enable --now {unit}"
                what = f"{unit} is not active: waiting pods may never get an RMID"
                yield problem(what, start, lambda u=unit: _start(u))  # type: ignore[misc]  # bound now
    age = reconcile_age(host.context)
    if age is not None and age > LATE:
        yield warning(
            f"reconcile last completed a pass {age:.0f} s ago: waiting pods and ended pods wait for it",
            f"see `systemctl status {RECONCILE_UNIT}` and the load of the node",
        )


def _reconciled(host: Host, why: str) -> Finding:
    """Check whether another program runs reconcile on hosts without our timer."""
    seconds = int(time.time()) - (last := read_calls(host.context.ledger).stage(RECONCILE).last)
    if 0 <= seconds < _LATELY:
        return ok(f"{why}; reconcile ran {seconds} s ago")
    config, python = (host.manifest.config, host.manifest.python) if host.manifest else (host.config, PYTHON)
    command = shlex.join(node_command(config, "reconcile", python=python))
    return warning(
        f"{why}, and {'reconcile has not run for minutes' if last else 'reconcile is not scheduled'}: waiting "
        "pods never get an RMID, and groups of ended pods are not removed",
        WITHOUT_SYSTEMD.format(command=command),
    )


def _start(unit: str) -> str:
    return systemd.systemctl("enable", "--now", unit) or f"{unit} is started"


def user_namespace(host: Host) -> Iterator[Finding]:
    """Check for the host's user namespace: hooks do nothing in another one."""
    lines = [line.split() for line in host.proc("self/uid_map").splitlines()]
    if lines and lines != [["0", "0", "4294967295"]]:
        yield warning("this is a user namespace; hooks do nothing here", "run doctor as root on the host")
    if os.path.exists(host.tree.real("/run/.containerenv")) and host.live:
        yield warning("this is a container; doctor cannot see the host", "run doctor on the host")


CHECKS: Final = {
    "where": Check(user_namespace),
    "cgroups": Check(cgroups),
    "units": Check(units, of_files=True),
}
