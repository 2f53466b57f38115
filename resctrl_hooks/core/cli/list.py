"""`resctrl-hook list`: monitored pods, waiting pods, and foreign groups."""

import time
from collections.abc import Callable
from typing import Any

import click
from rich.markup import escape
from rich.text import Text

from resctrl_hooks.core.cli.added import extended
from resctrl_hooks.core.cli.document import Column, attributes, print_listing
from resctrl_hooks.core.cli.errors import FailedError
from resctrl_hooks.core.cli.list_columns import columns_of, list_table, styled
from resctrl_hooks.core.cli.list_options import WATCH_SECONDS, ListOptions, list_options
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.tables import (
    NONE,
    ROOT,
    Name,
    age,
    console,
    often,
    print_table,
    print_wrapped,
    repeated,
    table,
)
from resctrl_hooks.core.inventory.attention import warnings_of
from resctrl_hooks.core.inventory.base import class_text, group_name
from resctrl_hooks.core.inventory.demand import Demand, demand_of
from resctrl_hooks.core.inventory.gather import gather, name_podmans
from resctrl_hooks.core.inventory.models import STATES, Inventory, Pod, meaning, pod_of_foreign
from resctrl_hooks.core.inventory.pod_fields import PodField, pod_fields
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.procfs import sees_processes
from resctrl_hooks.core.parts import clause

_BLIND = (
    "resctrl-hook: not in the node's PID namespace, so the state of containers is unknown; "
    f"set `hostPID: true` in the pod{clause('blind')}"
)
_MOST_REFUSALS = 5
_BRIEF = {"containers": {"__all__": {"outside_threads"}}}  # `show` prints them
_ORDER = [*STATES]


def _by_field(field: PodField) -> Callable[[Pod], Any]:
    return lambda pod: -(getattr(pod, field.name) or 0.0)


_SORTS: dict[str, Callable[[Pod], Any]] = {
    "state": lambda pod: _ORDER.index(pod.state),
    "name": lambda pod: pod.name,
    "class": lambda pod: pod.classes,
    "running": lambda pod: -len(pod.living),
    "tasks": lambda pod: -pod.tasks,
    "outside": lambda pod: -pod.outside,
    "age": lambda pod: pod.since,
    **{field.sort: _by_field(field) for field in pod_fields() if field.sort},
}
_CSV: tuple[Column, ...] = (
    *attributes("namespace"),
    ("pod", lambda pod: pod.pod or pod.name),
    *attributes("key", "state"),
    ("rdtClasses", lambda pod: [name or ROOT for name in pod.classes]),
    ("containers", lambda pod: len(pod.containers)),
    ("running", lambda pod: len(pod.living)),
    *attributes("tasks", "priority", *(field.name for field in pod_fields())),
    ("threadsOutside", lambda pod: pod.outside),
    ("startTime", lambda pod: pod.model_dump(by_alias=True, include={"since"})["startTime"]),
)

_DEMAND_HEADS = ("PRIORITY", "PODS", "COUNTED", "WAITING", "KEEP", "TURN")
_DEMAND_CSV: tuple[Column, ...] = (
    ("resource", lambda row: row[0].resource),
    ("total", lambda row: row[0].total),
    ("priority", lambda row: row[1].priority),
    ("wanted", lambda row: row[1].wanted),
    ("counted", lambda row: row[1].counted),
    ("kept", lambda row: row[1].kept),
    ("turnPercent", lambda row: row[1].turn_percent),
)


@click.command()
@list_options(tuple(_SORTS), "state")
@click.option("--all", "every", is_flag=True, help="Also print one line per container.")
@click.option(
    "--demand",
    is_flag=True,
    help="Show the demand for RMIDs and bandwidth counters by priority.",
)
@click.pass_obj
@extended("list", wide=clause("wide"))
def command(config: str, *, options: ListOptions, every: bool, demand: bool) -> None:
    """List pods with the state of their groups: pods that need attention first, then foreign groups.

    States: waiting, partly, uncounted, part-counted, assigned, idle, unmonitored, no-rdt and foreign; `show POD`
    explains them. WITHOUT lists the features that the pod's containers should have but do not.
    `-o wide` adds ids and ungrouped threads; where memory classes are in use, also class, memory, swap and
    memtierd{wide}. Exit code 1 means that resctrl is not available.
    """
    context = open_node(config)
    if not sees_processes(context.proc):
        click.echo(_BLIND, err=True)
    found = _gathered(context, options)
    if demand:
        _demand(demand_of(context, found), options)
    elif options.watch:
        _watch(context, options, found, every=every)
    else:
        _print(found, options, every=every)
    if found.problem:
        raise FailedError(found.problem)


def _gathered(context: Context, options: ListOptions) -> Inventory:
    found = gather(context)
    found.problem = with_config(found.problem)
    found.warnings = [with_config(text) for text in warnings_of(context)]
    name_podmans(found.pods)
    pods = sorted(options.chosen(context, found.pods), key=lambda pod: (_SORTS[options.sort](pod), pod.name))
    found.pods = pods[::-1] if options.reverse else pods
    if options.filtered:
        _, groups = options.targets(context)
        selected = {(class_text(one.rdt_class), one.text) for one in groups}
        found.foreign = [one for one in found.foreign if (one.rdt_class, one.name) in selected]
        keys = {pod.key for pod in found.pods}
        found.refusals = [one for one in found.refusals if one.key in keys or one.namespace == options.namespace]
    return found


def _print(found: Inventory, options: ListOptions, *, every: bool) -> None:
    if options.table:
        _print_table(found, options, every=every)
        return
    rows = [*found.pods, *map(pod_of_foreign, found.foreign)]
    print_listing(
        options.form,
        "PodList",
        [pod.model_dump(mode="json", by_alias=True, exclude=_BRIEF) for pod in found.pods],
        _CSV,
        rows,
        names=(row.name for row in rows),
        headers=options.headers,
        compact=options.watch,
        **found.model_dump(mode="json", by_alias=True),
    )


def _demand(found: list[Demand], options: ListOptions) -> None:
    if not options.table:
        rows = [(one, level) for one in found for level in one.levels]
        names = [one.resource for one in found]
        print_listing(options.form, "DemandList", found, _DEMAND_CSV, rows, names=names, headers=options.headers)
    else:
        out = console()
        for one in found:
            reserved = f", {one.reserved} reserved" if one.reserved else ""
            others = f"{one.others} used by classes and foreign groups{reserved}"
            out.print(f"{one.total} {one.resource}: {others}; wanted by {one.wanted} pods.")
            printed = table(*_DEMAND_HEADS, right=frozenset(_DEMAND_HEADS), headers=options.headers)
            for level in one.levels:
                counts = (level.priority, level.wanted, level.counted, level.wanted - level.counted, level.kept)
                printed.add_row(*map(str, counts), f"{level.turn_percent:g}%")
            if printed.row_count:
                print_table(out, printed)
        if found and options.headers:
            out.print("KEEP: the number of pods that stay counted if `monitoring.share` is off.")
            out.print("TURN: if `monitoring.share` is on, each pod is counted for this part of the time.")


def _print_table(found: Inventory, options: ListOptions, *, every: bool) -> None:
    out = console()
    columns = columns_of(found.pods, options)
    printed = list_table(columns, headers=options.headers)
    for pod in found.pods:
        printed.add_row(*(column.of_pod(pod) for column in columns))
        for one in pod.containers if every else ():
            printed.add_row(*(column.of_container(one) for column in columns))
    for group in found.foreign:
        known = {"STATE": styled("foreign"), "CLASS": escape(group.rdt_class or ROOT), "TASKS": str(group.tasks)}
        name = group_name(group.rdt_class, group.name)
        printed.add_row(Name(name), *(known.get(column.head, NONE) for column in columns[1:]))
    if printed.row_count:
        print_table(out, printed)
    elif options.headers:
        why = " This node has no resctrl; `resctrl-hook doctor` has the reason." if found.impossible else ""
        out.print("No monitored pods match." if options.filtered else f"No monitored pods.{with_config(why)}")
    if options.headers:
        _print_sums(found, options)


def _print_sums(found: Inventory, options: ListOptions) -> None:
    out = console()
    for warning in found.warnings:
        out.print(f"\n[bold]warning:[/] {escape(warning)}", soft_wrap=True)
    if found.rmids and not options.filtered:
        used, free, total = found.rmids.used, found.rmids.free, found.rmids.total
        out.print(f"\n{used} of {total} RMIDs in use, {free} free, {len(found.waiting)} waiting.")
        if found.rmids.free_by_class:
            out.print(escape(f"Free by class: {found.rmids.classes_text()}."))
    for one in found.bandwidth_counters if not options.filtered else ():
        out.print(f"{one.free} of {one.total} bandwidth counters free in {one.resource} domain {one.domain}.")
    if found.account and not options.filtered and (line := found.account.as_line()):
        out.print(escape(f"{line}."))
    if found.refusals:
        out.print("\n[bold]Recently rejected[/]")
    for refusal, times in repeated(found.refusals, lambda one: (one.name, one.why))[-_MOST_REFUSALS:]:
        text = f"  {age(refusal.time)} ago  {escape(refusal.name)}: {escape(refusal.why)}{often(times)}"
        print_wrapped(out, Text.from_markup(text, emoji=False), 4)
    for state in sorted({pod.state for pod in found.pods} - {"assigned"}):
        text = f"{styled(state)}: {meaning(state, resctrl=not found.problem)}"
        print_wrapped(out, Text.from_markup(text), 2)
    if any(one.without for pod in found.pods for one in pod.containers):
        print_wrapped(
            out, Text("WITHOUT: configured features that running containers lack; `show POD` has the reasons"), 2
        )


def _watch(context: Context, options: ListOptions, found: Inventory, *, every: bool) -> None:
    """Print all rows, then the rows of pods that appear, change or disappear, until Ctrl-C."""
    before = {pod.key: pod for pod in found.pods}
    out = console()
    try:
        _print(found, options, every=every)
        while True:
            time.sleep(WATCH_SECONDS)
            found = _gathered(context, options)
            now = {pod.key: pod for pod in found.pods}
            changed = [pod for pod in found.pods if not _is_unchanged(pod, before.get(pod.key))]
            gone = [pod for key, pod in before.items() if key not in now]
            before = now
            if not options.table:
                if changed or gone:
                    _print(found, options, every=every)
                continue
            columns = columns_of(found.pods, options)
            printed = list_table(columns, headers=False)
            for pod in changed:
                printed.add_row(*(column.of_pod(pod) for column in columns))
            for pod in gone:
                printed.add_row(*("gone" if column.head == "STATE" else column.of_pod(pod) for column in columns))
            if printed.row_count:
                print_table(out, printed)
    except KeyboardInterrupt:
        return


def _is_unchanged(pod: Pod, old: Pod | None) -> bool:
    """Return whether nothing but measurements has changed."""
    measured = {field.name: getattr(pod, field.name) for field in pod_fields()}
    return old is not None and pod == old.model_copy(update=measured)
