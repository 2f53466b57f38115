"""Metrics of the exec watcher, if it has run since the last boot."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import Metric

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.watch.status import EVENTS, SAMPLING, read_status

from .families import COUNTER, Row, families

Status = Mapping[str, Any]


def _counter(name: str, text: str) -> Row[Status]:
    return Row(f"resctrl_hooks_exec_{name}", text, lambda status: status.get(name, 0), kind=COUNTER)


ROWS: tuple[Row[Status], ...] = (
    Row(
        "resctrl_hooks_exec_mode",
        "1 for the current way to detect execs: events or sampling.",
        lambda status: {name: float(status.get("mode") == name) for name in (EVENTS, SAMPLING)},
        ("mode",),
    ),
    _counter("events", "Execs reported by the kernel."),
    _counter("moved", "Processes moved into their pod's group after an exec."),
    _counter("gone", "Processes that ended before they could be inspected."),
    _counter("left", "Processes left to reconcile because their pod has no RMID or its lock was held."),
    _counter("failed", "Processes that could not be moved."),
    _counter(
        "overruns",
        "Times that the kernel dropped events because its buffer was full; then all containers are scanned.",
    ),
    _counter(
        "degraded",
        "Times that a container or the node had too many execs; it was then polled every two seconds.",
    ),
    _counter("sampled", "Threads moved by scans and polls of containers."),
)


def watch_families(context: Context) -> list[Metric]:
    """Return the watcher's own figures."""
    status = read_status(context.settings.state_dir)
    return [] if status is None else families(ROWS, status)
