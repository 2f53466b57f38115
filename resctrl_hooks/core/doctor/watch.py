"""Checks of the exec watcher: whether it runs, how it detects execs, and which ones it lost."""

from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.install import systemd
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.install.unit_files import ORDERED
from resctrl_hooks.core.install.units import EXEC
from resctrl_hooks.core.node.host.procfs import start_time
from resctrl_hooks.core.node.watch.enabled import is_enabled, why_useless
from resctrl_hooks.core.node.watch.status import EVENTS, OFF, read_status

from .finding import Check, Finding, ok, warning
from .host import DEFAULT_PROC, Host

_LEFT: Final = "processes that enter containers are counted only after the next reconcile"
_WITHOUT_SYSTEMD: Final = "keep `resctrl-hook watch` running as root; systemd does not run here"


def exec_watcher(host: Host) -> Iterator[Finding]:
    """Check whether processes that enter running containers are counted from their first milliseconds."""
    if not is_enabled(host.settings):
        yield ok(f"no exec watcher, as configured by monitoring.exec: {_LEFT}")
        return
    by_hand = _WITHOUT_SYSTEMD if host.live and not systemd.is_running() else ""
    status = read_status(host.settings.state_dir)
    watching = [unit.name for unit in ORDERED if EXEC in (unit.name, unit.replaces)]
    unit = next((name for name in watching if host.tree.exists(f"{UNITS}/{name}")), "")
    if status is None or not start_time(DEFAULT_PROC, status.get("pid", 0)):
        if not unit and host.manifest is None:
            return  # not installed; other checks report that
        remedy = f"systemctl enable --now {unit}" if unit else "install again: `resctrl-hook install`"
        yield warning(f"the exec watcher does not run: {_LEFT}", by_hand or remedy)
        return
    counts = f"{status.get('moved', 0)} processes moved after {status.get('events', 0)} execs"
    if status.get("mode") == EVENTS:
        yield ok(f"the exec watcher receives execs: {counts}")
    elif status.get("mode") == OFF and status.get("why") == why_useless(host.settings):
        yield ok("the exec watcher is off, because there are no groups for processes")
    elif status.get("mode") == OFF:
        yield warning(f"the exec watcher is off: {status.get('why')}", by_hand or f"systemctl restart {unit or EXEC}")
    else:
        yield warning(
            f"the exec watcher polls every two seconds instead of receiving each exec: {status.get('why')}",
            "processes that live shorter are not counted; docs/exec.md lists the requirements",
        )
    if status.get("overruns") or status.get("degraded"):
        yield warning(
            f"too many execs to process: events lost {status.get('overruns', 0)} times, rate limit exceeded "
            f"{status.get('degraded', 0)} times",
            f"missed processes are counted from the next scan; see `journalctl -u {unit or EXEC}`",
        )


CHECKS: Final = {"exec": Check(exec_watcher)}
