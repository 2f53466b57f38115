"""The check of the history: whether samples arrive in its file."""

import math
import os
import time
from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.doctor.finding import Check, Finding, ok, warning
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.inventory.amounts import clock, scaled
from resctrl_hooks.core.node.settings import compiled_path
from resctrl_hooks.observe.node.history.section import section
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.tables import HistoryError
from resctrl_hooks.observe.service import GUARD

_LATE: Final = 3  # intervals without a sample that need a reason
_RETRIED: Final = 30  # seconds after which the process starts a failed part again
_MILLI: Final = 1000


def history(host: Host) -> Iterator[Finding]:
    """Check whether the resident process writes the history, if it is enabled.

    A sample is late only if the history was enabled, and the host booted, long enough ago for one.
    """
    settings = section(host.settings)
    if not settings["enabled"]:
        yield ok("no history, as configured by history.enabled")
        return
    remedy = f"systemctl status {GUARD}; if it does not exist, install again: `resctrl-hook install`"
    try:
        ends, number, size = _contents(settings["file"])
    except HistoryError as error:
        yield warning(f"the history cannot be read: {error}", remedy)
        return
    missing = time.time() - ends[1] / _MILLI if ends else None
    waited = min(age for age in (missing, _configured(host), _uptime(host)) if age is not None)
    late = waited > _LATE * settings["interval"] + _RETRIED
    if missing is None:
        yield warning("the history has no sample", remedy) if late else ok("the history has no sample yet")
    elif late:
        yield warning(f"the history has no sample of the last {missing:.0f} s", remedy)
    elif ends:
        first, last = (clock(one / _MILLI) for one in ends)
        yield ok(f"the history has {number} samples from {first} to {last} in {scaled(size, 'B', binary=True)}")


def _contents(path: str) -> tuple[tuple[int, int] | None, int, int]:
    """Return the times of the first and last sample, the number of samples, and the size of the file in bytes."""
    if not os.path.lexists(path):
        return None, 0, 0
    store = Store(path)
    try:
        return store.ends(), store.number(), store.size()
    finally:
        store.close()


def _configured(host: Host) -> float:
    """Return the age of the active configuration in seconds."""
    try:
        return time.time() - os.stat(host.tree.real(compiled_path(host.config))).st_mtime
    except OSError:
        return math.inf


def _uptime(host: Host) -> float:
    """Return the seconds since the host's boot."""
    words = host.proc("uptime").split()
    return float(words[0]) if words else math.inf


CHECKS: Final = {"history": Check(history, after="exec")}
