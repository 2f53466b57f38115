"""What the features did for a container, told from its record: one describer per feature, in a table.

A feature that keeps more than its steps' needs, or that has something to read from the node, adds its own describer to
`DESCRIBERS`; every other step is shown as it was recorded.
"""

from collections.abc import Callable, Mapping
from typing import Any

from resctrl_hooks.node.files import read_kernel_file
from resctrl_hooks.node.monitoring import NAME as MONITORING

Record = Mapping[str, Any]
Describer = Callable[[Record, list[Record]], dict[str, Any]]
"""From a container's record and its steps of one feature, what to show, by name."""

_MEMORY_FILES = ("memory.current", "memory.high", "memory.max", "memory.swap.current", "memory.swap.max")


def _nothing(record: Record, steps: list[Record]) -> dict[str, Any]:
    return {}  # groups and tasks are shown on their own


def _as_recorded(record: Record, steps: list[Record]) -> dict[str, Any]:
    return {str(step.get("action", "")): dict(step.get("needs") or {}) for step in steps}


DESCRIBERS: dict[str, Describer] = {MONITORING: _nothing}


def details_of(record: Record) -> dict[str, Any]:
    """What to show of a container beside its threads: by feature, what was done, and its memory limits as they are."""
    steps: dict[str, list[Record]] = {}
    for step in record.get("steps") or []:
        steps.setdefault(str(step.get("feature", "")), []).append(step)
    found = {name: DESCRIBERS.get(name, _as_recorded)(record, own) for name, own in steps.items()}
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
