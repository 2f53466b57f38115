"""The values of placement annotations that few containers have. Their names are in `request`."""

from ...core.node.container.author_input import drop
from ...core.node.host.topology import DRAM, FAST, SLOW
from ...core.node.permissions import check_allowed
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.container.workload import Workload
    from ...core.node.settings import Settings
    from .policy import Request

_MEMORY_KINDS = {"dram": [DRAM], "pmem": [SLOW], "hbm": [FAST], "hbmem": [FAST], "mixed": [DRAM, SLOW, FAST]}
_LEVELS = {"system": "node", "package": "package", "die": "die", "numa": "numa", "l3cache": "l3"}
"""The levels of the topology by their names in topology-aware's annotation."""
_PUNCTUATION = " \n\"'[]{}-"  # of YAML and JSON
_ALL_INTERRUPTS = ("mask:*", "mask:*,mode:maskfirst", "mask:*mode:maskfirst")
_HOUSEKEEPING = "housekeeping"
_BALANCING = {"disable": True, "true": True, _HOUSEKEEPING: True, "enable": False, "false": False}
"""CRI-O's values of ``irq-load-balancing.crio.io``, and whether interrupts leave the CPUs (cri-o, docs/crio.conf.5.md
and internal/runtimehandlerhooks); ``true`` is the former ``disable``."""


def memory_kinds_of(text: str) -> "list[str]":
    """Return the kinds of memory in a list such as ``dram,hbm``.

    Raises:
        PlacementError: one is unknown.
    """
    found: "list[str]" = []
    for word in text.lower().replace(" ", "").split(",") if text else ():
        if word not in _MEMORY_KINDS:
            raise PlacementError(
                f"unknown memory type {word[:80]!r} in the annotation memory-type.resource-policy.nri.io",
                hint=f"the types are {', '.join(_MEMORY_KINDS)}",
            )
        found += [kind for kind in _MEMORY_KINDS[word] if kind not in found]
    return found


def level_of(text: str) -> str:
    """Return the topology's level by its name; empty without one.

    Raises:
        PlacementError: the name is unknown.
    """
    level = text.lower()
    if level and level not in _LEVELS:
        raise PlacementError(
            f"unknown level {text[:80]!r} in the annotation unlimited-burstable.resource-policy.nri.io",
            hint=f"the levels are {', '.join(_LEVELS)}",
        )
    return _LEVELS.get(level, "")


def choose_interrupts(request: "Request", balancing: str, affinity: str, workload: "Workload") -> None:
    """Set which interrupts leave the exclusive CPUs, by CRI-O's annotation and NRI's ``irq-affinity``.

    Raises:
        PlacementError: NRI's annotation has a value that is not supported.
    """
    if balancing and balancing not in _BALANCING:
        known = f"the values are {', '.join(_BALANCING)}"
        drop(workload, "annotation irq-load-balancing.crio.io", f"unknown value {balancing[:40]!r}; {known}")
    masked = bool(affinity) and masks_all_interrupts(affinity)
    request.quiet = masked or _BALANCING.get(balancing, False)
    request.housekeeping = balancing == _HOUSEKEEPING and not masked


def masks_all_interrupts(text: str) -> bool:
    """Return whether the value of NRI's ``irq-affinity``, YAML or JSON, masks all interrupts.

    Raises:
        PlacementError: it is another value, which is not supported.
    """
    if "".join(mark for mark in text if mark not in _PUNCTUATION) not in _ALL_INTERRUPTS:
        raise PlacementError(
            f"the annotation irq-affinity.resource-policy.nri.io can only be `mask: ['*']` here, not {text[:80]!r}",
            hint="claims and patterns are not supported; see docs/migration.md",
        )
    return True


def cpu_class_of(text: str, name: str, request: "Request", workload: "Workload", settings: "Settings") -> str:
    """Return the CPU class that an annotation of this name requests; empty for a pod's that does not apply.

    Raises:
        PlacementError: the class is unknown or forbidden, or the container alone requests it without exclusive CPUs.
    """
    known = [spec["name"] for spec in settings.sections["placement"].get("cpuClasses") or []]
    if text not in known:
        raise PlacementError(
            f"unknown CPU class {text[:80]!r} in the annotation {name}",
            hint=f"the classes are {', '.join(known) or 'none'}",
        )
    what = f"use CPU class {text}"
    check_allowed(settings, "placement.allow", workload, f"class:{text}", what, PlacementError)
    if request.exclusive:
        return text
    if name in workload.own_and_pods(name.partition("/")[0])[:-2]:
        raise PlacementError(
            f"the annotation {name} requests CPU class {text} for a container without exclusive CPUs",
            hint="request exclusive CPUs, or remove the annotation",
        )
    return ""
