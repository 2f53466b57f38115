"""Metrics of the exec watcher, if it has run since the last boot."""

from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.watch.status import EVENTS, SAMPLING, read_status

_COUNTERS: Final = {
    "events": "Execs that the kernel has reported.",
    "moved": "Processes that were moved into their pod's group after an exec.",
    "gone": "Processes that had ended before they could be looked at.",
    "left": "Processes left to reconcile: their pod has no RMID, or its lock was held.",
    "failed": "Processes that could not be moved.",
    "overruns": "Times that the kernel dropped events since its buffer was full; a look at all containers follows.",
    "degraded": "Times that execs came too fast, so that containers were looked at every two seconds instead.",
    "sampled": "Threads that such looks have moved.",
}


def watch_families(context: Context) -> list[Metric]:
    """Return the watcher's own figures."""
    status = read_status(context.settings.state_dir)
    if status is None:
        return []
    mode = GaugeMetricFamily(
        "resctrl_hooks_exec_mode", "1 for how execs are found: by events, or by sampling.", labels=["mode"]
    )
    for name in (EVENTS, SAMPLING):
        mode.add_metric([name], float(status.get("mode") == name))
    counters = [
        CounterMetricFamily(f"resctrl_hooks_exec_{name}", text, status.get(name, 0)) for name, text in _COUNTERS.items()
    ]
    return [mode, *counters]
