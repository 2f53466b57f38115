"""`resctrl-hook show KEY`: all known facts about one pod."""

import json
import time
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import click

from resctrl_hooks.core.cli.added import extended
from resctrl_hooks.core.cli.document import Column, print_listing
from resctrl_hooks.core.cli.list_options import WATCH_SECONDS, ListOptions, list_options
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.show_text import MOST_LINES, print_pod
from resctrl_hooks.core.cli.tables import console
from resctrl_hooks.core.inventory.counters import Counter, TurnRate
from resctrl_hooks.core.inventory.coverage import counter_of, counters_of
from resctrl_hooks.core.inventory.foreign import GroupName, foreign_group, readings_of
from resctrl_hooks.core.inventory.gather import name_podmans, pod_of, refusals, refused_pod
from resctrl_hooks.core.inventory.interval import interval_of
from resctrl_hooks.core.inventory.models import Pod, pod_of_foreign
from resctrl_hooks.core.inventory.pod_details import Failure, PodDetails
from resctrl_hooks.core.inventory.pod_fields import details_fields, pod_fields
from resctrl_hooks.core.inventory.records import recorded
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.container.runtimes import known_ids
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.refusals import REASON
from resctrl_hooks.core.node.resctrl.counter_totals import ended, turns
from resctrl_hooks.core.programs import output

_SORTS: dict[str, Callable[[Pod], str]] = {"name": lambda pod: pod.name, "state": lambda pod: pod.state}
_CSV: tuple[Column, ...] = (
    ("namespace", lambda line: line.pod.namespace),
    ("pod", lambda line: line.pod.pod or line.pod.name),
    ("key", lambda line: line.pod.key),
    ("domain", lambda line: line.counter.domain),
    ("rdtClass", lambda line: line.counter.rdt_class or "/"),
    *((name, attrgetter(f"counter.{name}")) for name in ("counter", "value", "unit", "state", "seconds", "partial")),
)


@click.command()
@list_options(tuple(_SORTS), "name")
@click.pass_obj
@extended("show")
def command(config: str, *, options: ListOptions, **given: Any) -> None:
    """Show pods: containers, groups, ungrouped tasks, counters, memory, last errors.

    POD is a pod's name, NAMESPACE/POD, the start of its key or of a container's id, its Podman name, or the name of a
    group as `list` prints it.
    """
    options.require_pods()
    context = open_node(config)
    try:
        _show(context, options, given)
        while options.watch:
            time.sleep(WATCH_SECONDS)
            if options.table:
                console().clear()
            _show(context, options, given)
    except KeyboardInterrupt:
        return


def details_of(context: Context, options: ListOptions, given: Mapping[str, Any]) -> list[PodDetails]:
    """Return all facts about the selected pods and foreign groups; ``given`` are the options of other houses.

    Raises:
        NoSuchPodError, ClickException: none matches, or they have ended.
    """
    # Those of `show` first: they may measure for a while, and all others are of the end of that time.
    readers = {field.name: field.read(context, given) for field in (*details_fields(), *pod_fields())}
    found = []
    for pod in _chosen(context, options):
        details = pod if isinstance(pod, PodDetails) else _details(context, pod)
        found.append(details.model_copy(update={name: read(pod) for name, read in readers.items()}))
    return found


def _show(context: Context, options: ListOptions, given: Mapping[str, Any]) -> None:
    found = details_of(context, options, given)
    if not options.table:
        rows = [_Line(pod, counter) for pod in found for counter in pod.counters]
        names = [pod.name for pod in found]
        print_listing(
            options.form,
            "PodDetailsList",
            found,
            _CSV,
            rows,
            names=names,
            headers=options.headers,
            compact=options.watch,
        )
        return
    for place, pod in enumerate(found):
        if place:
            click.echo()
        print_pod(pod, headers=options.headers)
    if not found:
        click.echo("No recorded pods match.")


class _Line(NamedTuple):
    pod: PodDetails
    counter: Counter


def _chosen(context: Context, options: ListOptions) -> list[Pod]:
    named, groups = options.targets(context)
    keys = named if options.pods else recorded(context)
    pods = [pod for key in sorted(keys) if (pod := pod_of(context, key) or refused_pod(context, key)) is not None]
    if options.pods and not pods and not groups:
        raise click.ClickException(f"{', '.join(options.pods)} has ended")
    name_podmans(pods)
    foreign = [_of_foreign(context, one) for one in groups]
    pods = sorted([*options.chosen(context, pods), *foreign], key=_SORTS[options.sort])
    return pods[::-1] if options.reverse else pods


def _details(context: Context, pod: Pod) -> PodDetails:
    problem, readings = "", []
    try:
        readings = context.monitor.read(pod.key, by_class=True)
    except HookError as error:
        problem = with_config(str(error))
    record = context.ledger.read_pod(pod.key) or {}
    counters, totals = counters_of(readings, record)
    return PodDetails(
        **{name: getattr(pod, name) for name in Pod.model_fields},
        unreadable=problem,
        counters=counters,
        totals=totals,
        turn_rate=_turn_rate(turns(context.monitor, pod.key) if readings else []),
        counted_until=_ended(context, pod.key) if readings else {},
        failures=_failures(context, pod.key),
    )


def _of_foreign(context: Context, name: GroupName) -> PodDetails:
    """Return a foreign group with the kernel's counters, which have no totals."""
    try:
        by_runtime = name.group in known_ids(context.settings)
    except HookError:
        by_runtime = False  # only root can read the runtimes' state
    pod = pod_of_foreign(foreign_group(context, name, by_runtime=by_runtime))
    counters = [counter_of(one) for one in readings_of(context, name)]
    return PodDetails(**{name: getattr(pod, name) for name in Pod.model_fields}, counters=counters)


def _ended(context: Context, key: str) -> dict[str, int]:
    """Return the last reads of groups that other programs have removed, in seconds since 1970."""
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return {name: int(boot + when) for name, when in ended(context.monitor, key).items()}


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
    return _journal(key) or sorted(
        [*refused, *(one for one in counted if REASON not in one.reasons)], key=attrgetter("time")
    )


def _journal(key: str) -> list[Failure]:
    """Return the journal's warnings and errors for a key; empty without a journal."""
    arguments = [f"RESCTRL_KEY={key}", "-p", "warning", "-o", "json", "-n", str(MOST_LINES), "--no-pager", "-q"]
    found = []
    for line in output("journalctl", *arguments, seconds=10).splitlines():
        try:
            entry = json.loads(line)
            when = int(entry["__REALTIME_TIMESTAMP"]) // 1_000_000
            reasons = [entry["RESCTRL_REASON"]] if entry.get("RESCTRL_REASON") else []
        except (ValueError, KeyError, TypeError):
            continue
        stage = entry.get("RESCTRL_STAGE", "")
        found.append(Failure(time=when, stage=stage, reasons=reasons, message=str(entry.get("MESSAGE", ""))))
    return found
