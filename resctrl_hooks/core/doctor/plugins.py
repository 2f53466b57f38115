"""Other programs' NRI plugins: which ones are on this host, and the check of groups that one of them removed.

A runtime that calls no OCI hooks calls ours through one of them.
"""

import os
import time
from collections.abc import Iterator
from typing import Final

import psutil

from resctrl_hooks.core.node.reconcile.vanished import read_vanished

from .finding import Check, Finding, ok, problem
from .host import Host, names

REMOVES_GROUPS: Final = "resctrl-mon"
INJECTOR: Final = "hook-injector"
_PRECONFIGURED: Final = "/opt/nri/plugins"
_OTHERS: Final = ("nri-", INJECTOR, REMOVES_GROUPS)
"""Name prefixes of other NRI plugins: those of containers/nri-plugins and of containerd/nri."""


def other_plugins(host: Host) -> set[str]:
    """Return the programs of other NRI plugins: those that the runtime starts, and those that run on their own."""
    found = set(names(host.tree.real(_PRECONFIGURED)))
    return found | {name for _, name in _programs(host) if name.startswith(_OTHERS)}


def _programs(host: Host) -> Iterator[tuple[int, str]]:
    """Yield all processes with the names of their programs."""
    for process in psutil.process_iter(["cmdline"]) if host.runs else ():
        yield process.pid, os.path.basename((process.info["cmdline"] or [""])[0])


def removed_groups(host: Host) -> Iterator[Finding]:
    """Check for groups of running pods that another program removed, and for programs known to do so."""
    found = read_vanished(host.settings.state_dir)
    if not found["total"]:
        yield ok("no other program has removed a group of a live pod")
        return
    running = sorted(f"{name} (process {pid})" for pid, name in _programs(host) if REMOVES_GROUPS in name)
    who = f"; {', '.join(running)} is known to do this" if running else ""
    groups = "a group" if found["total"] == 1 else f"{found['total']} groups"
    yield problem(
        f"another program removed {groups} of live pods, last {ago(found['last'])} ago{who}",
        "stop nri-resctrl-mon on this node, or set groupPrefix: it only removes groups with a UUID as their name",
    )


def ago(when: float) -> str:
    """Return the time since ``when``, in seconds since 1970, in words."""
    seconds = max(0, int(time.time() - when))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"  # noqa: PLR2004  # two minutes


CHECKS: Final = {"vanished": Check(removed_groups)}
