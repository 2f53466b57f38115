"""What the features did for a container, told from its record: one describer per feature, in a table.

A feature that keeps more than its steps' needs, or that has something to read from the node, adds its own describer to
`DESCRIBERS`; every other step is shown as it was recorded.
"""

from collections.abc import Callable, Mapping
from typing import Any

from resctrl_hooks.node.features.memory import NAME as MEMORY
from resctrl_hooks.node.features.memtierd.feature import NAME as MEMTIERD
from resctrl_hooks.node.features.memtierd.feature import attended, folder_of, running
from resctrl_hooks.node.features.monitoring import NAME as MONITORING
from resctrl_hooks.node.features.step import Step
from resctrl_hooks.node.host.files import read_kernel_file

Record = Mapping[str, Any]
Describer = Callable[[Record, list[Record]], dict[str, Any]]
"""From a container's record and its steps of one feature, what to show, by name."""

NOT_RUNNING = "does not run"
UNATTENDED = "its keeper was killed, so it ends at its next output"
_CPUS = "cpuset.cpus.effective"
_MEMORY_FILES = ("memory.current", "memory.high", "memory.max", "memory.swap.current", "memory.swap.max")


def _nothing(record: Record, steps: list[Record]) -> dict[str, Any]:
    return {}  # groups and tasks are shown on their own


def _as_recorded(record: Record, steps: list[Record]) -> dict[str, Any]:
    return {str(step.get("action", "")): dict(step.get("needs") or {}) for step in steps}


def _memory(record: Record, steps: list[Record]) -> dict[str, Any]:
    """The class ("" for limits by annotation alone) and the limits that were set."""
    needs: Record = steps[0]["needs"]
    return {"class": needs["class"], **needs["limits"]}


def _memtierd(record: Record, steps: list[Record]) -> dict[str, Any]:
    """The class, who supervises memtierd, whether it runs, and its folder."""
    step = Step.of_record(dict(steps[0]))
    pids = running(step, str(record["id"]))
    state = f"runs as pid {pids[0]}" if pids else NOT_RUNNING
    if pids and not attended(step, str(record["id"])):
        state += f"; {UNATTENDED}"
    folder = folder_of(step, str(record["id"])).path
    return {
        "class": step.parameters["class"],
        "state": state,
        "supervisor": step.parameters["supervisor"],
        "folder": folder,
    }


def _placement(record: Record, steps: list[Record]) -> dict[str, Any]:
    """What was decided, and the CPUs that its cgroup has now."""
    decision = dict(steps[0]["needs"].get("decision") or {"why": "not placed yet"})
    decision.pop("milli", None)
    folder = str(record.get("cgroup", ""))
    # Under systemd crun's processes are a level below the scope that has the cpuset.
    places = (f"{folder}/{_CPUS}", f"{folder.rpartition('/')[0]}/{_CPUS}") if folder else ()
    now = next((text for text in map(_kernel_text, places) if text), "")
    return decision | ({"effective": now} if now else {})


def _class(record: Record, steps: list[Record]) -> dict[str, Any]:
    """The class of RDT, block I/O or scheduling, with what it set."""
    needs: Record = steps[0]["needs"]
    values = {str(name): str(value) for name, value in needs.get("values") or []}
    return {"class": needs["class"], **(needs.get("process") or {}), **values}


def _kernel_text(path: str) -> str:
    try:
        return read_kernel_file(path).decode("ascii", "replace").strip()
    except OSError:
        return ""


DESCRIBERS: dict[str, Describer] = {
    "rdt": _class,
    MONITORING: _nothing,
    "placement": _placement,
    "blockio": _class,
    "scheduling": _class,
    MEMORY: _memory,
    MEMTIERD: _memtierd,
}


def details_of(record: Record) -> dict[str, Any]:
    """What to show of a container beside its threads: what each feature did, what it lacks, its memory limits."""
    steps: dict[str, list[Record]] = {}
    for step in record.get("steps") or []:
        steps.setdefault(str(step.get("feature", "")), []).append(step)
    found = {name: DESCRIBERS.get(name, _as_recorded)(record, own) for name, own in steps.items()}
    found["without"] = dict(record.get("unmet") or {})
    found["cgroup"] = memory_of(str(record.get("cgroup", "")))
    return {name: values for name, values in found.items() if values}


def memory_of(cgroup: str) -> dict[str, str]:
    """The memory limits and use of a cgroup as the kernel has them now; nothing where they can't be read."""
    values = {}
    for name in _MEMORY_FILES if cgroup else ():
        try:
            values[name] = read_kernel_file(f"{cgroup}/{name}").decode().strip()
        except OSError:
            continue
    return values
