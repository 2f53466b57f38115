"""Stored samples in words: the first line, gaps, and the pods for `list`, `show` and `diagnose` with ``--at``."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.markup import escape

from resctrl_hooks.core.cli.counters_text import print_counters
from resctrl_hooks.core.cli.document import Column, Form, attributes, is_table, print_listing
from resctrl_hooks.core.cli.tables import Name, age, class_text, console, duration, print_table, table
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.inventory.envelope import written
from resctrl_hooks.core.inventory.find import LEAST, begun, named, similar
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.inventory.pod_rates import lines_of
from resctrl_hooks.observe.inventory.slowdown import HEADING, as_text
from resctrl_hooks.observe.node.slowdown.constants import SLOWED
from resctrl_hooks.observe.past.pods import ABSENT, PastPod, pods_at
from resctrl_hooks.observe.past.view import Found, Past

LIST = "PastPodList"
"""The kind of a document of past pods."""
_CSV: tuple[Column, ...] = attributes(
    *("namespace", "pod", "key", "rdt_class", "slowdown", "causes", "culprits", "known")
)


def heading(found: Found) -> str:
    """Return a heading with the time of this past sample."""
    when = found.entry.time / 1000
    kind = f"a mean of {found.sample.interval:g} s, " if found.entry.span else ""
    return f"PAST {clock(when)} ({kind}{age(int(when), time.time())} ago)"


def gap_note(found: Found) -> str:
    """Return why there are no rates; empty if there are."""
    if found.gap:
        return f"no samples in the {duration(found.gap)} before, so no rates"
    return "the first sample, so no rates" if found.before is None else ""


def print_skipped(past: Past) -> None:
    """Print on stderr which samples could not be decoded."""
    if past.skipped():
        click.echo(f"resctrl-hook: {past.skipped()}", err=True)


def written_time_of(found: Found) -> str:
    """Return the sample's time as documents have it."""
    return written(datetime.fromtimestamp(found.entry.time / 1000, UTC))


def past_pods(
    context: Context, when: float, pods: Sequence[str] = (), namespace: str = ""
) -> tuple[Found, list[PastPod]]:
    """Return the sample of a time, and its pods, or those with these names or beginnings of keys.

    Raises:
        HistoryError: there is no sample, or no history.
        ClickException: a named pod is not in the sample.
    """
    past = Past(context)
    found = past.at(when)
    print_skipped(past)
    there = [one for one in pods_at(found, PodNames(context)) if not namespace or one.namespace == namespace]
    names = {one.key or one.name: one.names for one in there}
    of_pods = {one.key: one.names for one in there if one.key}
    chosen: list[PastPod] = []
    for what in pods:
        keys = named(what, names) or (begun(what, of_pods) if len(what) >= LEAST else set())
        if not keys:
            moment = clock(found.entry.time / 1000)
            raise click.ClickException(f"{what} had no counters at {moment}{similar(what, names.values())}")
        if len(keys) > 1:
            shown = ", ".join(sorted({one.name for one in there if (one.key or one.name) in keys}))
            raise click.ClickException(f"{what!r} matches {len(keys)} pods: {shown}; enter more characters")
        chosen += [one for one in there if (one.key or one.name) in keys and one not in chosen]
    return found, chosen if pods else there


def print_documents(form: Form, found: Found, pods: Sequence[PastPod], *, headers: bool = True) -> None:
    """Print past pods for programs; the document's time is the sample's."""
    names = [one.name for one in pods]
    when, host = written_time_of(found), found.sample.host
    print_listing(form, LIST, pods, _CSV, names=names, headers=headers, time=when, host=host)


def print_list(form: Form, found: Found, pods: Sequence[PastPod], *, headers: bool = True) -> None:
    """Print past pods as a table or for programs."""
    if not is_table(form):
        print_documents(form, found, pods, headers=headers)
        return
    out = _begin(found)
    judged = any(one.slowdown is not None for one in pods)
    heads = ("POD", "CLASS", "COUNTERS", *([HEADING] if judged else []))
    printed = table(*heads, right=frozenset({"COUNTERS", HEADING}), names="POD", headers=headers)
    for one in pods:
        cells = [
            class_text(one.rdt_class),
            f"{one.known}/{len(one.counters)}",
            *([as_text(one.slowdown)] if judged else []),
        ]
        printed.add_row(Name(one.name), *map(escape, cells))
    if pods:
        print_table(out, printed)
    else:
        out.print("No pod had counters.")
    out.print(f"{ABSENT}.")


def print_details(form: Form, found: Found, pods: Sequence[PastPod], *, headers: bool = True) -> None:
    """Print all that is stored of past pods."""
    if not is_table(form):
        print_documents(form, found, pods, headers=headers)
        return
    out = _begin(found)
    for one in pods:
        out.print(f"\n[bold]{escape(one.name)}[/]", soft_wrap=True)
        if one.key:
            out.print(f"key       {one.key}", soft_wrap=True)
        out.print(f"class     {escape(class_text(one.rdt_class))}", soft_wrap=True)
        if one.slowdown is not None:
            out.print(escape(f"slowdown  {_slowdown(one)}"), soft_wrap=True)
        print_counters(out, one.counters, headers=headers)
        for line in () if one.rates is None else lines_of(one.rates):
            out.print(line)
    out.print(f"\n{ABSENT}.")


def print_slowdowns(form: Form, found: Found, pods: Sequence[PastPod], *, every: bool) -> None:
    """Print how much past pods were slowed; without ``every`` those that were."""
    judged = [one for one in pods if one.slowdown is not None]
    shown = [*pods] if every else [one for one in judged if one.causes or (one.slowdown or 0.0) >= SLOWED]
    shown.sort(key=lambda one: -(one.slowdown or 0.0))
    if not is_table(form):
        print_documents(form, found, shown)
        return
    out = _begin(found)
    for one in shown:
        out.print(escape(f"{one.name}: {_slowdown(one)}"), soft_wrap=True)
    if not judged:
        out.print("No pod has a stored ratio: `slowdown.enabled` was off, or no pod had a baseline.")
    elif not shown:
        out.print(f"no pod was slowed; {len(judged)} of {sum(bool(one.key) for one in pods)} had a baseline")


def _begin(found: Found) -> Console:
    out = console()
    note = gap_note(found)
    out.print(f"{heading(found)}  {escape(found.sample.host)}{f'  {note}' if note else ''}", soft_wrap=True)
    return out


def _slowdown(pod: PastPod) -> str:
    """Return a ratio with its causes in words."""
    if pod.slowdown is None:
        return "unknown: it was not judged, or had no baseline"
    because = f"; because: {', '.join(pod.causes)}" if pod.causes else ""
    by = f" by {', '.join(pod.culprits)}" if pod.culprits else ""
    return f"{as_text(pod.slowdown)} the time of the same work in quiet times{because}{by}"
