"""`resctrl-hook show KEY`: all known facts about one pod."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from resctrl_hooks.cli.document import Column, print_listing
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.params import Duration
from resctrl_hooks.cli.tables import (
    NO_BREAK,
    age,
    console,
    counted,
    duration,
    often,
    print_table,
    print_wrapped,
    repeated,
    table,
)
from resctrl_hooks.cli.view import WATCH_SECONDS, View, view_options
from resctrl_hooks.inventory.amounts import scaled, with_margin
from resctrl_hooks.inventory.coverage import MARK, is_partial
from resctrl_hooks.inventory.feature_display.memory import CGROUP
from resctrl_hooks.inventory.gather import name_podmans, pod_of, refusals, refused_pod
from resctrl_hooks.inventory.interval import interval_of
from resctrl_hooks.inventory.memory_load import domains_of, pod_memory
from resctrl_hooks.inventory.models import (
    STATES,
    Counter,
    Failure,
    Pod,
    PodDetails,
    PodRates,
    TurnRate,
    meaning,
    short_id,
)
from resctrl_hooks.inventory.rates import Rates, of_pod
from resctrl_hooks.inventory.records import recorded
from resctrl_hooks.inventory.snapshot import Snapshot, take
from resctrl_hooks.node import call_metrics
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.refusals import REASON
from resctrl_hooks.node.resctrl.counter_totals import summed, turns
from resctrl_hooks.node.resctrl.counters import AVAILABLE, Reading

_MOST_THREADS = 20
_MOST_LINES = 10
_ROOT = "/"
_FIELD = 10  # column at which the values of the first lines begin
_ALL_CLASSES = "(all)"
_ALL = 100.0  # percent
_SORTS: dict[str, Callable[[Pod], str]] = {"name": lambda pod: pod.name, "state": lambda pod: pod.state}
_CSV: tuple[Column, ...] = (
    ("namespace", lambda line: line.pod.namespace),
    ("pod", lambda line: line.pod.pod or line.pod.name),
    ("key", lambda line: line.pod.key),
    ("domain", lambda line: line.counter.domain),
    ("rdtClass", lambda line: line.counter.rdt_class or _ROOT),
    *((name, attrgetter(f"counter.{name}")) for name in ("counter", "value", "unit", "state", "seconds", "partial")),
)
_UNITS = {"By": ("B", True), "J": ("J", False), "F": ("F", False)}


@click.command()
@view_options(tuple(_SORTS), "name")
@click.option("--rates", is_flag=True, help="Also measure bandwidth and power for one interval.")
@click.option(
    "--interval",
    type=Duration(0.1),
    default="1s",
    show_default=True,
    help="Interval of --rates, such as 500ms, 2s or 1m.",
)
@click.pass_obj
def command(config: str, *, view: View, rates: bool, interval: float) -> None:
    """Show pods: containers, groups, ungrouped tasks, counters, memory, last errors.

    POD is a pod's name, NAMESPACE/POD, the start of its key or of a container's id, or its Podman name.
    """
    if not view.filtered:
        raise click.UsageError("no pod given: name a pod, or select pods with -n or -l; `resctrl-hook list` shows all.")
    context = open_node(config)
    seconds = interval if rates else 0.0
    try:
        _show(context, view, seconds)
        while view.watch:
            time.sleep(WATCH_SECONDS)
            if view.table:
                console().clear()
            _show(context, view, seconds)
    except KeyboardInterrupt:
        return


def _show(context: Context, view: View, seconds: float) -> None:
    interval = _measure(context, seconds) if seconds else None
    found = [_details(context, pod, interval) for pod in _chosen(context, view)]
    if not view.table:
        rows = [_Line(pod, counter) for pod in found for counter in pod.counters]
        names = [pod.name for pod in found]
        print_listing(
            view.form, "PodDetailsList", found, _CSV, rows, names=names, headers=view.headers, compact=view.watch
        )
        return
    for place, pod in enumerate(found):
        if place:
            click.echo()
        _print(pod, headers=view.headers)
    if not found:
        click.echo("No recorded pods match.")


class _Line(NamedTuple):
    pod: PodDetails
    counter: Counter


def _chosen(context: Context, view: View) -> list[Pod]:
    keys = {view.key(context, what) for what in view.pods} or recorded(context)
    pods = [pod for key in sorted(keys) if (pod := pod_of(context, key) or refused_pod(context, key)) is not None]
    if view.pods and not pods:
        raise click.ClickException(f"{', '.join(view.pods)} has ended")
    name_podmans(pods)
    pods = sorted(view.chosen(context, pods), key=_SORTS[view.sort])
    return pods[::-1] if view.reverse else pods


def _measure(context: Context, seconds: float) -> tuple[Snapshot, Snapshot] | None:
    """Read the node at the beginning and at the end of an interval; None without resctrl, which `show` reports."""
    try:
        before = take(context)
        time.sleep(seconds)
        return before, take(context)
    except HookError:
        return None


def _rates(context: Context, interval: tuple[Snapshot, Snapshot], key: str) -> PodRates:
    before, now = interval
    found = of_pod(before, now, key) if key in now.pods else Rates()
    return PodRates(
        seconds=round(now.when - before.when, 3),
        memory_bandwidth_bytes_per_second=found.total,
        memory_bandwidth_local_bytes_per_second=found.local,
        power_watts=found.watts,
        counted_percent=None if found.counted is None else round(found.counted * 100, 1),
        memory_domains=pod_memory(
            before, now, domains_of(context, now), context.settings.monitoring.get("capacity") or {}, key
        ),
    )


def _details(context: Context, pod: Pod, interval: tuple[Snapshot, Snapshot] | None) -> PodDetails:
    problem, readings = "", []
    try:
        readings = context.monitor.read(pod.key, by_class=True)
    except HookError as error:
        problem = str(error)
    record = context.ledger.read_pod(pod.key) or {}
    return PodDetails(
        **{name: getattr(pod, name) for name in Pod.model_fields},
        unreadable=problem,
        counters=[_counter(reading, record) for reading in readings],
        totals=[_counter(reading, record) for reading in summed(readings)],
        turn_rate=_turn_rate(turns(context.monitor, pod.key) if readings else []),
        rates=None if interval is None else _rates(context, interval, pod.key),
        failures=_failures(context, pod.key),
    )


def _turn_rate(found: list[tuple[float, float]]) -> TurnRate | None:
    seconds = sum(time for time, _ in found)
    if not seconds:
        return None
    interval = interval_of(found)
    return TurnRate(
        bytes_per_second=sum(moved for _, moved in found) / seconds,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        turns=len(found),
        counted_seconds=round(seconds, 3),
    )


def _failures(context: Context, key: str) -> list[Failure]:
    """Return this pod's failures: the last ones of the call metrics, and the journal's text."""
    counted = [
        Failure(time=when, stage=stage, reasons=reasons.split(","), message="")
        for when, stage, reasons, of in call_metrics.read(context.ledger).failures
        if of == key
    ]
    refused = [
        Failure(time=one.time, stage="createRuntime", reasons=[REASON], message=f"{one.name} was rejected: {one.why}")
        for one in refusals(context)
        if one.key == key
    ]
    return _journal(key) or sorted([*refused, *(one for one in counted if REASON not in one.reasons)], key=_when)


def _when(failure: Failure) -> int:
    return failure.time


def _journal(key: str) -> list[Failure]:
    """Return the journal's warnings and errors for a key; empty without a journal."""
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
        found.append(Failure(time=when, stage=stage, reasons=reasons, message=str(entry.get("MESSAGE", ""))))
    return found


def _counter(reading: Reading, record: Mapping[str, Any]) -> Counter:
    return Counter(
        domain=reading.domain.folder,
        resource=reading.domain.resource,
        id=reading.domain.id,
        node=reading.domain.node,
        counter=reading.counter.name,
        rdt_class=reading.rdt_class,
        value=reading.value,
        kind=reading.kind,
        unit=reading.unit,
        state=reading.state,
        seconds=reading.seconds,
        partial=is_partial(reading, record),
    )


def _print(pod: PodDetails, *, headers: bool) -> None:
    out = console()
    failures = pod.failures
    out.print(f"[bold]{escape(pod.name)}[/]", soft_wrap=True)
    _field(out, "state", f"[{STATES[pod.state].style}]{pod.state}[/]: {meaning(pod.state, resctrl=not pod.unreadable)}")
    if pod.priority is not None:
        _field(out, "priority", str(pod.priority))
    _field(out, "key", pod.key)
    if pod.cgroup:
        _field(out, "cgroup", escape(pod.cgroup))
    _field(out, "age", age(pod.since))
    if pod.unread:
        _field(out, "not read", escape(f"annotations {', '.join(pod.unread)}"))
    _print_groups(out, pod)
    _print_containers(out, pod)
    _print_counters(out, pod, headers=headers)
    if pod.rates is not None:
        _print_rates(out, pod.rates)
    out.print("\n[bold]Last errors[/]" + ("" if failures or pod.problems else ": none"))
    for failure, times in repeated(failures, _what)[-_MOST_LINES:]:
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
        rdt_class = escape(group.rdt_class or _ROOT)
        out.print(f"  class [bold]{rdt_class}[/]: {group.origin}, {counted(group.tasks, 'task')}")
        out.print(f"    {escape(group.path)}", soft_wrap=True)


def _print_containers(out: Console, pod: Pod) -> None:
    out.print("\n[bold]Containers[/]" + ("" if pod.containers else ": none"))
    for one in pod.containers:
        state = f"pid {one.pid}, {counted(one.threads, 'thread')}, {age(one.since)}" if one.alive else "ended"
        where = "" if one.rdt_class is None else f", class{NO_BREAK}{escape(one.rdt_class or _ROOT)}"
        name = f"[bold]{escape(one.name or short_id(one.id))}[/]"
        _line(out, f"  {name} ({one.runtime} {short_id(one.id)}): {state}{where}", 4)
        if one.outside and not pod.groups:
            out.print("    [yellow]not monitored: the pod's group does not exist yet[/]")
        elif one.outside:
            out.print(f"    [yellow]{counted(one.outside, 'thread')} outside the group[/]:")
            for thread in one.outside_threads[:_MOST_THREADS]:
                group = f"group {thread.group}" if thread.group else "no group"
                known = thread.rdt_class != "?"
                where = f"class {thread.rdt_class or _ROOT}, {group}" if known else "unknown group"
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


def _print_counters(out: Console, pod: PodDetails, *, headers: bool) -> None:
    problem = pod.unreadable or ("" if pod.counters else "none")
    out.print("\n[bold]Counters[/]" + (f": {escape(problem)}" if problem else ""))
    if not pod.counters:
        return
    heads = ("  COUNTER", "DOMAIN", "CLASS", "VALUE", "COUNTED")
    rows = table(*heads, right=frozenset({"VALUE", "COUNTED"}), headers=headers)
    shown = [(counter, "-" if counter.rdt_class is None else counter.rdt_class or _ROOT) for counter in pod.counters]
    if len({name for _, name in shown}) > 1:
        shown += [(counter, _ALL_CLASSES) for counter in pod.totals]
    for counter, rdt_class in shown:
        mark = MARK if counter.partial else ""
        rows.add_row(
            f"  {escape(counter.counter)}",
            escape(counter.domain.removeprefix("mon_").replace("/mon_sub_", " ")),
            escape(rdt_class),
            _said(counter, mark),
            "-" if counter.seconds is None else f"{mark}{duration(counter.seconds)}",
        )
    print_table(out, rows)
    if pod.turn_rate is not None:
        _line(out, f"rate from turns: {escape(_turns_said(pod.turn_rate))}", 4)
    if any(counter.partial for counter in pod.counters):
        out.print(f"{MARK}: counted for only part of the pod's life")


def _print_rates(out: Console, rates: PodRates) -> None:
    counted_part = (
        "" if rates.counted_percent in (None, _ALL) else f", {rates.counted_percent:.0f}% of the time counted"
    )
    out.print(f"\n[bold]Rates[/], over {rates.seconds:.3g} s{counted_part}")
    for name, value, unit in (
        ("memory", rates.memory_bandwidth_bytes_per_second, "B/s"),
        ("local", rates.memory_bandwidth_local_bytes_per_second, "B/s"),
        ("power", rates.power_watts, "W"),
    ):
        out.print(f"  {name:<8}{'-' if value is None else scaled(value, unit)}")
    for one in rates.memory_domains:
        rate, mark = one.memory_bandwidth_bytes_per_second, MARK if one.estimated else ""
        share = "-" if one.share_percent is None else f"{mark}{one.share_percent:.0f}%"
        load = "" if one.load_percent is None else f"; load {mark}{one.load_percent:.0f}%"
        moved = "-" if rate is None else f"{mark}{scaled(rate, 'B/s')}"
        out.print(f"  memory {one.domain}: {moved}, {share} of the domain's traffic{load}")


def _turns_said(rate: TurnRate) -> str:
    """Return a pod's rate from its turns: ``37 ± 20 MB/s``."""
    over = f"{counted(rate.turns, 'turn')}, {duration(rate.counted_seconds)} counted"
    if rate.low is None or rate.high is None:
        return f"{scaled(rate.bytes_per_second, 'B/s')}, too few turns for a confidence interval ({over})"
    return f"{with_margin(rate.bytes_per_second, rate.high - rate.bytes_per_second, 'B/s')} ({over})"


def _said(counter: Counter, mark: str) -> str:
    if counter.value is None:
        return counter.state
    why = "" if counter.state == AVAILABLE else f" ({counter.state})"
    return f"{mark}{_value(counter)}{why}"


def _value(counter: Counter) -> str:
    assert counter.value is not None
    if counter.unit in _UNITS:
        unit, binary = _UNITS[counter.unit]
        return scaled(counter.value, unit, binary=binary)
    return f"{counter.value:,}"
