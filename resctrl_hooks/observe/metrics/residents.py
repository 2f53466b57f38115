"""Metrics of the resident programs that have run since the last boot: the exec watcher, and those of other houses."""

from prometheus_client.core import Metric

from resctrl_hooks.core.metric import Program, Row, Status, counter_of
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.watch import status as watch
from resctrl_hooks.core.parts import load, parts

from .families import families

WATCH: tuple[Row[Status], ...] = (
    Row(
        "resctrl_hooks_exec_mode",
        "1 for the current way to detect execs: events or sampling.",
        lambda status: {name: float(status.get("mode") == name) for name in (watch.EVENTS, watch.SAMPLING)},
        ("mode",),
    ),
    counter_of("exec_events", "Execs reported by the kernel."),
    counter_of("exec_moved", "Processes moved into their pod's group after an exec."),
    counter_of("exec_gone", "Processes that ended before they could be inspected."),
    counter_of("exec_left", "Processes left to reconcile because their pod has no RMID or its lock was held."),
    counter_of("exec_failed", "Processes that could not be moved."),
    counter_of(
        "exec_overruns",
        "Times that the kernel dropped events because its buffer was full; then all containers are scanned.",
    ),
    counter_of(
        "exec_degraded",
        "Times that a container or the node had too many execs; it was then polled every two seconds.",
    ),
    counter_of("exec_sampled", "Threads moved by scans and polls of containers."),
)


def programs() -> list[Program]:
    """Return all programs with metrics."""
    return [*(load(part.program) for part in parts() if part.program), Program(watch.read_status, WATCH)]


def resident_families(context: Context) -> list[Metric]:
    """Return the metrics of each program that has a status."""
    found = [(one.rows, one.status(context.settings.state_dir)) for one in programs()]
    return [family for rows, status in found if status is not None for family in families(rows, status)]
