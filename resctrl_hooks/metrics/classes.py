"""The families of what isn't a pod's: each class, what in it is in no group, groups that others made, the L3's size.

They have names of their own, so that a sum over pods stays one. A class's numbers are those of its tasks and of all of
its groups, monitored or not, whatever `Selection` leaves out of the pods': their sum over classes is the node's.
"""

from prometheus_client.core import GaugeMetricFamily, Metric

from resctrl_hooks.inventory.cache_size import l3_sizes
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.carried import Carried
from resctrl_hooks.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.node.resctrl.counter_totals import LOCK as COUNTERS_LOCK
from resctrl_hooks.node.resctrl.counters import CUMULATIVE, MON_DATA, PERF, Reading, Slot

from .class_totals import FILE, ClassTotals, Values, without
from .names import Family, domain_labels, family_of
from .selection import EVERYTHING, Selection

CLASS, UNGROUPED, FOREIGN = "resctrl_class_", "resctrl_ungrouped_", "resctrl_foreign_"
_Group = tuple[str, Values]
"""Its identity, and all of its numbers."""
_Readings = dict[str, list[Reading]]
_CLASS_LABELS = ("rdt_class",)
_GROUP_LABELS = ("rdt_class", "group")


class _Families:
    """Families by name, made as they are needed."""

    def __init__(self, selection: Selection) -> None:
        self.found: dict[str, Family] = {}
        self._selection = selection

    def add(self, prefix: str, names: tuple[str, ...], labels: tuple[str, ...], slot: Slot, value: float) -> None:
        """Adds a sample of a slot's counter."""
        if self._selection.has_counter(slot.counter.name):
            family = family_of(slot, names, prefix=prefix)
            family = self.found.setdefault(family.name, family)
            family.add_metric([*labels, *domain_labels(slot).values()], value)


def class_families(context: Context, readings: _Readings, selection: Selection = EVERYTHING) -> list[Metric]:
    """What the classes, no group and others' groups have, read after the pods.

    Args:
        context: what the node is read with.
        readings: the pods', by class, read just before.
        selection: which counters are asked for; namespaces make no difference.

    Raises:
        HookError: resctrl or the state directory can't be read.
    """
    resctrl = context.monitor.resctrl
    slots = {slot.path: slot for slot in layout(f"{resctrl.root}/{MON_DATA}")}
    families = _Families(selection)
    pods = _pods_groups(context, readings)
    classes = ["", *sorted(resctrl.classes())]
    with context.ledger.lock_totals(FILE, context.monitor.patience):
        totals = ClassTotals(context.ledger, context.monitor.boot)
        for rdt_class in classes:
            groups: dict[str, Values] = {}
            for name in resctrl.groups(rdt_class):
                identity, values = pods.get((rdt_class, name)) or _read(resctrl.group_folder(rdt_class, name), slots)
                if identity:
                    groups[identity] = values
                for path in values if (rdt_class, name) not in pods else ():
                    families.add(FOREIGN, _GROUP_LABELS, (rdt_class, name), slots[path], values[path])
            identity, whole = _read(resctrl.class_folder(rdt_class), slots)
            if identity:
                total = totals.of(rdt_class)
                rest = without(whole, list(groups.values()))
                total.add(identity, _counting(groups, slots), _counting({"": rest}, slots)[""], _inherited(slots))
                for prefix, now, totalled in ((CLASS, whole, total.total), (UNGROUPED, rest, total.ungrouped)):
                    for path, value in now.items():
                        counts = slots[path].counter.kind == CUMULATIVE
                        if not counts or path in totalled:
                            said = totalled[path] if counts else value
                            families.add(prefix, _CLASS_LABELS, (rdt_class,), slots[path], said)
        totals.save(set(classes))
    return [*families.found.values(), _cache_sizes(resctrl.root, slots)]


def _pods_groups(context: Context, readings: _Readings) -> dict[tuple[str, str], _Group]:
    """The pods' groups as they were read just before, by class and name."""
    with context.ledger.lock_totals(COUNTERS_LOCK, context.monitor.patience):
        carried = Carried(context.ledger, context.monitor.boot)
    found: dict[tuple[str, str], _Group] = {}
    for key in readings.keys() & carried.keys.keys():
        for rdt_class, (identity, _, lasts) in carried.keys[key]["groups"].items():
            counts = {path: last for path, last in zip(carried.layout, lasts, strict=True) if last is not None}
            found[rdt_class, context.monitor.group_prefix + key] = identity, counts | _gauges(readings[key], rdt_class)
    return found


def _gauges(readings: list[Reading], rdt_class: str) -> Values:
    return {
        f"{reading.domain.folder}/{reading.counter.name}": reading.value
        for reading in readings
        if reading.rdt_class == rdt_class and reading.kind != CUMULATIVE and reading.value is not None
    }


def _counting(groups: dict[str, Values], slots: dict[str, Slot]) -> dict[str, Values]:
    """What of the groups' numbers is cumulative."""
    names = {path for path, slot in slots.items() if slot.counter.kind == CUMULATIVE}
    return {group: {path: values[path] for path in values.keys() & names} for group, values in groups.items()}


def _inherited(slots: dict[str, Slot]) -> set[str]:
    """The counters that a new group begins where the RMID's previous user ended."""
    return {path for path, slot in slots.items() if slot.domain.resource == PERF}


def _read(folder: str, slots: dict[str, Slot]) -> tuple[str, Values]:
    """A group's identity and numbers; an empty identity for one that was removed a moment ago."""
    try:
        identity, values = read_group(folder, list(slots.values()))
    except OSError:
        return "", {}
    numbers = {path: value for path, value in zip(slots, values, strict=True) if isinstance(value, (int, float))}
    return identity, numbers


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
