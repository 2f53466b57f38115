"""Inputs of the metrics besides resctrl: the state of a running guard, and RAPL's package energy."""

import os
import time
from pathlib import Path

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.files import format_json, write_file
from resctrl_hooks.core.node.host.procfs import start_time
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.node.guard.status import NAME, Status
from resctrl_hooks.observe.node.slowdown.case import Culprit
from resctrl_hooks.observe.node.slowdown.causes import bandwidth
from resctrl_hooks.observe.node.slowdown.causes.cause import SUPPORTED, Cause
from resctrl_hooks.observe.node.slowdown.constants import PERF
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.window import Window
from resctrl_hooks.observe.node.slowdown.live import Finding
from resctrl_hooks.observe.node.slowdown.status import Status as SlowdownStatus
from resctrl_hooks.observe.node.slowdown.verdict import Verdict


def write_guard_state(context: Context) -> None:
    """Write the state of a guard whose process is this one: bronze is lowered from 100 to 60 per cent on domain 0."""
    os.makedirs(context.settings.state_dir, exist_ok=True)
    start = start_time(context.proc, os.getpid())
    status = Status(context.settings.state_dir, os.getpid(), start, "act", "per cent")
    limit = {"declared": 100, "now": 60, "wanted": 60, "floor": 20, "overridden": False, "rate": 1e9}
    known = {"l3": [0], "since": 0.0, "state": "holding", "load": 0.8, "estimated": False}
    status.values["domains"]["0"] = {**known, "classes": {"bronze": limit}}
    status.values["actions"]["lower"] = 4
    status.values["updated"] = time.time()
    write_file(f"{context.settings.state_dir}/{NAME}", format_json(status.values), 0o600)


def write_slowdown_state(context: Context, *keys: str) -> None:
    """Write the state of a sampling process, which is this one, that finds pods slowed by memory bandwidth."""
    verdict = Verdict("slowed", "", 1.6, 1.5, 1.7, 1.6, PERF, 10, 20)
    found = Finding(verdict, [Cause(bandwidth.NAME, SUPPORTED, "", (Culprit("noisy", 1.0, None),))])
    findings = dict.fromkeys(keys, found)
    status = SlowdownStatus(f"{context.settings.state_dir}/{SLOWDOWN_STATUS}")
    use = Use(PERF, 3e9, 2e9, 1.0, {0: 1e9}, {}, cycles=3e9)
    status.saw(Window(100.0, 10.0, {0: 0.9}, dict.fromkeys(keys, use)), findings)
    status.write(findings, {})


def write_packages(folder: Path, *joules: float) -> str:
    """Write a powercap directory with a processor package for each value; return its path."""
    for number, one in enumerate(joules):
        write_zone(folder, f"intel-rapl:{number}", f"package-{number}", one)
    return str(folder)


def write_zone(folder: Path, zone: str, name: str, joules: float, largest: int = 262143328850) -> None:
    (folder / zone).mkdir(parents=True, exist_ok=True)
    for file, value in (("name", name), ("energy_uj", round(joules * 1e6)), ("max_energy_range_uj", largest)):
        (folder / zone / file).write_text(f"{value}\n")


def call_metrics_and_guard(context: Context, key: str) -> None:
    """Record a failed hook of a pod that waits, a reconcile, and a running guard."""
    context.ledger.count_call("createRuntime", 0.2, ["ledger"], key)
    context.ledger.count_call("reconcile", 0.1)
    context.ledger.mark("waiting", key)
    write_guard_state(context)
    write_slowdown_state(context, key)
