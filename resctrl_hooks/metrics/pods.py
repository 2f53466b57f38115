"""The families of what resctrl counts for each pod."""

from resctrl_hooks.node.counters import AVAILABLE, Slot
from resctrl_hooks.node.steps import Node

from .exposition import Family, labels
from .names import domain_labels, family_of

Names = dict[str, tuple[str, str]]
"""Namespace and pod by key: once recorded they never change, so an exporter that stays keeps what it has read."""

_UNNAMED = ("", "")


def pod_families(node: Node, names: Names) -> list[Family]:
    """What each pod's counters say, by class and domain; a counter without a number is a sample of its own.

    Raises:
        HookError: resctrl or the state directory can't be read.
    """
    readings = node.monitor.read_all(by_class=True)
    _learn(node, names, readings.keys())
    families: dict[str, Family] = {}
    places: dict[str, tuple[Family, str]] = {}
    unavailable = Family(
        "resctrl_unavailable", "gauge", "1 for a counter that has no number now; state is the kernel's word."
    )
    for key, found in readings.items():
        namespace, pod = names.get(key, _UNNAMED)
        whose = labels({"pod_uid": key, "namespace": namespace, "pod": pod})
        last: str | None = None
        start = ""
        for reading in found:
            if reading.rdt_class != last:
                last = reading.rdt_class
                start = f"{whose},{labels({'rdt_class': last or ''})},"
            path = f"{reading.domain.folder}/{reading.counter.name}"
            if path not in places:
                slot = Slot(reading.domain, reading.counter)
                family = family_of(slot)
                places[path] = (families.setdefault(family.name, family), labels(domain_labels(slot)))
            family, where = places[path]
            if reading.value is not None:
                family.add(start + where, reading.value)
            elif reading.state != AVAILABLE:
                what = labels({"counter": reading.counter.name, "state": reading.state})
                unavailable.add(f"{start}{where},{what}", 1)
    return [*families.values(), unavailable]


def _learn(node: Node, names: Names, keys: object) -> None:
    """Brings the names up to date; a key whose record isn't written yet has none, and is looked up again."""
    assert hasattr(keys, "__iter__")
    wanted = set(keys)
    for key in names.keys() - wanted:
        del names[key]
    for key in wanted - names.keys():
        record = node.ledger.read_pod(key)
        if record is not None:
            names[key] = (str(record.get("namespace", "")), str(record.get("pod", "")))
