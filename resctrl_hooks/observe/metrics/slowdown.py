"""Metrics of the pods' speed, which the node's sampling process judges (`slowdown.enabled`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric

from resctrl_hooks.core.inventory.pod_names import LABELS, PodNames
from resctrl_hooks.core.metric import COUNTER, Row
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.node.slowdown.status import read_status

from .families import families
from .selection import EVERYTHING, Selection


@dataclass(frozen=True, slots=True)
class Judged:
    """The pods of the status file by the values of their labels."""

    pods: Mapping[tuple[str, ...], Mapping[str, Any]]
    lost: Sequence[Mapping[str, Any]] = ()
    """What the pods of a namespace lost to those of another."""

    def sums(self, field: str) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield each value of a pod's field that has keys, with the pod's labels and the key."""
        for labels, pod in self.pods.items():
            for name, value in pod.get(field, {}).items():
                yield (*labels, name), value


ROWS: tuple[Row[Judged], ...] = (
    Row(
        "resctrl_pod_slowdown_ratio",
        "Duration of a pod's work, divided by its duration in quiet times; absent while unknown.",
        lambda judged: {labels: pod["ratio"] for labels, pod in judged.pods.items() if pod["ratio"] is not None},
        LABELS,
    ),
    Row(
        "resctrl_pod_cycles",
        "Cycles of a pod while its performance was counted, by method (perf or aet).",
        lambda judged: {labels: cycles for labels, (cycles, _) in judged.sums("counted")},
        (*LABELS, "method"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_instructions",
        "Instructions of a pod in the same time; micro-operations where `method` is aet.",
        lambda judged: {labels: work for labels, (_, work) in judged.sums("counted")},
        (*LABELS, "method"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_slowed_seconds",
        "Time for which a pod was slowed, by cause. A period with two causes counts for both.",
        lambda judged: dict(judged.sums("slowedSeconds")),
        (*LABELS, "cause"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_pod_lost_seconds",
        "Time that a pod lost while it was slowed, by cause: the causes divide it.",
        lambda judged: dict(judged.sums("lostSeconds")),
        (*LABELS, "cause"),
        kind=COUNTER,
    ),
    Row(
        "resctrl_lost_seconds",
        "Time that the pods of a namespace lost to pods of another or the same one; (outside pods), (others).",
        lambda judged: {(one["namespace"], one["culpritNamespace"]): one["seconds"] for one in judged.lost},
        ("namespace", "culprit_namespace"),
        kind=COUNTER,
    ),
)


def slowdown_families(context: Context, names: PodNames, selection: Selection = EVERYTHING) -> list[Metric]:
    """Return the families of all judged pods with a known name; none if no process judges them."""
    status = read_status(context)
    if status is None:
        return []
    found = {(key, *names.of(key)): pod for key, pod in status["pods"].items()}
    lost = [one for one in status.get("lost", ()) if selection.has_namespace(one["namespace"])]
    return families(ROWS, Judged({one: pod for one, pod in found.items() if selection.has_namespace(one[1])}, lost))
