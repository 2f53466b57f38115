"""Metrics of the NRI plugin. Its events are counted with the hooks' calls, as separate stages."""

from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.host.files import parse_json, read_file
from resctrl_hooks.nri.status import NAME

_LIMIT = 1 << 20


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
    connections = CounterMetricFamily(
        "resctrl_hooks_nri_connections",
        "Connections accepted by a runtime; all but the first are reconnects.",
        status.get("connections", 0),
    )
    drops = CounterMetricFamily(
        "resctrl_hooks_nri_drops",
        "Connections closed: the runtime restarted or dropped the plugin.",
        status.get("drops", 0),
    )
    unserved = CounterMetricFamily(
        "resctrl_hooks_nri_events_failed",
        "Events whose worker died, exceeded its time, or rejected the container.",
        labels=["event"],
    )
    events = status.get("events")
    for name, kept in sorted(events.items() if isinstance(events, dict) else ()):
        unserved.add_metric([name], kept.get("failed", 0))
    return [connected, connections, drops, unserved]
