"""The state of each node: whether it counts, its RMIDs, its load, its versions, and its worst problem."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.inventory.load_text import DESCRIPTION
from resctrl_hooks.observe.node.capacity.capacity import CONFIGURED, SEEN, SOURCES, Capacity

from .api import MetricsPod
from .exposition import Series, named
from .readings import NodeReading

COUNTERS = ("resctrl_class_*_mbm_total_bytes_total", "resctrl_class_*_llc_occupancy_bytes")
"""Totals of all tasks of a node by class and resource: on a node that runs anything they move."""
_CLASS, _COUNTED = "resctrl_class_", tuple(name.partition("*")[2] for name in COUNTERS)
CAPACITY, TRAFFIC = "resctrl_domain_capacity_bytes_per_second", "resctrl_domain_mbm_bytes_total"
RMIDS, WAITING, SCRAPE = "resctrl_rmids", "resctrl_hooks_waiting_pods", "resctrl_scrape_ok"
VERSION, RECONCILED = "resctrl_hooks_build_info", "resctrl_hooks_last_reconcile_timestamp_seconds"
VANISHED, SLOWDOWN = "resctrl_hooks_groups_vanished_total", "resctrl_pod_slowdown_ratio"
KNOWN = {
    "CPU": "cgroup_cpu_seconds_total",
    "waits": "cgroup_cpu_waiting_seconds_total",
    "memory": "cgroup_memory_bytes",
    "disk": "cgroup_disk_bytes_total",
    "cycles": "resctrl_pod_cycles_total",
    "L3": "resctrl_class_l3_llc_occupancy_bytes",
    "bandwidth": TRAFFIC,
}
"""What can be known of a node's pods, and the series that shows it."""
NAMES = {
    **dict.fromkeys((*COUNTERS, RMIDS, WAITING, SCRAPE, RECONCILED, VANISHED, SLOWDOWN), ""),
    **dict.fromkeys((name for name in KNOWN.values() if "_class_" not in name), ""),
    **dict.fromkeys((CAPACITY, TRAFFIC), "domain"),
    VERSION: "version",
}
"""The series that this module reads, and their required labels."""
SLOWED = 1.2
"""A pod at this multiple of its baseline counts as slowed; the node's own `diagnose` decides with its interval."""
_LATE = 600.0  # seconds without a pass of reconcile, which runs every 30: also a desk's clock may be wrong
Counting = Literal["yes", "no-rdt", "no", "unknown"]


class Node(Record):
    """A node as `kubectl resctrl nodes` prints it. None: unknown."""

    name: str
    counting: Counting = Field(
        description="Whether its counters moved between two readings; `no-rdt`: it has no RDT, its pods' cgroups count."
    )
    known: list[str] = Field(default_factory=list, description="What it can know of its pods.")
    rmids: int | None = Field(default=None, description="RMIDs of the processor.")
    rmids_used: int | None = None
    rmids_free: int | None = None
    waiting: int | None = Field(default=None, description="Pods that wait for an RMID.")
    load: float | None = Field(default=None, description="Load of the fullest memory domain; 1 is its capacity.")
    capacity_source: str | None = Field(default=None, description=DESCRIPTION)
    slowed: int | None = Field(default=None, description="Pods that run slower than their baseline.")
    version: str = Field(default="", description="Version that serves the metrics.")
    image: str = Field(default="", description="Image of the metrics pod.")
    problem: str = Field(default="", description="Its worst problem.")


def node_of(reading: NodeReading, now: float | None = None) -> Node:
    """Return the state of a node from two readings of its metrics."""
    pod, series = reading.pod, reading.now
    if reading.problem:
        return Node(name=pod.node, counting="unknown", image=pod.image, problem=reading.problem)
    rmids = {labels.get("state") or labels.get("owner") or "": int(value) for labels, value in named(series, RMIDS)}
    total, free = sum(rmids.values()), rmids.get("free")
    load, source = _load(reading)
    ratios = [value for _, value in named(series, SLOWDOWN)]
    return Node(
        name=pod.node,
        counting=_counting(reading),
        known=[word for word, name in KNOWN.items() if any(one.startswith(name) for one in series)],
        rmids=total if free is not None else None,
        rmids_used=total - free if free is not None else None,
        rmids_free=free,
        waiting=_whole(series, WAITING),
        load=load,
        capacity_source=source,
        slowed=sum(value >= SLOWED for value in ratios) if ratios else None,
        version=next((labels["version"] for labels, _ in named(series, VERSION)), ""),
        image=pod.image,
        problem=_problem(reading, time.time() if now is None else now),
    )


def missing(nodes: Iterable[str], pods: Sequence[MetricsPod]) -> list[Node]:
    """Return the nodes that have no metrics pod."""
    served = {pod.node for pod in pods}
    text = "no metrics pod: the DaemonSet does not select it, or its pod is not scheduled"
    return [Node(name=node, counting="unknown", problem=text) for node in nodes if node not in served]


def _problem(reading: NodeReading, now: float) -> str:
    """Return the first problem of a node that answered, the worst first; empty if it has none."""
    series = reading.now
    late = now - _value(series, RECONCILED)
    waiting, vanished = _value(series, WAITING), _value(series, VANISHED)
    problems = (
        (not _value(series, SCRAPE), "resctrl or the records are unreadable: run `resctrl-hook doctor` there"),
        (_counting(reading) == "no", "no counter moved between two readings: run `resctrl-hook doctor` there"),
        (not reading.pod.ready, "the metrics pod is not ready"),
        (late > _LATE, f"reconcile has not run for {late / 60:.0f} min" if late < now else "reconcile has never run"),
        (waiting > 0, f"{waiting:.0f} pods wait for an RMID"),
        (vanished > 0, f"another program removed {vanished:.0f} groups since boot"),
    )
    return next((text for applies, text in problems if applies), "")


def _counting(reading: NodeReading) -> Counting:
    """Return whether a counter of the node changed between the readings, which proves that it counts."""
    if not _value(reading.now, SCRAPE):
        return "no"
    values = [
        (reading.before.get(one), value)
        for one, value in reading.now.items()
        if one.startswith(_CLASS) and one.partition("{")[0].endswith(_COUNTED)
    ]
    if not values:
        return "no-rdt" if any(one.startswith(KNOWN["CPU"]) for one in reading.now) else "no"
    return "yes" if any(before is not None and before != value for before, value in values) else "no"


def _load(reading: NodeReading) -> tuple[float | None, str | None]:
    """Return the load of the fullest memory domain, and the source of its capacity; None if it is unknown.

    A load by the largest rate so far counts only where no other load is known.
    """
    capacity = {labels["domain"]: (value, labels.get("source")) for labels, value in named(reading.now, CAPACITY)}
    loads = []
    for series, value in reading.now.items():
        before = reading.before.get(series)
        if series.startswith(f"{TRAFFIC}{{") and before is not None and reading.seconds > 0:
            domain = next(labels["domain"] for labels, _ in named({series: value}, TRAFFIC))
            most, source = capacity.get(domain) or capacity.get("*") or (0.0, None)
            if most:
                of = source if source in SOURCES else CONFIGURED  # a node of an earlier version does not name it
                load = Capacity(most, of).load(max(value - before, 0.0) / reading.seconds)
                loads.append((of != SEEN, load, of))
    return max(loads)[1:] if loads else (None, None)


def _value(series: Mapping[str, float], name: str) -> float:
    return series.get(name, 0.0)


def _whole(series: Series, name: str) -> int | None:
    value = series.get(name)
    return None if value is None else int(value)
