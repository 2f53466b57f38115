"""Check that services, image and manifests are of the installed version; `runtimes` compares this command with it."""

import os
from collections.abc import Iterator
from typing import Final

import psutil

from resctrl_hooks.install.paths import LAUNCH
from resctrl_hooks.install.pod import REMEDY, outdated
from resctrl_hooks.install.units import EXEC, GUARD, NRI
from resctrl_hooks.node.guard.status import NAME as GUARD_STATUS
from resctrl_hooks.node.settings import FORMAT
from resctrl_hooks.node.watch.status import NAME as EXEC_STATUS
from resctrl_hooks.node.watch.status import read_status
from resctrl_hooks.nri.status import NAME as NRI_STATUS

from .finding import Check, Finding, ok, warning
from .host import Host

_STATUS: Final = {EXEC: EXEC_STATUS, NRI: NRI_STATUS, GUARD: GUARD_STATUS}


def versions(host: Host) -> Iterator[Finding]:
    """Check the versions of the manifests and of running services."""
    record = host.manifest
    if record is None:
        return
    found = list(_differences(host))
    yield from found
    if not found:
        yield ok(f"hook and services are of version {record.version}, the configuration of format {FORMAT}")


def _differences(host: Host) -> Iterator[Finding]:
    record = host.manifest
    if record is None:
        return
    old = outdated(record.manifests, record.version)
    if old:
        yield warning(old, REMEDY)
    for unit, name in _STATUS.items() if host.live else ():
        status = read_status(host.settings.state_dir, name)
        if status is not None and _is_older(host, status.get("pid", 0)):
            yield warning(
                f"{unit} still runs the code of an earlier version than {record.version}", f"systemctl restart {unit}"
            )


def _is_older(host: Host, pid: int) -> bool:
    """Return whether a process started before the script of the installed version was written."""
    try:
        return psutil.Process(pid).create_time() < os.stat(host.tree.real(LAUNCH)).st_mtime
    except (psutil.Error, OSError, ValueError):
        return False


CHECKS: Final = {"versions": Check(versions, of_files=True)}
