"""What resctrl's counters are called as metrics: as goresctrl's OpenTelemetry exporter names them for Prometheus.

The rule (goresctrl, pkg/monitor, InstrumentName; OpenTelemetry's mapping to Prometheus): the domain's resource up to
its first underscore, the file's name, the unit's word unless the name ends in it, and for a counter ``_total``. Parts
of a cache under Sub-NUMA Clustering get names of their own, so that a sum over all domains counts nothing twice.
"""

from resctrl_hooks.node.counters import CUMULATIVE, Slot

from .exposition import Family

_WORDS = {"By": "bytes", "J": "joules", "F": "farads"}


def family_of(slot: Slot) -> Family:
    """An empty family for the counter of a slot."""
    counter = slot.counter
    part = "_node" if slot.domain.node is not None else ""
    name = f"{slot.domain.resource.partition('_')[0].lower()}{part}_{counter.name}"
    word = _WORDS.get(counter.unit, "")
    if word and not name.endswith(f"_{word}"):
        name = f"{name}_{word}"
    text = counter.text or f"{counter.name} of resctrl's {slot.domain.resource} domains."
    return Family(name, "counter" if counter.kind == CUMULATIVE else "gauge", text, word)


def domain_labels(slot: Slot) -> dict[str, str]:
    """The labels that say where: id and folder as goresctrl has them, and the node of a part of a cache."""
    folder = slot.domain.folder
    found = {"domain_id": folder.partition("/")[0].rpartition("_")[2], "domain_name": folder.partition("/")[0]}
    if slot.domain.node is not None:
        found["node"] = str(slot.domain.node)
    return found
