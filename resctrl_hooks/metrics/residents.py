"""Metrics of the resident programs that have run since the last boot: the NRI plugin and the exec watcher.

Calls of the plugin's stages are counted with the hooks' calls.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import Metric

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.watch import status as watch
from resctrl_hooks.nri.status import BOUNDS, NAME

from .families import COUNTER, Histogram, Row, families

Status = Mapping[str, Any]


def _counter(name: str, text: str) -> Row[Status]:
    return Row(f"resctrl_hooks_{name}", text, lambda status: status.get(name.partition("_")[2], 0), kind=COUNTER)


def _events(status: Status) -> Mapping[str, Any]:
    events = status.get("events")
    return dict(sorted(events.items())) if isinstance(events, dict) else {}


def _durations(status: Status) -> Mapping[str, Histogram]:
    """Return the histogram of each event; an earlier version's has other bounds and is left out."""
    return {
        name: Histogram(BOUNDS, event["buckets"], event["seconds"])
        for name, event in _events(status).items()
        if len(event.get("buckets", ())) == len(BOUNDS) + 1
    }


NRI: tuple[Row[Status], ...] = (
    Row(
        "resctrl_hooks_nri_connected",
        "1 while the NRI plugin is connected to a runtime, else 0.",
        lambda status: float(status.get("connected") is True),
    ),
    _counter("nri_starts", "Starts of the NRI plugin since boot; all but the first are restarts."),
    _counter("nri_connections", "Connections accepted by a runtime; all but the first are reconnects."),
    _counter("nri_drops", "Connections closed: the runtime restarted or dropped the plugin."),
    Row(
        "resctrl_hooks_nri_events_failed",
        "Events whose worker died, exceeded its time, or rejected the container.",
        lambda status: {name: event["failed"] for name, event in _events(status).items()},
        ("event",),
        kind=COUNTER,
    ),
    Row(
        "resctrl_hooks_nri_event_duration_seconds",
        "Time from the runtime's request to the end of the plugin's work, for events that cause work.",
        _durations,
        ("event",),
        unit="seconds",
    ),
)


WATCH: tuple[Row[Status], ...] = (
    Row(
        "resctrl_hooks_exec_mode",
        "1 for the current way to detect execs: events or sampling.",
        lambda status: {name: float(status.get("mode") == name) for name in (watch.EVENTS, watch.SAMPLING)},
        ("mode",),
    ),
    _counter("exec_events", "Execs reported by the kernel."),
    _counter("exec_moved", "Processes moved into their pod's group after an exec."),
    _counter("exec_gone", "Processes that ended before they could be inspected."),
    _counter("exec_left", "Processes left to reconcile because their pod has no RMID or its lock was held."),
    _counter("exec_failed", "Processes that could not be moved."),
    _counter(
        "exec_overruns",
        "Times that the kernel dropped events because its buffer was full; then all containers are scanned.",
    ),
    _counter(
        "exec_degraded",
        "Times that a container or the node had too many execs; it was then polled every two seconds.",
    ),
    _counter("exec_sampled", "Threads moved by scans and polls of containers."),
)
_TABLES = ((NAME, NRI), (watch.NAME, WATCH))


def resident_families(context: Context) -> list[Metric]:
    """Return the metrics of each program that has a status."""
    found = [(rows, watch.read_status(context.settings.state_dir, name)) for name, rows in _TABLES]
    return [family for rows, status in found if status is not None for family in families(rows, status)]
