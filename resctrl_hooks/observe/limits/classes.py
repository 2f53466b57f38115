"""The RDT class of a limit: the named one, one that has the wanted values already, or one to be created for a time."""

import re
from collections.abc import Sequence
from itertools import chain, count
from typing import Any, NamedTuple

from resctrl_hooks.core.inventory.base import class_text
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import NotMountedError
from resctrl_hooks.core.node.resctrl.rmids import free_rmids, rmids_of_each_class
from resctrl_hooks.core.node.resctrl.schemata import BANDWIDTHS, MANAGED
from resctrl_hooks.core.rdt.capabilities import Schemata, present_classes, read_abilities, read_schemata
from resctrl_hooks.core.rdt.config import desired_schemata, lines
from resctrl_hooks.core.rdt.held import held_values
from resctrl_hooks.observe.node.temporary.classes import PREFIX

from .request import LimitError, Request

RUNTIME = "runtime"
"""The origin of a group that a runtime has created (`inventory.models.Group`)."""
_OTHERS = re.compile(r"[^A-Za-z0-9]+")


class ChosenClass(NamedTuple):
    """A class, and its schemata if it is to be created."""

    name: str
    lines: tuple[str, ...] = ()


def choose(context: Context, pod: Pod, request: Request, created: Sequence[ChosenClass] = ()) -> ChosenClass | None:
    """Return the class for a limit of a pod; None if the limit needs none. Read-only.

    Args:
        context: the node.
        pod: the pod.
        request: its limit.
        created: the classes that will be there before.

    Raises:
        LimitError: the class does not exist, or the values are impossible on this node.
        HookError: resctrl cannot be read.
    """
    spec = {name: value for name, value in (("MB", request.mb), ("L3", request.l3)) if value is not None}
    if not request.sets_class:
        return None
    try:
        there = sorted(context.monitor.resctrl.classes())
    except NotMountedError as error:
        why = "use --cpu, --cpu-weight, --io or --io-weight" if error.impossible else error.hint
        raise LimitError(f"--class, --mb and --l3 need RDT: {error.message}", hint=why) from error
    _check_groups(context, pod)
    if not request.rdt_class:
        return _with_values(context, pod, spec, there, created)
    if request.rdt_class not in there:
        hint = f"there are {', '.join(there)}" if there else "there are none; use --mb, or `resctrl-hook rdt apply`"
        raise LimitError(f"there is no RDT class {request.rdt_class}", hint=hint)
    if _own(pod) == [request.rdt_class]:
        raise LimitError(f"it is in RDT class {request.rdt_class} already")
    if not request.rdt_class.startswith(PREFIX):
        return ChosenClass(request.rdt_class)
    now = read_schemata(context.monitor.resctrl.root, request.rdt_class)  # a temporary class, for one user more
    return ChosenClass(request.rdt_class, tuple(lines({name: one for name, one in now.items() if name in MANAGED})))


def _check_groups(context: Context, pod: Pod) -> None:
    """Check that no other program counts the pod's threads: a task of another class leaves its group."""
    own = context.monitor.group_prefix + pod.key
    others = {one.group for container in pod.living for one in container.outside_threads} - {"", own}
    others |= {group.name for group in pod.groups if group.origin == RUNTIME}
    if others:
        raise LimitError(
            f"its threads are in group {', '.join(sorted(others))} of its runtime or of another program, whose class "
            "cannot change",
            hint="use --cpu, --cpu-weight, --io or --io-weight",
        )


def _own(pod: Pod) -> list[str]:
    """Return the classes of its running containers; those of its groups where they are unknown."""
    known = {class_text(one.rdt_class) for one in pod.living if one.rdt_class is not None}
    return sorted(known) if known else pod.classes


def _with_values(
    context: Context, pod: Pod, spec: dict[str, Any], there: list[str], created: Sequence[ChosenClass]
) -> ChosenClass:
    """Return a class with the schemata of the pod's own, but these values."""
    resctrl = context.monitor.resctrl
    own = _own(pod)
    if len(own) != 1:
        raise LimitError(f"it is in several RDT classes: {', '.join(one or '/' for one in own)}", hint="use --class")
    base = "" if own[0] == "/" else own[0]
    held = held_values(context)
    if base in held.declared:
        raise LimitError(f"{held.owner} keeps MB of RDT class {base or '/'} changed now", hint="wait for its end")
    can = read_abilities(resctrl.root, resctrl.proc)
    desired, problems = desired_schemata(spec, can, context.settings.monitoring.get("capacity"))
    if problems:
        raise LimitError("; ".join(problems))
    now = read_schemata(resctrl.root, base)
    wanted = {name: values for name, values in {**now, **_lower(desired, now)}.items() if name in MANAGED}
    if _same(wanted, now):
        raise LimitError(f"its RDT class {base or '/'} has these values already, or lower ones")
    for name in there:
        if _same(wanted, read_schemata(resctrl.root, name)):
            return ChosenClass(name, tuple(lines(wanted)) if name.startswith(PREFIX) else ())
    made = next((one for one in created if one.lines == tuple(lines(wanted))), None)
    if made is not None:
        return made
    present = present_classes(resctrl)
    number = len({one.name for one in created} - {*present})
    name = new_name(base, spec, {*there, *(one.name for one in created)})
    if can.classes and len(present) + number >= can.classes - 1:
        raise LimitError(f"no CLOSID is free for RDT class {name}", hint=_in_others(there, base))
    free = None if rmids_of_each_class(resctrl) else free_rmids(resctrl, base)
    if free is not None and free <= number:
        raise LimitError(f"no RMID is free for RDT class {name}", hint=_in_others(there, base))
    return ChosenClass(name, tuple(lines(wanted)))


def new_name(base: str, spec: dict[str, Any], taken: set[str]) -> str:
    """Return a name for a class, such as ``limit-root-mb30`` or ``limit-batch-l3-20p``."""
    parts = [f"mb{spec['MB']}"] if "MB" in spec else []
    parts += [f"l3-{spec['L3']}".replace("%", "p")] if "L3" in spec else []
    name = f"{PREFIX}{base or 'root'}-{_OTHERS.sub('-', '-'.join(parts))}"
    return next(one for one in chain([name], (f"{name}-{number}" for number in count(2))) if one not in taken)


def _in_others(there: list[str], own: str) -> str:
    others = [one for one in there if one != own]
    return f"limit to one of these with --class: {', '.join(others)}" if others else "use --cpu, --cpu-weight or --io"


def _lower(desired: Schemata, now: Schemata) -> Schemata:
    """Return the wanted values, except bandwidths that are lower already, and cache ways outside of the class."""
    return {
        name: {
            number: (
                min(value, now[name].get(number, value), key=int)
                if name in BANDWIDTHS
                else _within(value, now.get(name, {}).get(number, value))
            )
            for number, value in values.items()
        }
        for name, values in desired.items()
    }


def _within(mask: str, now: str) -> str:
    """Return a mask, or as many of the lowest ways of a class if the class does not have all of its ways."""
    ways, there = int(mask, 16), int(now, 16)
    if not ways & ~there:
        return mask
    lowest, count = there & -there, ways.bit_count()
    return now if count >= there.bit_count() else f"{(lowest << count) - lowest:x}"


def _same(one: Schemata, other: Schemata) -> bool:
    def numbers(values: dict[int, str]) -> dict[int, str]:
        return {number: value.lower().lstrip("0") for number, value in values.items()}

    return all(numbers(values) == numbers(other.get(name, {})) for name, values in one.items())
