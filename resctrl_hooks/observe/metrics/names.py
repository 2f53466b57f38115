"""Metric names of resctrl's counters: the same as goresctrl's OpenTelemetry exporter uses for Prometheus.

The rule (goresctrl, pkg/monitor, InstrumentName; OpenTelemetry's mapping to Prometheus): the domain's resource up to
its first underscore, the file's name, the unit unless the name ends in it, and for a counter ``_total``. Parts of a
cache under Sub-NUMA Clustering have separate names, so that a sum over all domains counts nothing twice.
"""

from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, Slot

Family = GaugeMetricFamily | CounterMetricFamily

_WORDS = {"By": "bytes", "J": "joules", "F": "farads"}
_NODE = "node"


def family_of(slot: Slot, labels: Sequence[str] = (), *, prefix: str = "") -> Family:
    """Return an empty family for the counter of a slot; its samples have ``labels`` and then those of the domain.

    ``prefix`` marks values of other users than pods, which a sum over pods omits.
    """
    counter = slot.counter
    part = "_node" if slot.domain.node is not None else ""
    name = f"{prefix}{slot.domain.resource.partition('_')[0].lower()}{part}_{counter.name}"
    word = _WORDS.get(counter.unit, "")
    text = counter.text or f"{counter.name} of resctrl's {slot.domain.resource} domains."
    make = CounterMetricFamily if counter.kind == CUMULATIVE else GaugeMetricFamily
    return make(name, text, labels=[*labels, *domain_labels(slot)], unit=word)


def domain_labels(slot: Slot) -> dict[str, str]:
    """Return the labels of a domain: id and folder as in goresctrl, and the node of a part of a cache."""
    folder = slot.domain.folder
    found = {"domain_id": folder.partition("/")[0].rpartition("_")[2], "domain_name": folder.partition("/")[0]}
    if slot.domain.node is not None:
        found[_NODE] = str(slot.domain.node)
    return found
