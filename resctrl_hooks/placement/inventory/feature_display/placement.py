"""Presentation of placement: the decision, and the CPUs on which containers run now."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.inventory.feature_display.model import Columns, Details, Display, Found
from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.host.cpulist import format_list, parse_list, union
from resctrl_hooks.core.node.host.files import kernel_text
from resctrl_hooks.placement.node.feature import preview
from resctrl_hooks.placement.node.policy import NAME

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord, StepRecord
    from resctrl_hooks.placement.node.policy import PlacementNeeds

_CPUS = "cpuset.cpus.effective"
_HEADS = ("PLACED", "CPUS")
_NONE = "-"
_NOT_YET = "not yet"


def _describe(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return the decision, and the current CPUs of the cgroup."""
    needs: PlacementNeeds = steps[0]["needs"]
    decision: dict[str, Any] = {**(needs.get("decision") or {"why": "not placed yet"})}
    decision.pop("milli", None)
    folder = str(record.get("cgroup", ""))
    # With systemd, crun's processes are one level below the scope with the cpuset.
    places = (f"{folder}/{_CPUS}", f"{folder.rpartition('/')[0]}/{_CPUS}") if folder else ()
    now = next((text for text in map(kernel_text, places) if text), "")
    return decision | ({"effective": now} if now else {})


def _pool(step: Step, workload: Workload, context: Context) -> Found:
    """Return the pool that would be selected now, the reason, and the next candidates."""
    try:
        decision, cpus = preview(step, workload, context)
    except HookError as error:
        return Found(finds=f"would fail: {error}", possible=False)
    others = f"; next best: {', '.join(decision.runners_up)}" if decision.runners_up else ""
    where = f"{decision.kind} in {decision.pool}, CPUs {cpus}"
    where += f", memory nodes {format_list(decision.mems)}" if decision.mems else ""
    return Found(where, f"{decision.why}{others}")


def _cells(containers: Sequence[Details]) -> tuple[str, ...]:
    placed = [details[NAME] for details in containers if NAME in details]
    if not placed:
        return (_NONE,) * len(_HEADS)
    places = sorted({f"{one['kind']} {one['pool']}" if "kind" in one else _NOT_YET for one in placed})
    cpus = union(parse_list(one.get("effective", "")) for one in placed)
    return ", ".join(places), format_list(cpus) or _NONE


PLACEMENT = Display(_describe, _pool, Columns(_HEADS, _cells))
