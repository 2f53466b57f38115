"""Metrics of the NRI plugin. Its events are counted with the hooks' calls, as separate stages."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import Metric

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.watch.status import read_status
from resctrl_hooks.nri.status import BOUNDS, NAME

from .families import COUNTER, Histogram, Row, families

Status = Mapping[str, Any]


def _counter(name: str, text: str) -> Row[Status]:
    return Row(f"resctrl_hooks_nri_{name}", text, lambda status: status.get(name, 0), kind=COUNTER)


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


ROWS: tuple[Row[Status], ...] = (
    Row(
        "resctrl_hooks_nri_connected",
        "1 while the NRI plugin is connected to a runtime, else 0.",
        lambda status: float(status.get("connected") is True),
    ),
    _counter("starts", "Starts of the NRI plugin since boot; all but the first are restarts."),
    _counter("connections", "Connections accepted by a runtime; all but the first are reconnects."),
    _counter("drops", "Connections closed: the runtime restarted or dropped the plugin."),
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


def nri_families(context: Context) -> list[Metric]:
    """Return the plugin's connection metrics; empty if it has not run since the last boot."""
    status = read_status(context.settings.state_dir, NAME)
    return [] if status is None else families(ROWS, status)
