"""Annotations of the NRI plugins that nothing here reads: a pod that migrates may rely on them.

Source of the names: nri-plugins (pkg/resmgr/cache, cmd/plugins). The annotations that name memory classes are left out:
classes read them, or their plugins run on the node.
"""

from ..feature_table import FEATURES
from ..names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..settings import Settings

MARK = "nri.io"
"""The common part of all these annotations."""

_POLICY, _PLAIN = ".resource-policy.nri.io", "resource-policy.nri.io/"
_OTHERS = ("policy.memory-policy.nri.io", "epc-limit.nri.io")
READ = frozenset(
    (
        "rdtclass",
        "blockioclass",
        "scheduling-class",
        "prefer-shared-cpus",
        "prefer-isolated-cpus",
        "require-isolated-cpus",
        "prefer-reserved-cpus",
        "hide-hyperthreads",
        "cpu.preserve",
        "memory.preserve",
        "topologyhints",
        "strict.topologyhints",
        "pick-resources-by-hints",
        "irq-affinity",
        "cpu-class",
        "memory-type",
        "unlimited-burstable",
        "balloon.balloons",
    )
)
"""The names before ``.resource-policy.nri.io`` that features read."""
_MOST, _LONGEST = 32, 128


def unread_annotations(annotations: "Iterable[str]") -> "list[str]":
    """Return the names of annotations that nothing reads, without a container's or a pod's suffix, sorted."""
    found = set()
    for name in annotations:
        if name in (f"{_PLAIN}affinity", f"{_PLAIN}anti-affinity"):
            continue
        if name.startswith(_PLAIN):
            found.add(printable(name[:_LONGEST]))
            continue
        base = name.partition("/")[0]
        if base.endswith(_OTHERS) or (base.endswith(_POLICY) and base[: -len(_POLICY)] not in READ):
            found.add(printable(base[:_LONGEST]))
    return sorted(found)[:_MOST]


def are_missed(settings: "Settings") -> bool:
    """Return whether no plugin is likely to read them: without placement, topology-aware or balloons may run here."""
    return any(row.adopts and settings.sections[name]["enabled"] for name, row in FEATURES.items())
