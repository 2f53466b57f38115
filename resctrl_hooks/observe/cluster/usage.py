"""Rates of all pods of a node from two readings of its metrics, by the rules of `top` on the node itself.

A rate is the counted amount divided by the time that the counter counted (`inventory.rates`). So it is right also where
pods share an RMID by turns, and unknown where less than half of the interval was counted.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.node.resctrl.bandwidth import EVENTS, order_of
from resctrl_hooks.observe.inventory.columns import COLUMNS, MBM, Column, measured, value_in
from resctrl_hooks.observe.inventory.rates import rate_of
from resctrl_hooks.observe.node.snapshot.growth import Growth, together, total_of

from .exposition import Series, labels_of, named
from .readings import NodeReading

SECONDS, SLOWDOWN = "resctrl_counted_seconds_total", "resctrl_pod_slowdown_ratio"
LIMIT = "resctrl_pod_limit_end_timestamp_seconds"
FORMER_SECONDS = "resctrl_counter_seconds_total"
"""The name in version 0.2; later nodes have both names, with equal values."""
BY_METRIC = {column.metric.partition("_")[2]: column for column in COLUMNS}
"""The columns by the names of their metrics without the resource that counts, which is another on some machines."""
NAMES = dict.fromkeys((SECONDS, FORMER_SECONDS, SLOWDOWN, LIMIT, *(f"*_{name}" for name in BY_METRIC)), "")
"""The series that this module reads; none has a required label."""
_NEW = 0.5  # seconds that a new pod in an interval may seem older than the interval


@measured("uid", default=None)
class PodUsage(Record):
    """One pod, or the sum of a namespace or node. None: unknown."""

    node: str
    namespace: str
    pod: str
    uid: str = Field(default="", description="The pod's UID.")
    slowdown: float | None = Field(default=None, description="Multiple of its baseline; 1 is not slowed.")
    limited: list[str] = Field(default=[], description="Values that `resctrl-hook limit` has lowered, as cpu.max.")
    limit_ends: float | None = Field(
        default=None, description="The first end of these, in seconds since 1970; null: none, or the pod's end."
    )
    pods: int = 1


def name_of(one: PodUsage) -> str:
    """Return the pod's full name; that of a sum is what it is the sum of."""
    return "/".join(filter(None, (one.namespace, one.pod))) or one.node


SORTS = {**{column.key: attrgetter(column.field) for column in COLUMNS}, "slow": attrgetter("slowdown")}
GROUPINGS: dict[str, Callable[[PodUsage], tuple[str, str, str]]] = {
    "pod": lambda one: (one.node, one.namespace, one.pod),
    "namespace": lambda one: ("", one.namespace, ""),
    "node": lambda one: (one.node, "", ""),
}
_Pod = tuple[str, str, str]
_Seconds = dict[tuple[_Pod, str, str], dict[str, float]]


def pods_of(reading: NodeReading) -> list[PodUsage]:
    """Return the use of each pod of a node; no pod if it did not answer."""
    before, now = _seconds_of(reading.before), _seconds_of(reading.now)
    spent = {
        place: {domain: value - before.get(place, {}).get(domain, 0.0) for domain, value in of.items()}
        for place, of in now.items()
    }
    interval = max((value for of in spent.values() for value in of.values()), default=0.0)
    interval = min(interval, reading.seconds + 1.0) or reading.seconds
    growths: dict[_Pod, dict[Column, dict[str, list[Growth]]]] = {}
    gauges: dict[_Pod, dict[Column, list[float]]] = {}
    slowed: dict[_Pod, float] = {}
    limits: dict[_Pod, list[tuple[str, float]]] = {}
    bandwidth = _bandwidth_resource(reading.now)
    for series, value in reading.now.items():
        name = series.partition("{")[0]
        if name in (SECONDS, FORMER_SECONDS):
            continue
        labels = labels_of(series)
        pod = _pod(labels)
        resource, _, metric = name.partition("_")
        column = BY_METRIC.get(metric)
        if name == LIMIT:
            limits.setdefault(pod, []).append((labels.get("value", ""), value))
        elif column is None:
            slowed[pod] = value
        elif column.counter in EVENTS and resource != bandwidth:
            continue  # counted twice
        elif column.of_cgroup and column.is_rate:
            known = reading.before.get(series)
            moved = None if known is None else max(value - known, 0.0) * column.factor
            growths.setdefault(pod, {}).setdefault(column, {}).setdefault("", []).append((moved, reading.seconds))
        elif not column.is_rate:
            gauges.setdefault(pod, {}).setdefault(column, []).append(value)
        else:
            place = (pod, labels.get("rdt_class", ""), column.counter)
            domain = labels.get("domain_name", "")
            grown = _growth(
                reading.before.get(series), value, spent.get(place, {}), domain, interval, is_new=place not in before
            )
            growths.setdefault(pod, {}).setdefault(column, {}).setdefault(domain, []).append(grown)
    found = []
    for pod in dict.fromkeys([*growths, *gauges]):
        one = PodUsage(node=reading.pod.node, namespace=pod[0], pod=pod[1], uid=pod[2], slowdown=slowed.get(pod))
        one.limited = sorted({name for name, _ in limits.get(pod, ())})
        one.limit_ends = min((end for _, end in limits.get(pod, ()) if end), default=None)
        for column, values in gauges.get(pod, {}).items():
            setattr(one, column.field, sum(values))
        for column, domains in growths.get(pod, {}).items():
            length = reading.seconds if column.of_cgroup else interval
            setattr(one, column.field, total_of(_rate(parts, length) for parts in domains.values()))
        found.append(one)
    return found


def _bandwidth_resource(series: Series) -> str:
    """Return the resource that counts memory bandwidth, as metrics have it; empty if none does."""
    names = {one.partition("{")[0].partition("_") for one in series}
    found = (resource for resource, _, metric in names if BY_METRIC.get(metric) is MBM)
    return min(found, key=lambda one: order_of(one.upper()), default="")


def _rate(parts: Sequence[Growth], interval: float) -> float | None:
    """Return the rate of a pod's counter in a domain, over the classes that counted it."""
    return rate_of((total_of(moved for moved, _ in parts), together(parts, interval)), interval)


def grouped(found: Iterable[PodUsage], by: str) -> list[PodUsage]:
    """Return the sums by ``namespace`` or ``node``; ``pod`` leaves everything unchanged. An unknown part: unknown."""
    if by == "pod":
        return [*found]
    parts: dict[tuple[str, str, str], list[PodUsage]] = {}
    for one in found:
        parts.setdefault(GROUPINGS[by](one), []).append(one)
    sums = []
    for (node, namespace, pod), of in parts.items():
        whole = PodUsage(node=node, namespace=namespace, pod=pod, pods=len(of))
        whole.slowdown = max((one.slowdown for one in of if one.slowdown is not None), default=None)
        for column in COLUMNS:
            values = [value_in(one, column) for one in of]
            setattr(whole, column.field, column.joined(values) if any(one is not None for one in values) else None)
        sums.append(whole)
    return sums


def ordered(found: Iterable[PodUsage], sort: str, *, reverse: bool = False) -> list[PodUsage]:
    """Return the largest first, unknown ones last, or by name."""
    by_name = sorted(found, key=lambda one: (name_of(one), one.node))
    if sort == "name":
        return by_name[::-1] if reverse else by_name
    value = SORTS[sort]
    known = [one for one in by_name if value(one) is not None]
    known.sort(key=lambda one: value(one) or 0.0, reverse=not reverse)
    return [*known, *(one for one in by_name if value(one) is None)]


def _pod(labels: dict[str, str]) -> _Pod:
    return labels.get("namespace", ""), labels.get("pod", ""), labels.get("pod_uid", "")


def _seconds_of(series: Series) -> _Seconds:
    """Return the counted seconds by pod, class and counter, and then by domain; an empty domain is all of them."""
    found: _Seconds = {}
    for labels, value in [*named(series, SECONDS)] or named(series, FORMER_SECONDS):
        place = (_pod(labels), labels.get("rdt_class", ""), labels.get("counter", ""))
        found.setdefault(place, {})[labels.get("domain_name", "")] = value
    return found


def _growth(
    before: float | None, now: float, spent: dict[str, float], domain: str, interval: float, *, is_new: bool
) -> Growth:
    """Return the increase of one series, and the seconds in which it was counted."""
    seconds = spent.get(domain, spent.get("", 0.0))
    if before is None and (not is_new or seconds > interval + _NEW):
        return None, 0.0  # counted before, by an unknown amount
    return max(now - (before or 0.0), 0.0), max(min(seconds, interval), 0.0)
