"""Check that services, image and manifests are of the installed version; `runtimes` compares this command with it."""

import os
from collections.abc import Iterator
from typing import Final

import psutil

from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.core.install.pod import REMEDY, outdated
from resctrl_hooks.core.install.unit_files import ORDERED
from resctrl_hooks.core.node.settings import FORMAT

from .finding import Check, Finding, ok, warning
from .host import Host


def versions(host: Host) -> Iterator[Finding]:
    """Check the versions of the manifests and of running services."""
    record = host.manifest
    if record is None:
        return
    old = outdated(record.manifests, record.version)
    found = [warning(old, REMEDY)] if old else []
    for unit in ORDERED if host.live else ():
        status = unit.status(host.settings.state_dir) if unit.status else None
        if status is not None and _is_older(host, status.get("pid", 0)):
            text = f"{unit.name} still runs the code of an earlier version than {record.version}"
            found.append(warning(text, f"systemctl restart {unit.name}"))
    same = ok(f"hook and services are of version {record.version}, the configuration of format {FORMAT}")
    yield from found or [same]


def _is_older(host: Host, pid: int) -> bool:
    """Return whether a process started before the script of the installed version was written."""
    try:
        return psutil.Process(pid).create_time() < os.stat(host.tree.real(LAUNCH)).st_mtime
    except (psutil.Error, OSError, ValueError):
        return False


CHECKS: Final = {"versions": Check(versions, of_files=True)}
