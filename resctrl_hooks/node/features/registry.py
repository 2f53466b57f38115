"""The features, in the order in which their steps are done, and which of them concern a container."""

from ..names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..container.workload import Workload
    from ..settings import Settings
    from .step import Feature


# A feature's module is imported only where the settings use it: an import is the largest cost of a hook.
def _rdt_class() -> "Feature":
    from . import rdt_class

    return rdt_class


def _monitoring() -> "Feature":
    from . import monitoring

    return monitoring


def _placement() -> "Feature":
    from .placement import feature as placement

    return placement


def _blockio() -> "Feature":
    from . import blockio

    return blockio


def _scheduling() -> "Feature":
    from . import scheduling

    return scheduling


def _memory() -> "Feature":
    from . import memory

    return memory


def _memtierd() -> "Feature":
    from .memtierd import feature as memtierd

    return memtierd


# In the order in which steps are done: the RDT class comes before the group, which lives in the class, and permission
# to swap before the memtierd that swaps.
FEATURES: "tuple[tuple[str, Callable[[Settings], object], Callable[[], Feature]], ...]" = (
    ("rdt", lambda settings: settings.rdt.get("enabled", False), _rdt_class),
    ("monitoring", lambda settings: settings.monitoring.get("enabled", True), _monitoring),
    ("placement", lambda settings: settings.placement.get("enabled", False), _placement),
    ("blockio", lambda settings: settings.blockio.get("enabled", False), _blockio),
    ("scheduling", lambda settings: settings.scheduling.get("enabled", False), _scheduling),
    ("memory", lambda settings: settings.classes, _memory),
    ("memtierd", lambda settings: any(spec.get("memtierdconfig") for spec in settings.classes), _memtierd),
)


def feature_named(name: str) -> "Feature | None":
    """The feature of a recorded step; None for one that this version doesn't know."""
    for known, _, load in FEATURES:
        if known == name:
            return load()
    return None


# What stands in the names of all annotations by which a container asks for something of a feature.
_ASKED_BY = {
    "rdt": "rdt",
    "blockio": "blockio",
    "scheduling": "scheduling",
    "memory": "memtierd.nri.io",
    "memtierd": "memtierd.nri.io",
}


def features_in_use(settings: "Settings", workload: "Workload | None" = None) -> "list[tuple[str, Feature]]":
    """The features that the settings turn on, in the order in which they are done; those only that concern a workload.

    A feature that is left out for a workload would have no step for it but `SKIP`.
    """
    return [
        (name, load())
        for name, wanted, load in FEATURES
        if wanted(settings) and (workload is None or concerns(name, workload, settings))
    ]


def concerns(name: str, workload: "Workload", settings: "Settings") -> bool:
    """Whether a feature may have something to do for a workload, as far as that can be told without the feature.

    Importing it to hear that it hasn't would cost more than all the rest, for nearly all containers of most nodes.
    """
    if name == "placement":  # which concerns all of its namespaces
        patterns = settings.placement.get("namespaces")
        return not patterns or any(matches(pattern, workload.namespace) for pattern in patterns)
    asked_by = _ASKED_BY.get(name)
    if asked_by is None or any(asked_by in annotation for annotation in workload.annotations):
        return True
    section = getattr(settings, name)
    return any((section.get("defaults") or {}).values())
