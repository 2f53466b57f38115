"""Metrics of the exec watcher, if it has run since the last boot."""

from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.watch.status import EVENTS, SAMPLING, read_status

_COUNTERS: Final = {
    "events": "Execs reported by the kernel.",
    "moved": "Processes moved into their pod's group after an exec.",
    "gone": "Processes that ended before they could be inspected.",
    "left": "Processes left to reconcile because their pod has no RMID or its lock was held.",
    "failed": "Processes that could not be moved.",
    "overruns": "Times that the kernel dropped events because its buffer was full; a scan of all containers follows.",
    "degraded": "Times that the rate of execs was too high, so that containers were polled every two seconds instead.",
    "sampled": "Threads moved by such scans and polls.",
}


def watch_families(context: Context) -> list[Metric]:
    """Return the watcher's own figures."""
    status = read_status(context.settings.state_dir)
    if status is None:
        return []
    mode = GaugeMetricFamily(
        "resctrl_hooks_exec_mode", "1 for the current way to detect execs: events or sampling.", labels=["mode"]
    )
    for name in (EVENTS, SAMPLING):
        mode.add_metric([name], float(status.get("mode") == name))
    counters = [
        CounterMetricFamily(f"resctrl_hooks_exec_{name}", text, status.get(name, 0)) for name, text in _COUNTERS.items()
    ]
    return [mode, *counters]
