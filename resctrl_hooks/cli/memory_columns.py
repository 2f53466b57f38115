"""`list`'s columns for memory classes: class, memory and swap now with their limits, and whether memtierd runs."""

from collections.abc import Sequence

from resctrl_hooks.cli.tables import scaled
from resctrl_hooks.inventory.models import Container, Pod
from resctrl_hooks.node.features.memory import NAME as MEMORY
from resctrl_hooks.node.features.memtierd.feature import NAME as MEMTIERD

COLUMNS = ("MEMORY CLASS", "MEMORY", "SWAP", "MEMTIERD")
NUMBERS = frozenset({"MEMORY", "SWAP"})
_NONE = "-"
_BY_ANNOTATION = "(limits)"
_NOW = "cgroup"


def has_memory(pods: Sequence[Pod]) -> bool:
    """Whether a class or an annotation set anything for any container."""
    return any(MEMORY in one.details or MEMTIERD in one.details for pod in pods for one in pod.containers)


def cells(containers: Sequence[Container]) -> tuple[str, ...]:
    """The columns of a container, or of all those of a pod together."""
    served = [one for one in containers if MEMORY in one.details or MEMTIERD in one.details]
    if not served:
        return (_NONE,) * len(COLUMNS)
    classes = {one.details.get(name, {}).get("class") for one in served for name in (MEMORY, MEMTIERD)} - {None}
    names = sorted(name or _BY_ANNOTATION for name in classes)
    memory = _amount(served, "memory.current", "memory.high")
    swap = _amount(served, "memory.swap.current", "memory.swap.max")
    return ",".join(names), memory, swap, _memtierds(served)


def _amount(containers: Sequence[Container], now: str, limit: str) -> str:
    """What is in use; of a single container with its limit."""
    used = [value for one in containers if (value := one.details.get(_NOW, {}).get(now, "")).isdigit()]
    if not used:
        return _NONE
    text = scaled(sum(map(int, used)), "B", binary=True)
    most = containers[0].details.get(_NOW, {}).get(limit, "") if len(containers) == 1 else ""
    return f"{text} of {scaled(int(most), 'B', binary=True)}" if most.isdigit() else text


def _memtierds(containers: Sequence[Container]) -> str:
    states = [one.details[MEMTIERD]["state"] for one in containers if MEMTIERD in one.details]
    if not states:
        return _NONE
    running = sum(state.startswith("runs") for state in states)
    if len(states) == 1:
        return "runs" if running else "does not run"
    return f"{running} of {len(states)} run"
