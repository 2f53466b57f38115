"""Presentation of monitoring: `explain` reads the group; `list` and `show` have columns for groups and tasks."""

from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.host.files import is_folder
from resctrl_hooks.core.node.resctrl.filesystem import MON_GROUPS
from resctrl_hooks.core.node.resctrl.group_names import current_name
from resctrl_hooks.core.node.sharing.runtimes_group import group_name

from .model import Display, Found

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord, StepRecord


def _nothing(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    return {}


def _group(step: Step, workload: Workload, context: Context) -> Found:
    resctrl = context.monitor.resctrl
    rdt_class = step.parameters["class"]
    own = current_name(context.monitor, workload.key, rdt_class)
    name = group_name(context, own, workload.id, rdt_class, asks=workload.bundle.monitored)
    where = resctrl.group_folder(rdt_class, name)
    if not is_folder(f"{resctrl.root}/{MON_GROUPS}"):
        missing = "no monitoring in the resctrl" if is_folder(f"{resctrl.root}/info") else "no resctrl"
        return Found(where, f"would fail: {missing} at {resctrl.root}", possible=False)
    if not is_folder(resctrl.class_folder(rdt_class)):
        if workload.bundle.makes_class and not workload.pid:
            return Found(where, "would be created in the RDT class that the runtime creates; each uses one RMID")
        finds = f"would fail: RDT class {rdt_class} does not exist; the hook does not create classes"
        return Found(where, finds, possible=False)
    return Found(where, "exists" if resctrl.exists(rdt_class, name) else "would be created; uses one RMID")


MONITORING = Display(_nothing, _group)
