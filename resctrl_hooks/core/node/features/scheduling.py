"""Scheduling classes: policy, priority, nice and I/O priority of the init process, and values of its cgroup.

All children inherit the init process's values (sched(7), setpriority(2), ioprio_set(2)).
"""

import errno
import posix

from ..cgroup_settings.foreign import without_foreign
from ..cgroup_settings.own import own_cgroup
from ..cgroup_settings.values import CgroupFeature
from ..classes.choice import ClassError, chosen_class
from ..classes.memory import MAX, canonical, memory_properties
from ..feature import SKIP, Step
from ..host.procfs import living_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Container, Resources
    from ..records import ProcessRecord, SchedulingNeeds
    from ..resctrl.locked_key import LockedKey

NAME = "scheduling"
ANNOTATIONS = ("class.scheduling.resctrl-hooks.io", "scheduling-class.resource-policy.nri.io")
# sched(7); the numbers are uapi/linux/sched.h's.
POLICIES = {"normal": 0, "fifo": 1, "rr": 2, "batch": 3, "idle": 5}
IO_CLASSES = {"realtime": "1", "best-effort": "2", "idle": "3"}
_PRIO_PROCESS = 0
_IONICE_PATIENCE = 1.0
IO_PRIORITY_UNSET = 4
_RESET_ON_FORK = 0x40000000  # sched(7): a flag in the kernel's answer
_PARTS = (("policy", "priority", "nice"), ("ioClass", "ioPriority"))
_MEMORY = {"memoryMin": "memory.min", "memoryLow": "memory.low", "memoryMax": "memory.max"}


class Scheduling(CgroupFeature):
    """Scheduling of a container's processes, and values of its cgroup."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Set the values of the container's class.

        Raises:
            ClassError: the class does not exist, or is not allowed for the namespace.
            HookError: a value is invalid, or there is no cgroup for it.
        """
        name, spec, why = chosen_class(workload, context.settings, NAME, ANNOTATIONS)
        if not name:
            return [Step(NAME, SKIP, {}, why)]
        desired = cgroup_values_of(spec)
        values, foreign = without_foreign(desired, workload, context) if desired else ([], [])
        process = _process_of(spec, workload.bundle.scheduled, foreign)
        if values:
            own_cgroup(workload, context)  # raises here, so that `explain` reports it too
        shown = ", ".join(
            [*(f"{key} {value}" for key, value in process.items()), *(f"{file} {value}" for file, value in values)]
        )
        properties = properties_of(values)
        needs: "SchedulingNeeds" = {"class": name, "process": process, "values": values, "properties": properties}
        return [Step(NAME, "schedule", needs, f"{shown or 'nothing'}: {why}", foreign)]

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Set the process's part on each of its threads, then the cgroup's part."""
        needs: "SchedulingNeeds" = step.parameters
        process = needs["process"]
        threads = container.threads(context.proc)
        for tid in threads:
            _schedule(tid, process)
        if process.get("ioClass"):
            _set_io_priority(threads, process)
        if not _is_scheduled(living_thread(context.proc, container.pid), process):
            raise ClassError(
                f"the kernel did not schedule process {container.pid} as {process}",
                hint="another program schedules it, too; reconcile tries again",
            )
        if needs["values"]:
            super().apply(step, container, locked, context)

    def resources(self, step: "Step") -> "Resources":
        """Return the cgroup's values by file."""
        return {"unified": dict(step.parameters["values"])}

    def runs_programs(self, step: "Step", context: "Context") -> bool:
        """Return whether ionice(1) is needed, or values are sent to systemd."""
        needs: "SchedulingNeeds" = step.parameters
        return bool(needs["process"].get("ioClass")) or super().runs_programs(step, context)

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether the init process has these attributes, and the cgroup the values.

        Its other processes may have changed their own since.
        """
        needs: "SchedulingNeeds" = step.parameters
        tid = living_thread(context.proc, container.pid)
        if not _is_scheduled(tid, needs["process"]):
            return False
        return not needs["values"] or super().holds(step, container, context)  # else it needs no cgroup v2


def cgroup_values_of(spec: "dict[str, Any]") -> "list[list[str]]":
    """Return a class's values for the cgroup's files.

    Raises:
        MemoryLimitError: an amount of memory is invalid.
    """
    values: "list[list[str]]" = []
    if spec.get("cpuIdle") is not None:
        values.append(["cpu.idle", "1" if spec["cpuIdle"] else "0"])
    if spec.get("cpuWeight"):
        values.append(["cpu.weight", str(spec["cpuWeight"])])
    if spec.get("cpuMax"):
        quota, _, period = str(spec["cpuMax"]).partition(" ")
        values.append(["cpu.max", f"{quota} {period or '100000'}"])
    for key, file in (("uclampMin", "cpu.uclamp.min"), ("uclampMax", "cpu.uclamp.max")):
        if spec.get(key) is not None:
            values.append([file, f"{spec[key]:.2f}"])
    for key, file in _MEMORY.items():
        if spec.get(key) is not None:
            values.append([file, canonical(file, str(spec[key]))])
    for size, value in (spec.get("hugepages") or {}).items():
        values.append([f"hugetlb.{size}.max", canonical(f"hugetlb.{size}.max", str(value))])
    return values


def properties_of(values: "list[list[str]]") -> "dict[str, str]":
    """Return the systemd properties that keep values of the cgroup's files."""
    properties = memory_properties(dict(values))
    for file, value in values:
        if file == "cpu.max":
            quota, period = value.split()
            # systemd parses percentages of a CPU with two decimals.
            properties["CPUQuota"] = "" if quota == MAX else f"{int(quota) * 10000 // int(period) / 100:.2f}%"
            properties["CPUQuotaPeriodSec"] = f"{period}us"
        elif file == "cpu.weight":
            properties["CPUWeight"] = value
        elif file == "cpu.idle" and value == "1":
            properties["CPUWeight"] = "idle"
    return properties


def _process_of(spec: "dict[str, Any]", theirs: "dict[str, Any]", foreign: "list[str]") -> "Any":
    """Return a class's values for the process, without those that the specification sets to others.

    These are added to ``foreign``, in words.
    """
    process: "dict[str, Any]" = {}
    for part in _PARTS:
        ours = {key: spec[key] for key in part if spec.get(key) is not None}
        if not ours or theirs.get(part[0]) is None or _whole(part, ours) == _whole(part, theirs):
            process.update(ours)
        else:
            was, desired = (" ".join(f"{key} {one[key]}" for key in part if one.get(key)) for one in (theirs, ours))
            foreign.append(f"{was} instead of {desired}")
    return process


def _whole(part: "tuple[str, ...]", values: "dict[str, Any]") -> "tuple[Any, ...]":
    """Return the values of a scheduler or an I/O priority, with defaults for missing ones."""
    if part[0] == "policy":
        return values.get("policy") or "normal", values.get("priority") or 0, values.get("nice") or 0
    return values["ioClass"], 0 if values["ioClass"] == "idle" else values.get("ioPriority", IO_PRIORITY_UNSET)


def _is_scheduled(pid: int, process: "ProcessRecord") -> bool:
    """Return whether a thread is scheduled like that; true if it has ended (0)."""
    if not pid:
        return True  # 0 would be this program itself
    try:
        if process.get("policy") and posix.sched_getscheduler(pid) & ~_RESET_ON_FORK != POLICIES[process["policy"]]:
            return False
        if process.get("priority") and posix.sched_getparam(pid).sched_priority != process["priority"]:
            return False
        if process.get("nice") is not None and posix.getpriority(_PRIO_PROCESS, pid) != process["nice"]:
            return False
    except ProcessLookupError:
        return True
    return not process.get("ioClass") or _has_io_priority(pid, process)


def _has_io_priority(pid: int, process: "ProcessRecord") -> bool:
    """Return whether ionice(1) prints this priority: ``idle``, or ``best-effort: prio 4``."""
    from ..host.programs import find_program, run

    code, output = run([find_program("ionice"), "-p", str(pid)], _IONICE_PATIENCE)
    desired = process["ioClass"]
    if desired != "idle":
        desired += f": prio {process.get('ioPriority', IO_PRIORITY_UNSET)}"
    return code != 0 or output.strip() == desired  # ionice fails for an ended process


def _schedule(tid: int, process: "ProcessRecord") -> None:
    try:
        # Nice first: an ordinary process may always increase it, a real-time one does not use it.
        if process.get("nice") is not None:
            posix.setpriority(_PRIO_PROCESS, tid, process["nice"])
        if process.get("policy"):
            policy = POLICIES[process["policy"]]
            posix.sched_setscheduler(tid, policy, posix.sched_param(process.get("priority") or 0))
    except ProcessLookupError:
        return
    except OSError as error:
        hint = ""
        if error.errno == errno.EPERM and process.get("policy") in ("fifo", "rr"):
            hint = "the container's cgroup has no real-time budget (CONFIG_RT_GROUP_SCHED)"
        raise ClassError(f"cannot schedule thread {tid} as {process}", errno=error.errno or 0, hint=hint) from error


def _set_io_priority(threads: "list[int]", process: "ProcessRecord") -> None:
    """Set the I/O priority with ionice(1): Python has no ioprio_set(2), and ctypes would cost more than a program."""
    from ..host.programs import find_program, run

    words = ["-c", IO_CLASSES[process["ioClass"]]]
    if process["ioClass"] != "idle":
        words += ["-n", str(int(process.get("ioPriority", IO_PRIORITY_UNSET)))]
    code, output = run([find_program("ionice"), *words, "-p", *(str(tid) for tid in threads)], _IONICE_PATIENCE)
    if code:
        raise ClassError(f"ionice {' '.join(words)}: {output or code}")


FEATURE = Scheduling()
