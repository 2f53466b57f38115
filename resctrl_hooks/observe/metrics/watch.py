"""Metrics of the exec watcher, once it has run since the last boot."""

from typing import Final

from resctrl_hooks.core.metric import Row, Table, counter_of
from resctrl_hooks.core.node.watch import status as watch

TABLE: Final = Table(
    lambda context: watch.read_status(context.settings.state_dir),
    (
        Row(
            "resctrl_hooks_exec_mode",
            "1 for the current way to detect execs: events or sampling.",
            lambda status: {name: float(status.get("mode") == name) for name in (watch.EVENTS, watch.SAMPLING)},
            ("mode",),
        ),
        counter_of("exec_events", "Execs reported by the kernel."),
        counter_of("exec_moved", "Processes moved into their pod's group after an exec."),
        counter_of("exec_gone", "Processes that ended before they could be inspected."),
        counter_of("exec_left", "Processes that reconcile moves later: no RMID, or the pod is locked."),
        counter_of("exec_failed", "Processes that could not be moved."),
        counter_of(
            "exec_overruns",
            "Times that the kernel dropped events; then all containers are scanned.",
        ),
        counter_of(
            "exec_degraded",
            "Times that execs were too frequent; containers are then scanned every two seconds.",
        ),
        counter_of("exec_sampled", "Threads moved by scans and polls of containers."),
    ),
)
