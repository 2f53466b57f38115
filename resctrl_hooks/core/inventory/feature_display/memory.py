"""Presentation of memory classes: the class, the limits, current memory and swap, and the state of memtierd."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.node.classes.memory import HIGH
from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features.memory import NAME as LIMITS
from resctrl_hooks.core.node.features.memtierd.feature import NAME as TIERD
from resctrl_hooks.core.node.host.files import kernel_text

from .model import Columns, Details, Display, Found

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import LimitNeeds, MemberRecord, StepRecord

CGROUP = "cgroup"
_FILES = ("memory.current", "memory.high", "memory.max", "memory.swap.current", "memory.swap.max")
_HEADS = ("MEMORY CLASS", "MEMORY", "SWAP", "MEMTIERD")
_NONE = "-"
_BY_ANNOTATION = "(limits)"


def memory_of(cgroup: str) -> dict[str, str]:
    """Return the kernel's current memory limits and use of a cgroup; empty if unreadable."""
    found = {name: kernel_text(f"{cgroup}/{name}") for name in (_FILES if cgroup else ())}
    return {name: text for name, text in found.items() if text}


def _describe(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return the class ("" for limits by annotation only) and the limits that were set."""
    needs: LimitNeeds = steps[0]["needs"]
    resized = {HIGH: f"{needs['part']:g} of memory.max"} if "part" in needs else {}
    return {"class": needs["class"], **needs["limits"], **resized}


def _limits(step: Step, workload: Workload, context: Context) -> Found:
    now = ", ".join(f"{name} {value}" for name, value in memory_of(workload.cgroup).items())
    return Found(workload.cgroup or "the container's cgroup", f"now {now}" if now else "not visible now")


def _cells(containers: Sequence[Details]) -> tuple[str, ...]:
    served = [details for details in containers if LIMITS in details or TIERD in details]
    if not served:
        return (_NONE,) * len(_HEADS)
    classes = {details.get(name, {}).get("class") for details in served for name in (LIMITS, TIERD)} - {None}
    names = sorted(name or _BY_ANNOTATION for name in classes)
    memory = _amount(served, "memory.current", "memory.high")
    swap = _amount(served, "memory.swap.current", "memory.swap.max")
    return ",".join(names), memory, swap, _memtierds(served)


def _amount(containers: Sequence[Details], now: str, limit: str) -> str:
    """Return the amount in use; for a single container, with its limit."""
    used = [value for details in containers if (value := details.get(CGROUP, {}).get(now, "")).isdigit()]
    if not used:
        return _NONE
    text = scaled(sum(map(int, used)), "B", binary=True)
    most = containers[0].get(CGROUP, {}).get(limit, "") if len(containers) == 1 else ""
    return f"{text} of {scaled(int(most), 'B', binary=True)}" if most.isdigit() else text


def _memtierds(containers: Sequence[Details]) -> str:
    states = [details[TIERD]["state"] for details in containers if TIERD in details]
    if not states:
        return _NONE
    running = sum(state.startswith("runs") for state in states)
    if len(states) == 1:
        return "runs" if running else str(states[0])
    return f"{running} of {len(states)} run"


COLUMNS = Columns(_HEADS, _cells, numbers=frozenset({"MEMORY", "SWAP"}))
"""Columns that both features share."""
MEMORY = Display(_describe, _limits, COLUMNS)
