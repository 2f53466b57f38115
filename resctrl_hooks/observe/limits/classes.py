"""The RDT class of a limit: the named one, one that has the wanted values already, or one to be created for a time."""

import re
from typing import Any, NamedTuple

from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.resctrl.schemata import BANDWIDTHS, MANAGED
from resctrl_hooks.core.rdt.capabilities import Schemata, read_abilities, read_schemata
from resctrl_hooks.core.rdt.config import desired_schemata, lines
from resctrl_hooks.core.rdt.held import held_values
from resctrl_hooks.observe.node.temporary.classes import PREFIX

from .request import LimitError, Request

_OTHERS = re.compile(r"[^A-Za-z0-9]+")


class ChosenClass(NamedTuple):
    """A class, and its schemata if it is to be created."""

    name: str
    lines: tuple[str, ...] = ()


def choose(context: Context, pod: Pod, request: Request) -> ChosenClass | None:
    """Return the class for a limit of a pod; None if the limit needs none. Read-only.

    Raises:
        LimitError: the class does not exist, or the values are impossible on this node.
        HookError: resctrl cannot be read.
    """
    if request.rdt_class:
        return _named(context, pod, request.rdt_class)
    spec = {name: value for name, value in (("MB", request.mb), ("L3", request.l3)) if value is not None}
    return _with_values(context, pod, spec) if spec else None


def _named(context: Context, pod: Pod, name: str) -> ChosenClass:
    there = sorted(context.monitor.resctrl.classes())
    if name not in there:
        raise LimitError(f"there is no RDT class {name}", hint=f"there are {', '.join(there) or 'no classes'}")
    _check_change(pod, name)
    return ChosenClass(name)


def _check_change(pod: Pod, name: str) -> None:
    if [*pod.classes] == [name]:
        raise LimitError(f"{pod.name} is in RDT class {name} already")


def _with_values(context: Context, pod: Pod, spec: dict[str, Any]) -> ChosenClass:
    """Return a class with the schemata of the pod's own, but these values."""
    resctrl = context.monitor.resctrl
    own = [name if name != "/" else "" for name in pod.classes]
    if len(own) != 1:
        raise LimitError(f"{pod.name} is in several RDT classes: {', '.join(pod.classes)}", hint="use --class")
    base = own[0]
    held = held_values(context)
    if base in held.declared:
        raise LimitError(f"{held.owner} keeps MB of RDT class {base or '/'} changed now", hint="wait for its end")
    can = read_abilities(resctrl.root, resctrl.proc)
    desired, problems = desired_schemata(spec, can, context.settings.monitoring.get("capacity"))
    if problems:
        raise LimitError(f"{pod.name}: {'; '.join(problems)}")
    now = read_schemata(resctrl.root, base)
    wanted = {name: values for name, values in {**now, **_lower(desired, now)}.items() if name in MANAGED}
    if _same(wanted, now):
        raise LimitError(f"RDT class {base or '/'} of {pod.name} has these values already, or lower ones")
    for name in sorted(resctrl.classes()):
        if _same(wanted, read_schemata(resctrl.root, name)):
            return ChosenClass(name, tuple(lines(wanted)) if name.startswith(PREFIX) else ())
    suffix = "-".join(f"{name.lower()}{_OTHERS.sub('', str(value))}" for name, value in spec.items())
    name = f"{PREFIX}{base or 'root'}-{suffix}"
    if name in resctrl.classes():
        raise LimitError(f"RDT class {name} has other values", hint="`resctrl-hook limits` shows who uses it")
    return ChosenClass(name, tuple(lines(wanted)))


def _lower(desired: Schemata, now: Schemata) -> Schemata:
    """Return the wanted values, except bandwidths that are lower already."""
    return {
        name: {
            number: min(value, now[name].get(number, value), key=int) if name in BANDWIDTHS else value
            for number, value in values.items()
        }
        for name, values in desired.items()
    }


def _same(one: Schemata, other: Schemata) -> bool:
    def numbers(values: dict[int, str]) -> dict[int, str]:
        return {number: value.lower().lstrip("0") for number, value in values.items()}

    return all(numbers(values) == numbers(other.get(name, {})) for name, values in one.items())
