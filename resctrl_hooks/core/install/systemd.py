"""systemd on the running host: reload units, start and stop them. Callers report failures and continue."""

import os
from collections.abc import Callable, Iterable

from resctrl_hooks.core.programs import failure

from .tree import Tree

Warn = Callable[[str], object]

_RUNNING = "/run/systemd/system"
_SECONDS = 120
_NOT_LOADED = " not loaded"


def is_running() -> bool:
    """Return whether systemd is this host's init (sd_booted(3))."""
    return os.path.isdir(_RUNNING)


def runs(tree: Tree) -> bool:
    """Return whether the files are of this running host, whose init is systemd."""
    return not tree.root and is_running()


def systemctl(*arguments: str) -> str:
    """Run systemctl; return its failure in one line, or an empty string."""
    problem = failure("systemctl", *arguments, seconds=_SECONDS)
    return f"systemctl {' '.join(arguments)}: {problem}" if problem else ""


def reload(warn: Warn, start: Iterable[str] = ()) -> None:
    """Reload systemd's units, and start some. A mount is not restarted: a new resctrl would have no groups."""
    started = (systemctl("start" if unit.endswith(".mount") else "restart", unit) for unit in start)
    _report((systemctl("daemon-reload"), *started), warn)


def stop(units: Iterable[str], warn: Warn) -> None:
    """Stop units that may not exist, those that start services first, and reset their failed state.

    Each unit takes one call: if one of several is not loaded, systemd stops none of them and exits with 5.
    """
    failed = [systemctl(verb, unit) for unit in sorted(units, key=_is_service) for verb in ("stop", "reset-failed")]
    _report((line for line in failed if _NOT_LOADED not in line), warn)


def _is_service(unit: str) -> bool:
    return unit.endswith(".service")


def _report(lines: Iterable[str], warn: Warn) -> None:
    for line in filter(None, lines):
        warn(line)
