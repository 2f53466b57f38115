"""`list`'s columns for placement: kind and pool, and the CPUs that containers run on now."""

from collections.abc import Sequence

from resctrl_hooks.inventory.models import Container, Pod
from resctrl_hooks.node.features.placement.feature import NAME as PLACEMENT
from resctrl_hooks.node.host.cpulist import format_list, parse_list

COLUMNS = ("PLACED", "CPUS")
_NONE = "-"
_NOT_YET = "not yet"


def has_places(pods: Sequence[Pod]) -> bool:
    """Whether any container is placed, or is to be."""
    return any(PLACEMENT in one.details for pod in pods for one in pod.containers)


def cells(containers: Sequence[Container]) -> tuple[str, ...]:
    """The columns of a container, or of all those of a pod together."""
    placed = [one.details[PLACEMENT] for one in containers if PLACEMENT in one.details]
    if not placed:
        return (_NONE,) * len(COLUMNS)
    places = sorted({f"{one['kind']} {one['pool']}" if "kind" in one else _NOT_YET for one in placed})
    cpus = 0
    for one in placed:
        cpus |= parse_list(one.get("effective", ""))
    return ", ".join(places), format_list(cpus) or _NONE
