"""Presentation of memtierd: its class, its supervisor, its state, and missing requirements."""

from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features.memtierd.feature import attended, folder_of, running
from resctrl_hooks.core.node.features.memtierd.preflight import Needs, lacking
from resctrl_hooks.core.node.host.programs import ALL_FOLDERS, find_program
from resctrl_hooks.core.node.settings import Settings

from .memory import COLUMNS
from .model import Display, Found

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord, MemtierdNeeds, StepRecord

NOT_RUNNING = "does not run"
UNATTENDED = "its supervisor was killed; it ends at its next output"


def _describe(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return the class, memtierd's supervisor, its state, and its folder."""
    needs: MemtierdNeeds = steps[0]["needs"]
    step = Step.of_record(steps[0])
    pids = running(step, str(record["id"]))
    state = f"runs as pid {pids[0]}" if pids else NOT_RUNNING
    if pids and not attended(step, str(record["id"])):
        state += f"; {UNATTENDED}"
    folder = folder_of(step, str(record["id"])).path
    return {
        "class": needs["class"],
        "state": state,
        "supervisor": needs["supervisor"],
        "folder": folder,
    }


def _probe(step: Step, workload: Workload, context: Context) -> Found:
    """Return whether it is running, and what would prevent its start."""
    folder = folder_of(step, workload.id).path
    pids = running(step, workload.id)
    if pids:
        return Found(folder, f"runs as pid {pids[0]}")
    fatal, idle = _lacks(str(step.parameters["class"]), workload, context.settings)
    if fatal:
        return Found(folder, f"would fail: {'; '.join(fatal)}", possible=False)
    return Found(folder, "; ".join(["would be started", *idle]))


def _lacks(name: str, workload: Workload, settings: Settings) -> tuple[list[str], list[str]]:
    fatal = []
    try:
        find_program(str(settings.memtierd["binary"]), ALL_FOLDERS)
    except HookError as error:
        fatal.append(str(error))
    text = next(str(spec["memtierdconfig"]) for spec in settings.classes if spec.get("name") == name)
    more, idle = lacking(Needs(text), settings, workload.cgroup)
    return [*fatal, *more], idle


MEMTIERD = Display(_describe, _probe, COLUMNS)
