"""The text of `show`: a pod's state, containers, counters, rates and last errors."""

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from resctrl_hooks.core.cli.counters_text import print_counters, turns_text
from resctrl_hooks.core.cli.tables import (
    NO_BREAK,
    ROOT,
    age,
    console,
    counted,
    often,
    print_wrapped,
    repeated,
)
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.inventory.base import class_text
from resctrl_hooks.core.inventory.creators import UNKNOWN
from resctrl_hooks.core.inventory.feature_display.memory import CGROUP
from resctrl_hooks.core.inventory.models import STATES, Pod, meaning
from resctrl_hooks.core.inventory.pod_details import Failure, PodDetails
from resctrl_hooks.core.inventory.pod_fields import details_fields, pod_fields
from resctrl_hooks.core.node.container.names import short_id

_MOST_THREADS = 20
MOST_LINES = 10
"""The number of errors that are shown."""
_FIELD = 10  # column at which the values of the first lines begin


def print_pod(pod: PodDetails, *, headers: bool, out: Console | None = None) -> None:
    """Print all facts about a pod, or about a foreign group, which has no key."""
    out = out or console()
    _print_head(out, pod)
    _print_groups(out, pod)
    if pod.key:
        _print_containers(out, pod)
    print_counters(out, pod.counters, pod.totals, problem=pod.unreadable, headers=headers)
    if pod.turn_rate is not None:
        _line(out, f"rate from turns: {escape(turns_text(pod.turn_rate))}", 4)
    for name, when in pod.counted_until.items():
        of = f"container {short_id(name)}, whose runtime has removed its group"
        if name == pod.key:
            of = "another program has removed the pod's group"
        what = f"counted until {age(when)} ago: {of}"
        _line(out, escape(what), 4)
    for field in (*pod_fields(), *details_fields()):
        for line in () if (value := getattr(pod, field.name)) is None else field.section(value):
            out.print(line)
    if pod.key:
        _print_errors(out, pod)


def _print_head(out: Console, pod: PodDetails) -> None:
    out.print(f"[bold]{escape(pod.name)}[/]", soft_wrap=True)
    _field(out, "state", f"[{STATES[pod.state].style}]{pod.state}[/]: {meaning(pod.state, resctrl=not pod.unreadable)}")
    for group in pod.groups:
        if group.creator not in ("", UNKNOWN.name):
            _field(out, "creator", f"{escape(group.creator)}, by the group's name")
    if not pod.key:
        return
    if pod.priority is not None:
        _field(out, "priority", str(pod.priority))
    for field in (*pod_fields(), *details_fields()):
        if (value := getattr(pod, field.name)) is not None and (text := field.line(value)):
            _field(out, field.name, escape(text))
    _field(out, "key", pod.key)
    if pod.cgroup:
        _field(out, "cgroup", escape(pod.cgroup))
    _field(out, "age", age(pod.since))
    if pod.unread:
        _field(out, "not read", escape(f"annotations {', '.join(pod.unread)}"))


def _print_errors(out: Console, pod: PodDetails) -> None:
    out.print("\n[bold]Last errors[/]" + ("" if pod.failures or pod.problems else ": none"))
    for failure, times in repeated(pod.failures, _what)[-MOST_LINES:]:
        _line(out, f"  {age(failure.time)} ago  {escape(_what(failure))}{often(times)}", 4)
    for line in pod.problems:
        _line(out, f"  {escape(line)}", 4)


def _what(failure: Failure) -> str:
    return failure.message or f"{failure.stage}: {', '.join(failure.reasons)}"


def _field(out: Console, name: str, text: str) -> None:
    _line(out, f"{name:<{_FIELD}}{text}", _FIELD)


def _line(out: Console, text: str, indent: int) -> None:
    print_wrapped(out, Text.from_markup(text, emoji=False), indent)


def _print_groups(out: Console, pod: Pod) -> None:
    out.print("\n[bold]Groups[/]" + ("" if pod.groups else ": none"))
    for group in pod.groups:
        rdt_class = escape(group.rdt_class or ROOT)
        out.print(f"  class [bold]{rdt_class}[/]: {group.origin}, {counted(group.tasks, 'task')}")
        out.print(f"    {escape(group.path)}", soft_wrap=True)


def _print_containers(out: Console, pod: Pod) -> None:
    out.print("\n[bold]Containers[/]" + ("" if pod.containers else ": none"))
    for one in pod.containers:
        state = f"pid {one.pid}, {counted(one.threads, 'thread')}, {age(one.since)}" if one.alive else "ended"
        where = "" if one.rdt_class is None else f", class{NO_BREAK}{escape(class_text(one.rdt_class) or ROOT)}"
        name = f"[bold]{escape(one.name or short_id(one.id))}[/]"
        _line(out, f"  {name} ({one.runtime} {short_id(one.id)}): {state}{where}", 4)
        if one.outside and not pod.groups:
            out.print("    [yellow]not monitored: the pod's group does not exist yet[/]")
        elif one.outside:
            out.print(f"    [yellow]{counted(one.outside, 'thread')} outside the group[/]:")
            for thread in one.outside_threads[:_MOST_THREADS]:
                group = f"group {thread.group}" if thread.group else "no group"
                known = thread.rdt_class != "?"
                where = f"class {class_text(thread.rdt_class) or ROOT}, {group}" if known else "unknown group"
                _line(out, f"      {thread.thread} {escape(where)}", 8)
        for feature, values in one.details.items():
            amounts = feature == CGROUP  # the kernel's values, in bytes
            words = ", ".join(f"{name} {_short(value, amounts=amounts)}" for name, value in values.items())
            _line(out, f"    {escape(feature)}: {escape(words)}", 6)


def _short(value: object, *, amounts: bool = False) -> str:
    if amounts and isinstance(value, str) and value.isdigit():
        return scaled(int(value), "B", binary=True)
    if isinstance(value, dict):
        return " ".join(f"{name}={_short(inner)}" for name, inner in value.items())
    return str(value)
