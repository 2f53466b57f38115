"""Metrics of the NRI plugin. Its events are counted with the hooks' calls, as separate stages."""

from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.host.files import parse_json, read_file
from resctrl_hooks.nri.status import BOUNDS, NAME

_LIMIT = 1 << 20
_COUNTERS: Final = {
    "starts": "Starts of the NRI plugin since boot; all but the first are restarts.",
    "connections": "Connections accepted by a runtime; all but the first are reconnects.",
    "drops": "Connections closed: the runtime restarted or dropped the plugin.",
}


def nri_families(context: Context) -> list[Metric]:
    """Return the plugin's connection metrics; empty if it has not run since the last boot."""
    try:
        status: Any = parse_json(read_file(f"{context.settings.state_dir}/{NAME}", _LIMIT))
    except (OSError, ValueError):
        return []
    if not isinstance(status, dict):
        return []
    connected = GaugeMetricFamily(
        "resctrl_hooks_nri_connected",
        "1 while the NRI plugin is connected to a runtime, else 0.",
        float(status.get("connected") is True),
    )
    counters = [
        CounterMetricFamily(f"resctrl_hooks_nri_{name}", text, status.get(name, 0)) for name, text in _COUNTERS.items()
    ]
    unserved = CounterMetricFamily(
        "resctrl_hooks_nri_events_failed",
        "Events whose worker died, exceeded its time, or rejected the container.",
        labels=["event"],
    )
    durations = HistogramMetricFamily(
        "resctrl_hooks_nri_event_duration_seconds",
        "Time from the runtime's request to the end of its work, of events with work.",
        labels=["event"],
        unit="seconds",
    )
    bounds = [*map(floatToGoString, BOUNDS), "+Inf"]
    events = status.get("events")
    for name, kept in sorted(events.items() if isinstance(events, dict) else ()):
        unserved.add_metric([name], kept.get("failed", 0))
        buckets = kept.get("buckets", [])
        if len(buckets) == len(bounds):  # else an earlier version wrote it
            counts = map(float, accumulate(buckets))
            durations.add_metric([name], list(zip(bounds, counts, strict=True)), kept["seconds"])
    return [connected, *counters, unserved, durations]
