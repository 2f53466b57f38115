"""For `explain`: where a memory class's steps are done, and what is found there now."""

from typing import NamedTuple

from resctrl_hooks.inventory.details import memory_of
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.memory import NAME as MEMORY
from resctrl_hooks.node.memtierd import NAME as MEMTIERD
from resctrl_hooks.node.memtierd import folder_of, running
from resctrl_hooks.node.memtierd_needs import Needs, lacking
from resctrl_hooks.node.programs import ALL_FOLDERS, find_program
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.steps import Node, Step
from resctrl_hooks.node.workload import Workload

FEATURES = (MEMORY, MEMTIERD)


class Found(NamedTuple):
    """Where a step is done, what is there, and whether it can be done."""

    where: str
    finds: str
    possible: bool = True


def found(step: Step, workload: Workload, node: Node) -> Found:
    """Looks at the place of one of these features' steps; changes nothing."""
    return _limits(workload) if step.feature == MEMORY else _memtierd(step, workload, node)


def _limits(workload: Workload) -> Found:
    now = ", ".join(f"{name} {value}" for name, value in memory_of(workload.cgroup).items())
    return Found(workload.cgroup or "the container's cgroup", f"now {now}" if now else "which can't be seen now")


def _memtierd(step: Step, workload: Workload, node: Node) -> Found:
    folder = folder_of(step, workload.id).path
    pids = running(step, workload.id)
    if pids:
        return Found(folder, f"it runs as pid {pids[0]}")
    fatal, idle = _lacks(str(step.needs["class"]), workload, node.settings)
    if fatal:
        return Found(folder, f"this would fail: {'; '.join(fatal)}", possible=False)
    return Found(folder, "; ".join(["it would be started", *idle]))


def _lacks(name: str, workload: Workload, settings: Settings) -> tuple[list[str], list[str]]:
    fatal = []
    try:
        find_program(str(settings.memtierd.get("binary", "memtierd")), ALL_FOLDERS)
    except HookError as error:
        fatal.append(str(error))
    text = next(str(spec["memtierdconfig"]) for spec in settings.classes if spec.get("name") == name)
    lacks = lacking(Needs(text), settings, workload.cgroup)
    return [*fatal, *lacks.fatal], lacks.idle
