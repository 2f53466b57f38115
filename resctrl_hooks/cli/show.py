"""`resctrl-hook show KEY`: everything that is known about one pod."""

import json
import shutil
import subprocess
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.tables import STATE_STYLES, age, console, print_table, scaled, table
from resctrl_hooks.inventory.find import find
from resctrl_hooks.inventory.gather import name_podmans, pod_of
from resctrl_hooks.inventory.models import Pod, meaning
from resctrl_hooks.node import call_metrics as tally
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.resctrl.counters import Reading

_MOST_THREADS = 20
_MOST_LINES = 10
_ROOT = "the root class"
_CGROUP = "cgroup"
_UNITS = {"By": ("B", True), "J": ("J", False), "F": ("F", False)}


@click.command()
@click.argument("key")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def command(config: str, key: str, *, as_json: bool) -> None:
    """Show one pod: containers, groups, tasks outside them, counters, memory, last errors.

    KEY is the start of a pod's key or of a container's id, a pod's name, NAMESPACE/POD, or what Podman calls it.
    """
    context = open_node(config)
    full = find(context, key)
    pod = pod_of(context, full)
    if pod is None:
        raise click.ClickException(f"{full} has ended")
    readings, problem = _readings(context, full)
    failures = _failures(context, full)
    name_podmans([pod])
    if as_json:
        value = pod.model_dump() | {"counters": [_plain(reading) for reading in readings], "failures": failures}
        click.echo(json.dumps(value, indent=2))
        return
    _print(pod, readings, problem, failures)


def _readings(context: Context, key: str) -> tuple[list[Reading], str]:
    try:
        return context.monitor.read(key, by_class=True), ""
    except HookError as error:
        return [], str(error)


def _failures(context: Context, key: str) -> list[dict[str, Any]]:
    """What went wrong with this pod: our own tally's last failures, and what the journal has in words."""
    counted = [
        {"time": when, "stage": stage, "reasons": reasons.split(","), "message": ""}
        for when, stage, reasons, of in tally.read(context.ledger).failures
        if of == key
    ]
    return _journal(key) or counted


def _journal(key: str) -> list[dict[str, Any]]:
    """Warnings and errors that were logged about a key, where there is a journal."""
    journalctl = shutil.which("journalctl")
    if not journalctl:
        return []
    arguments = [f"RESCTRL_KEY={key}", "-p", "warning", "-o", "json", "-n", str(_MOST_LINES), "--no-pager", "-q"]
    done = subprocess.run([journalctl, *arguments], capture_output=True, text=True, check=False, timeout=10)
    found = []
    for line in done.stdout.splitlines():
        try:
            entry = json.loads(line)
            when = int(entry["__REALTIME_TIMESTAMP"]) // 1_000_000
            reasons = [entry["RESCTRL_REASON"]] if entry.get("RESCTRL_REASON") else []
        except (ValueError, KeyError, TypeError):
            continue
        stage = entry.get("RESCTRL_STAGE", "")
        found.append({"time": when, "stage": stage, "reasons": reasons, "message": entry.get("MESSAGE", "")})
    return found


def _plain(reading: Reading) -> dict[str, Any]:
    return {
        "domain": reading.domain.folder,
        "resource": reading.domain.resource,
        "id": reading.domain.id,
        "node": reading.domain.node,
        "counter": reading.counter.name,
        "class": reading.rdt_class,
        "value": reading.value,
        "kind": reading.kind,
        "unit": reading.unit,
        "state": reading.state,
    }


def _print(pod: Pod, readings: list[Reading], problem: str, failures: list[dict[str, Any]]) -> None:
    out = console()
    state = f"[{STATE_STYLES[pod.state]}]{pod.state}[/]: {meaning(pod.state, resctrl=not problem)}"
    out.print(f"[bold]{escape(pod.name)}[/]  {state}")
    out.print(f"key     {pod.key}")
    if pod.cgroup:
        out.print(f"cgroup  {escape(pod.cgroup)}")
    out.print(f"since   {age(pod.since)}")
    _print_groups(out, pod)
    _print_containers(out, pod)
    _print_counters(out, readings, problem)
    out.print("\n[bold]Last errors[/]" + ("" if failures else ": none"))
    for failure in failures[-_MOST_LINES:]:
        what = failure["message"] or f"{failure['stage']}: {', '.join(failure['reasons'])}"
        out.print(f"  {age(failure['time'])} ago  {escape(what)}")
    for line in pod.problems:
        out.print(f"  {escape(line)}")


def _print_groups(out: Console, pod: Pod) -> None:
    rows = table("  GROUP IN CLASS", "MADE", "TASKS", "FOLDER", right=frozenset({"TASKS"}))
    for group in pod.groups:
        rows.add_row(f"  {escape(group.rdt_class or _ROOT)}", group.how, str(group.tasks), escape(group.path))
    out.print("\n[bold]Groups[/]" + ("" if pod.groups else ": none"))
    if pod.groups:
        print_table(out, rows)


def _print_containers(out: Console, pod: Pod) -> None:
    out.print("\n[bold]Containers[/]" + ("" if pod.containers else ": none"))
    for one in pod.containers:
        state = f"pid {one.pid}, {_threads(one.threads)}, {age(one.since)}" if one.alive else "ended"
        where = "" if one.rdt_class is None else f", in {one.rdt_class or _ROOT}"
        out.print(f"  [bold]{escape(one.name or one.id[:12])}[/] ({one.runtime} {one.id[:12]}): {state}{escape(where)}")
        if one.outside:
            out.print(f"    [yellow]{_threads(one.outside)} outside the group[/]:")
            for thread in one.outside_threads[:_MOST_THREADS]:
                group = f"group {thread.group}" if thread.group else "no group"
                where = "elsewhere" if thread.rdt_class == "?" else f"in {thread.rdt_class or _ROOT}, {group}"
                out.print(f"      {thread.thread} {escape(where)}")
        for feature, values in one.details.items():
            amounts = feature == _CGROUP  # the kernel's own numbers, of bytes
            words = ", ".join(f"{name} {_short(value, amounts=amounts)}" for name, value in values.items())
            out.print(f"    {escape(feature)}: {escape(words)}")


def _threads(number: int) -> str:
    return f"{number} thread{'' if number == 1 else 's'}"


def _short(value: object, *, amounts: bool = False) -> str:
    if amounts and isinstance(value, str) and value.isdigit():
        return scaled(int(value), "B", binary=True)
    if isinstance(value, dict):
        return " ".join(f"{name}={_short(inner)}" for name, inner in value.items())
    return str(value)


def _print_counters(out: Console, readings: list[Reading], problem: str) -> None:
    out.print("\n[bold]Counters[/]" + (f": {escape(problem)}" if problem else "" if readings else ": none"))
    if not readings:
        return
    rows = table("  COUNTER", "DOMAIN", "CLASS", "VALUE", right=frozenset({"VALUE"}))
    for reading in readings:
        rows.add_row(
            f"  {escape(reading.counter.name)}",
            escape(reading.domain.folder.removeprefix("mon_").replace("/mon_sub_", " ")),
            escape(reading.rdt_class or "/"),
            reading.state if reading.value is None else _value(reading),
        )
    print_table(out, rows)


def _value(reading: Reading) -> str:
    assert reading.value is not None
    if reading.unit in _UNITS:
        unit, binary = _UNITS[reading.unit]
        return scaled(reading.value, unit, binary=binary)
    return f"{reading.value:,}"
