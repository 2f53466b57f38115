"""Follows the remedies of a cause on this node, as an operator would: by the commands that the line has."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from waits_pods import DEVICE

from resctrl_hooks.core.inventory.gather import pod_of
from resctrl_hooks.core.inventory.records import classes_of
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.cli.limit import command as limit
from resctrl_hooks.observe.limits.limiter import FOREVER, Limiter
from resctrl_hooks.observe.limits.planner import Planner
from resctrl_hooks.observe.limits.request import Request
from resctrl_hooks.observe.node.slowdown.causes.cause import Cause
from resctrl_hooks.observe.node.slowdown.causes.remedy import OWN_MAX, OWN_WEIGHT
from resctrl_hooks.observe.node.slowdown.causes.table import CAUSES
from resctrl_hooks.observe.slowdown.advice import facts_of

_PROPERTIES: dict[str, Callable[[str], tuple[str, str]]] = {
    "CPUQuota": lambda value: ("cpu.max", f"{value.removesuffix('%')}000 100000"),
    "CPUWeight": lambda value: ("cpu.weight", value),
    "IOWeight": lambda value: ("io.bfq.weight", value),
    "IOReadIOPSMax": lambda value: ("io.max", f"{_number(DEVICE)} riops={value.split()[1]}"),
    "MemoryHigh": lambda value: ("memory.high", value),
}
"""Of systemd.resource-control(5), as files: the guest's init is no systemd."""


def follow(context: Context, victim: str, cause: Cause, folders: Mapping[str, Path], inner: Path) -> str:
    """Do what the first remedy of a cause tells; return its line, or nothing if it has no command.

    Args:
        context: the node.
        victim: its key.
        cause: a supported cause of its slowdown.
        folders: cgroups of units by path below the root.
        inner: the cgroup of the victim's container, which has its limit.
    """
    facts = facts_of(context, {}, classes_of(context))._replace(key=victim)
    remedy = next(iter(CAUSES[cause.cause].remedies(cause, facts)))
    if remedy.sets == OWN_WEIGHT:
        file = inner.parent / "cpu.weight" if inner.name == "web" else inner / "cpu.weight"
        file.write_text(f"{round(float(file.read_text()) * remedy.value)}")
    elif remedy.sets == OWN_MAX:
        (inner / "cpu.max").write_text(f"{round(remedy.value * 100_000)} 100000")
    elif commands := re.search("`((?:resctrl-hook limit|systemctl|echo) [^`]*)`", remedy.text):
        for command in commands[1].split(" && "):
            _run(context, command, {Path(path).name: folder for path, folder in folders.items()})
    else:
        return ""
    return remedy.text


def unfollow(context: Context) -> None:
    """End all limits that `follow` made."""
    limiter = Limiter(context)
    limiter.end(limiter.limits(str))


def _run(context: Context, command: str, units: Mapping[str, Path]) -> None:
    words = shlex.split(command)
    if words[0] == "resctrl-hook":
        given = limit.make_context("limit", words[2:]).params
        request = Request(**{name: given[name] for name in Request.__dataclass_fields__})
        pods = [pod for key in given["pods"] if (pod := pod_of(context, key)) is not None]
        for one in Planner(context).plan_all(pods, request):
            Limiter(context).limit(one.pod, one.plan, FOREVER, "")
    elif words[0] == "systemctl":
        for word in words[4:]:
            name, _, value = word.partition("=")
            if name in _PROPERTIES:
                file, text = _PROPERTIES[name](value)
                (units[words[3]] / file).write_text(text)
    else:
        os.system(command)


def _number(device: str) -> str:
    number = os.stat(device).st_rdev
    return f"{os.major(number)}:{os.minor(number)}"
