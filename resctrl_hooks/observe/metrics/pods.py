"""Metric families of the pods' resctrl counters."""

from collections import defaultdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, Sample

from resctrl_hooks.core.inventory.interval import interval_of
from resctrl_hooks.core.inventory.pod_names import LABELS, PodNames
from resctrl_hooks.core.node.resctrl.counters import AVAILABLE, Reading, Slot
from resctrl_hooks.observe.inventory.columns import MBM
from resctrl_hooks.observe.node.snapshot.cgroups import CGROUP

from .names import Family, domain_labels, family_of
from .selection import EVERYTHING, Selection

_LABELS = (*LABELS, "rdt_class")
_SAME_SECONDS = 0.001
_SECONDS = "resctrl_counted_seconds"
_Readings = dict[str, list[Reading]]
_Labels = dict[str, str]


def pod_families(readings: _Readings, names: PodNames, selection: Selection = EVERYTHING) -> list[Metric]:
    """Return each pod's counters by class and domain; a counter without a value has a sample with the reason."""
    families: dict[str, Family] = {}
    places: dict[str, tuple[Family, str, dict[str, str]] | None] = {}
    unavailable = GaugeMetricFamily(
        "resctrl_unavailable", "1 for a counter without a value now; state is the kernel's word for it."
    )
    seconds = CounterMetricFamily(
        _SECONDS, "Time that a counter has counted; divide its increase by the increase of this time for a rate."
    )
    for key, found in readings.items():
        name = names.of(key)
        if not selection.has_namespace(name.namespace):
            continue
        of_class: dict[str | None, dict[str, str]] = {}
        counted: dict[tuple[str, str], list[tuple[_Labels, _Labels, float]]] = defaultdict(list)
        for reading in found:
            path = f"{reading.domain.folder}/{reading.counter.name}"
            if path not in places:
                places[path] = _place(reading, families) if selection.has_counter(reading.counter.name) else None
            place = places[path]
            if place is None:
                continue
            family, sample, where = place
            own = of_class.get(reading.rdt_class)
            if own is None:
                values = (key, *name, reading.rdt_class or "")
                own = of_class[reading.rdt_class] = dict(zip(_LABELS, values, strict=True))
            labels = own | where
            if reading.seconds is not None and reading.domain.resource != CGROUP:
                counted[reading.rdt_class or "", reading.counter.name].append((own, where, reading.seconds))
            if reading.value is not None:
                family.samples.append(Sample(sample, labels, reading.value))
            if reading.state != AVAILABLE:
                why = {"counter": reading.counter.name, "state": reading.state}
                unavailable.samples.append(Sample(unavailable.name, labels | why, 1))
        for (_, counter), parts in counted.items():
            for labels, value in _as_one(parts):
                seconds.samples.append(Sample(f"{_SECONDS}_total", labels | {"counter": counter}, value))
    return [*families.values(), seconds, unavailable]


def _as_one(parts: list[tuple[_Labels, _Labels, float]]) -> list[tuple[_Labels, float]]:
    """Return a counter's seconds as one sample without a domain, if they are equal in all domains.

    ``parts`` have the pod's labels, the domain's, and the seconds.
    """
    own, where, first = parts[0]
    if any(abs(value - first) > _SAME_SECONDS for *_, value in parts):
        return [(own | where, value) for own, where, value in parts]
    return [(own | dict.fromkeys(where, ""), first)]


def turn_families(
    turns: dict[str, list[tuple[float, float]]], names: PodNames, selection: Selection = EVERYTHING
) -> list[Metric]:
    """Return, for each time-sharing pod, the interval that contains its true rate in 95 of 100 cases."""
    families = [
        GaugeMetricFamily(
            f"resctrl_turns_mbm_total_{end}_bytes_per_second",
            f"The {end}er bound of the confidence interval for the rate of a pod's memory traffic over its last turns.",
            labels=LABELS,
        )
        for end in ("low", "high")
    ]
    for key, found in turns.items() if selection.has_counter(MBM.counter) else ():
        name = names.of(key)
        interval = interval_of(found) if selection.has_namespace(name.namespace) else None
        if interval is not None:
            for family, value in zip(families, (interval.low, interval.high), strict=True):
                family.add_metric([key, *name], value)
    return [*families]


def _place(reading: Reading, families: dict[str, Family]) -> tuple[Family, str, dict[str, str]]:
    """Return a counter's family, its samples' labels, and its domain."""
    slot = Slot(reading.domain, reading.counter)
    family = family_of(slot, _LABELS)
    family = families.setdefault(family.name, family)
    return family, f"{family.name}_total" if family.type == "counter" else family.name, domain_labels(slot)
