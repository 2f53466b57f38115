"""Metric families of classes, ungrouped tasks, foreign groups and L3 sizes.

Their names differ from the pods', so that a sum over pods stays correct. A class's value covers all of its tasks and
groups, whatever `Selection` excludes from the pods' metrics, and is missing while a part is unknown (see `snapshot`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resctrl_hooks.inventory.cache_size import l3_sizes
from resctrl_hooks.inventory.memory_load import Domains
from resctrl_hooks.inventory.rates import TOTAL
from resctrl_hooks.inventory.snapshot import Raw, Snapshot
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.counters import CUMULATIVE, PERF, Slot

from .class_totals import FILE, ClassTotals, Values
from .names import Family, domain_labels, family_of
from .selection import EVERYTHING, Selection

CLASS, UNGROUPED, FOREIGN = "resctrl_class_", "resctrl_ungrouped_", "resctrl_foreign_"
_CLASS_LABELS = ("rdt_class",)
_GROUP_LABELS = ("rdt_class", "group")
_UNKNOWN_LABELS = (*_CLASS_LABELS, "counter", "domain_id", "domain_name")


class _Families:
    """Families by name, created on demand."""

    def __init__(self, selection: Selection) -> None:
        self.found: dict[str, Family] = {}
        self._selection = selection

    def add(self, prefix: str, names: tuple[str, ...], labels: tuple[str, ...], slot: Slot, value: float) -> None:
        """Add a sample of a slot's counter."""
        if self._selection.has_counter(slot.counter.name):
            family = family_of(slot, names, prefix=prefix)
            family = self.found.setdefault(family.name, family)
            family.add_metric([*labels, *domain_labels(slot).values()], value)


def class_families(
    context: Context, snapshot: Snapshot, selection: Selection = EVERYTHING, domains: Domains = ()
) -> list[Metric]:
    """Return the families of classes, ungrouped tasks, foreign groups and memory domains.

    The namespaces of the selection have no effect.

    Raises:
        HookError: the state directory is unusable.
    """
    slots = snapshot.slots
    families = _Families(selection)
    unknown = GaugeMetricFamily(
        "resctrl_class_uncounted_groups",
        "Groups without a value, if the class has no value; 0 if only its ungrouped tasks have no value.",
        labels=_UNKNOWN_LABELS,
    )
    for place, counts in snapshot.foreign.items():
        for path, value in _numbers(counts.values).items():
            families.add(FOREIGN, _GROUP_LABELS, place, slots[path], value)
    memory = CounterMetricFamily(
        "resctrl_domain_mbm_bytes",
        "Traffic to and from a memory domain, all classes; with more than two domains, remote traffic is spread "
        "evenly.",
        labels=["domain"],
    )
    with class_totals(context, snapshot) as totals:
        for rdt_class, found in snapshot.classes.items():
            total = totals.of(rdt_class)
            for prefix, now, totalled in (
                (CLASS, found.whole, total.total),
                (UNGROUPED, found.ungrouped, total.ungrouped),
            ):
                for path, value in values_of(now, totalled, slots).items():
                    families.add(prefix, _CLASS_LABELS, (rdt_class,), slots[path], value)
            for path, number in found.unknown.items():
                slot = slots[path]
                if slot.domain.node is None and selection.has_counter(slot.counter.name):
                    unknown.add_metric([rdt_class, slot.counter.name, *domain_labels(slot).values()], number)
        if domains and selection.has_counter(TOTAL):
            for domain, value in totals.domains.add(_totals_now(snapshot, totals), slots, domains).items():
                memory.add_metric([domain], value)
    return [*families.found.values(), unknown, memory, _cache_sizes(context.monitor.resctrl.root, slots)]


@contextmanager
def class_totals(context: Context, snapshot: Snapshot) -> Iterator[ClassTotals]:
    """Add a snapshot to the totals of the classes; they are locked, and saved at the end of the ``with`` block.

    Raises:
        HookError: the state directory is unusable.
    """
    slots = snapshot.slots
    with context.ledger.lock_totals(FILE, context.monitor.patience):
        totals = ClassTotals(context.ledger, context.monitor.boot)
        for rdt_class, found in snapshot.classes.items():
            total = totals.of(rdt_class)
            groups = {identity: _counting(values, slots) for identity, values in found.groups.items()}
            starts = _starts(context, snapshot, rdt_class, groups.keys() - total.parts.keys())
            total.add(found.identity, groups, _counting(found.ungrouped, slots), _inherited(slots), starts)
        yield totals
        totals.save(set(snapshot.classes))


def values_of(now: Mapping[str, Raw], totalled: Values, slots: dict[str, Slot]) -> Values:
    """Return gauges as they are now, and counters that have a value now as their totals."""
    gauges = {path: value for path, value in _numbers(now).items() if slots[path].counter.kind != CUMULATIVE}
    return gauges | {path: totalled[path] for path in _counting(now, slots) if path in totalled}


def _totals_now(snapshot: Snapshot, totals: ClassTotals) -> dict[str, Values]:
    """Return the totals of each class whose counters have a value now."""
    slots = snapshot.slots
    return {
        name: values_of(_counting(of.whole, slots), totals.of(name).total, slots)
        for name, of in snapshot.classes.items()
    }


def _numbers(values: Mapping[str, Raw]) -> Values:
    return {path: value for path, value in values.items() if isinstance(value, (int, float))}


def _counting(values: Mapping[str, Raw], slots: dict[str, Slot]) -> Values:
    """Return the cumulative values."""
    return {path: value for path, value in _numbers(values).items() if slots[path].counter.kind == CUMULATIVE}


def _inherited(slots: dict[str, Slot]) -> set[str]:
    """Return the counters of a new group that start at the last value of the RMID's previous user."""
    return {path for path, slot in slots.items() if slot.domain.resource == PERF}


def _starts(context: Context, snapshot: Snapshot, rdt_class: str, new: set[str]) -> dict[str, Values]:
    """Return the energy start values of pods' new groups, by the groups' identity."""
    found: dict[str, Values] = {}
    for key in (key for key, classes in snapshot.held.items() if new and rdt_class in classes):
        record = context.ledger.read_pod(key) or {}
        identity, values = record.get("baselines", {}).get(rdt_class, ("", {}))
        if identity in new:
            found[identity] = values
    return found


def _cache_sizes(root: str, slots: dict[str, Slot]) -> Metric:
    found = GaugeMetricFamily(
        "resctrl_l3_size_bytes", "Size of an L3 cache.", labels=["domain_id", "domain_name"], unit="bytes"
    )
    sizes = l3_sizes(root)
    places = {slot.domain.id: domain_labels(slot) for slot in slots.values() if slot.domain.resource == "L3"}
    for id_, where in places.items():
        if id_ in sizes:
            found.add_metric([where["domain_id"], where["domain_name"]], sizes[id_])
    return found
