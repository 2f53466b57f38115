"""systemd on the running host: reload units, start and stop them. Callers report failures and continue."""

import os
from collections.abc import Iterable

from .programs import failure

_RUNNING = "/run/systemd/system"
_SECONDS = 120
_NOT_LOADED = " not loaded"


def is_running() -> bool:
    """Return whether systemd is this host's init (sd_booted(3))."""
    return os.path.isdir(_RUNNING)


def systemctl(*arguments: str) -> str:
    """Run systemctl; return its failure in one line, or an empty string."""
    problem = failure("systemctl", *arguments, seconds=_SECONDS)
    return f"systemctl {' '.join(arguments)}: {problem}" if problem else ""


def reload_and_start(units: Iterable[str]) -> list[str]:
    """Reload systemd's units and start some; return the failures."""
    wrong = [systemctl("daemon-reload"), *(systemctl("restart", unit) for unit in units)]
    return [line for line in wrong if line]


def stop(units: Iterable[str]) -> list[str]:
    """Stop units that may not exist, and reset their failed state; return the failures.

    Each unit takes one call: if one of several is not loaded, systemd stops none of them and exits with 5.
    """
    wrong = [systemctl(verb, unit) for unit in units for verb in ("stop", "reset-failed")]
    return [line for line in wrong if line and _NOT_LOADED not in line]


def reload() -> list[str]:
    """Reload systemd's units."""
    return [line for line in [systemctl("daemon-reload")] if line]
