"""Metrics of the pods' speed, which the node's sampling process judges (`slowdown.enabled`), and of their limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import Metric

from resctrl_hooks.core.inventory.pod_names import LABELS, PodNames
from resctrl_hooks.core.metric import COUNTER, Row
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.node.slowdown.status import read_status
from resctrl_hooks.observe.node.temporary.limits import active_limits

from .families import families
from .selection import EVERYTHING, Selection


@dataclass(frozen=True, slots=True)
class Judged:
    """The pods of the status file by the values of their labels."""

    pods: Mapping[tuple[str, ...], Mapping[str, Any]]
    lost: Sequence[Mapping[str, Any]] = ()
    """What the pods of a namespace lost to those of another."""
    limits: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """The end of each limited value, by the pod's labels, the value's name, the disk and the owner."""

    def sums(self, of: str) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield each value of a pod's field that has keys, with the pod's labels and the key."""
        for labels, pod in self.pods.items():
            for name, value in pod.get(of, {}).items():
                yield (*labels, name), value


ROWS: tuple[Row[Judged], ...] = (
    Row(
        "resctrl_pod_slowdown_ratio",
        "How many times longer the pod's work takes than without disturbance.",
        lambda judged: {labels: pod["ratio"] for labels, pod in judged.pods.items() if pod["ratio"] is not None},
        LABELS,
    ),
    Row(
        "resctrl_pod_cycles",
        "Cycles of the pod while its work was counted, by perf or Intel's telemetry (aet).",
        lambda judged: {labels: cycles for labels, (cycles, _) in judged.sums("counted")},
        (*LABELS, "method"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_instructions",
        "Instructions of the pod in the same time; with aet, micro-operations.",
        lambda judged: {labels: work for labels, (_, work) in judged.sums("counted")},
        (*LABELS, "method"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_slowed_seconds",
        "Time for which each cause slowed the pod.",
        lambda judged: dict(judged.sums("slowedSeconds")),
        (*LABELS, "cause"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_lost_seconds",
        "Time that the pod lost by each cause.",
        lambda judged: dict(judged.sums("lostSeconds")),
        (*LABELS, "cause"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_lost_seconds",
        "Time that pods of `namespace` lost to pods of `culprit_namespace`.",
        lambda judged: {(one["namespace"], one["culpritNamespace"]): one["seconds"] for one in judged.lost},
        ("namespace", "culprit_namespace"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_limit_end_timestamp_seconds",
        "End of a limit in seconds since 1970; 0: the pod's end.",
        lambda judged: judged.limits,
        (*LABELS, "value", "device", "owner"),
    ),
)


def slowdown_families(context: Context, names: PodNames, selection: Selection = EVERYTHING) -> list[Metric]:
    """Return the families of all judged or limited pods with a known name; none of speed if no process judges them."""
    status = read_status(context) or {"pods": {}}
    limits: dict[tuple[str, ...], float] = {
        (one.key, *names.of(one.key), value.address.name, value.address.part, one.owner): round(one.ends or 0.0, 3)
        for one in active_limits(context).values()
        if selection.has_namespace(names.of(one.key).namespace)
        for value in one.values
    }
    found = {(key, *names.of(key)): pod for key, pod in status["pods"].items()}
    lost = [one for one in status.get("lost", ()) if selection.has_namespace(one["namespace"])]
    pods: dict[tuple[str, ...], Any] = {one: pod for one, pod in found.items() if selection.has_namespace(one[1])}
    return families(ROWS, Judged(pods, lost, limits))
