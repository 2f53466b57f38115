"""Metric families of classes, ungrouped tasks, foreign groups, processor packages and L3 sizes.

Their names differ from the pods', so that a sum over pods stays correct. A class's value covers all of its tasks and
groups, whatever `Selection` excludes from the pods' metrics, and is missing while a part is unknown (see `snapshot`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, Raw, Slot
from resctrl_hooks.core.node.resctrl.layouts import PERF
from resctrl_hooks.core.node.resctrl.totals_file import CLASSES, LOCK, take_saved
from resctrl_hooks.observe.inventory.columns import MBM
from resctrl_hooks.observe.node.guard.snapshots import Domains
from resctrl_hooks.observe.node.snapshot.cache_size import l3_sizes
from resctrl_hooks.observe.node.snapshot.packages import Packages
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot

from .class_totals import ClassTotals, Values
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
    """Return the families of classes, ungrouped tasks, foreign groups, memory domains and processor packages.

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
        if domains and selection.has_counter(MBM.counter):
            for domain, value in totals.domains.add(_totals_now(snapshot, totals), slots, domains).items():
                memory.add_metric([domain], value)
        packages = package_family(totals.packages)
    return [*families.found.values(), unknown, memory, packages, _cache_sizes(context.monitor.resctrl.root, slots)]


@contextmanager
def class_totals(context: Context, snapshot: Snapshot) -> Iterator[ClassTotals]:
    """Add a snapshot to the totals of the classes; they are locked, and saved at the end of the ``with`` block.

    Raises:
        HookError: the state directory is unusable.
    """
    with context.ledger.lock_totals(LOCK, context.monitor.patience):
        node = context.ledger, context.monitor.boot
        totals: ClassTotals = take_saved(*node, CLASSES) or ClassTotals(*node, context.log)
        is_newest = snapshot.when >= totals.when  # another process may have read later, but added first
        if is_newest:
            _add(context, snapshot, totals)
        yield totals
        if is_newest:
            totals.save(set(snapshot.classes), is_whole=snapshot.is_whole)


def _add(context: Context, snapshot: Snapshot, totals: ClassTotals) -> None:
    counters = [slot for slot in snapshot.slots.values() if slot.counter.kind == CUMULATIVE]
    paths = [slot.path for slot in counters]
    energy = [slot.path for slot in counters if slot.domain.resource == PERF]
    is_doubtful = totals.see_mount(snapshot.mount)
    for rdt_class, found in snapshot.classes.items():
        if not found.identity:
            continue  # it cannot be read now
        total = totals.of(rdt_class, found.identity)
        new = {identity for identity in found.groups if total.begins(identity, energy)}
        ungrouped = _counting(found.ungrouped, snapshot.slots)
        starts = _starts(context, snapshot, rdt_class, new)
        total.add(found.groups, ungrouped, paths, starts, is_doubtful=is_doubtful)
    totals.when = snapshot.when


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


def _starts(context: Context, snapshot: Snapshot, rdt_class: str, new: set[str]) -> dict[str, Values]:
    """Return the energy start values of pods' new groups, by the groups' identity."""
    found: dict[str, Values] = {}
    for key in (key for key, classes in snapshot.held.items() if new and rdt_class in classes):
        record = context.ledger.read_pod(key) or {}
        identity, values = record.get("baselines", {}).get(rdt_class, ("", {}))
        if identity in new:
            found[identity] = values
    return found


def package_family(packages: Packages) -> Metric:
    """Return the energy of each processor package; without samples if the kernel has no RAPL."""
    found = CounterMetricFamily(
        "resctrl_package_energy",
        "Energy of a processor package (RAPL): cores, caches, memory controllers and I/O.",
        labels=["package"],
        unit="joules",
    )
    for package, joules in packages.read().items():
        found.add_metric([package.rpartition("-")[2]], joules)
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
