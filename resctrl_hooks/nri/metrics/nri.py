"""Metrics of the NRI plugin. Calls of its stages are counted with the hooks' calls."""

from collections.abc import Mapping
from typing import Any, Final

from resctrl_hooks.core.metric import COUNTER, Histogram, Row, Status, Table, counter_of
from resctrl_hooks.nri.node.status import BOUNDS, read_status


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


TABLE: Final = Table(
    lambda context: read_status(context.settings.state_dir),
    (
        Row(
            "resctrl_hooks_nri_connected",
            "1 while the NRI plugin is connected to a runtime.",
            lambda status: float(status.get("connected") is True),
        ),
        counter_of("nri_starts", "Starts of the NRI plugin since boot."),
        counter_of("nri_connections", "Connections to a runtime since boot."),
        counter_of("nri_drops", "Connections that the runtime closed."),
        Row(
            "resctrl_hooks_nri_events_failed",
            "Events that failed, took too long, or rejected the container.",
            lambda status: {name: event["failed"] for name, event in _events(status).items()},
            ("event",),
            kind=COUNTER,
        ),
        Row(
            "resctrl_hooks_nri_event_duration_seconds",
            "Time from the runtime's request to the end of the work.",
            _durations,
            ("event",),
            unit="seconds",
        ),
    ),
)
