"""Where a step would be done, what is found there now, and whether it can be done."""

from collections.abc import Callable
from typing import NamedTuple

from resctrl_hooks.inventory.details import memory_of
from resctrl_hooks.node.container.workload import Workload
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.features.memory import NAME as MEMORY
from resctrl_hooks.node.features.memtierd.feature import NAME as MEMTIERD
from resctrl_hooks.node.features.memtierd.feature import folder_of, running
from resctrl_hooks.node.features.memtierd.preflight import Needs, lacking
from resctrl_hooks.node.features.monitoring import NAME as MONITORING
from resctrl_hooks.node.features.placement.feature import NAME as PLACEMENT
from resctrl_hooks.node.features.placement.feature import preview
from resctrl_hooks.node.features.step import SKIP, Step
from resctrl_hooks.node.host.cpulist import format_list
from resctrl_hooks.node.host.files import is_folder
from resctrl_hooks.node.host.programs import ALL_FOLDERS, find_program
from resctrl_hooks.node.resctrl.filesystem import MON_GROUPS
from resctrl_hooks.node.settings import Settings

from .model import StepModel


class Found(NamedTuple):
    """Where a step is done, what is there, and whether it can be done."""

    where: str = ""
    finds: str = ""
    possible: bool = True


def said_step(step: Step, workload: Workload, context: Context) -> StepModel:
    """A step with what is found at its place; changes nothing."""
    look = _LOOKS.get(step.feature) if step.action != SKIP else None
    found = look(step, workload, context) if look else Found()
    return StepModel(step.feature, step.action, step.parameters, step.why, *found)


def _group(step: Step, workload: Workload, context: Context) -> Found:
    resctrl, name = context.monitor.resctrl, context.monitor.group_prefix + workload.key
    rdt_class = step.parameters["class"]
    where = resctrl.group_folder(rdt_class, name)
    if not is_folder(f"{resctrl.root}/{MON_GROUPS}"):
        missing = "no monitoring in the resctrl" if is_folder(f"{resctrl.root}/info") else "no resctrl"
        return Found(where, f"this would fail: there is {missing} at {resctrl.root}", possible=False)
    if not is_folder(resctrl.class_folder(rdt_class)):
        finds = f"this would fail: there is no RDT class {rdt_class}, and classes are never made here"
        return Found(where, finds, possible=False)
    return Found(where, "it is there" if resctrl.exists(rdt_class, name) else "it would be made, which takes an RMID")


def _pool(step: Step, workload: Workload, context: Context) -> Found:
    """The pool that would be chosen now, why, and which others came next."""
    try:
        decision, cpus = preview(step, workload, context)
    except HookError as error:
        return Found(finds=f"this would fail: {error}", possible=False)
    others = f"; next best: {', '.join(decision.runners_up)}" if decision.runners_up else ""
    where = f"{decision.kind} in {decision.pool}, CPUs {cpus}"
    where += f", memory nodes {format_list(decision.mems)}" if decision.mems else ""
    return Found(where, f"{decision.why}{others}")


def _limits(step: Step, workload: Workload, context: Context) -> Found:
    now = ", ".join(f"{name} {value}" for name, value in memory_of(workload.cgroup).items())
    return Found(workload.cgroup or "the container's cgroup", f"now {now}" if now else "which can't be seen now")


def _memtierd(step: Step, workload: Workload, context: Context) -> Found:
    folder = folder_of(step, workload.id).path
    pids = running(step, workload.id)
    if pids:
        return Found(folder, f"it runs as pid {pids[0]}")
    fatal, idle = _lacks(str(step.parameters["class"]), workload, context.settings)
    if fatal:
        return Found(folder, f"this would fail: {'; '.join(fatal)}", possible=False)
    return Found(folder, "; ".join(["it would be started", *idle]))


def _lacks(name: str, workload: Workload, settings: Settings) -> tuple[list[str], list[str]]:
    fatal = []
    try:
        find_program(str(settings.memtierd["binary"]), ALL_FOLDERS)
    except HookError as error:
        fatal.append(str(error))
    text = next(str(spec["memtierdconfig"]) for spec in settings.classes if spec.get("name") == name)
    lacks = lacking(Needs(text), settings, workload.cgroup)
    return [*fatal, *lacks.fatal], lacks.idle


# What has no place of its own to look at, as a scheduling policy, is said without.
_LOOKS: dict[str, Callable[[Step, Workload, Context], Found]] = {
    MONITORING: _group,
    PLACEMENT: _pool,
    MEMORY: _limits,
    MEMTIERD: _memtierd,
}
