"""`resctrl-hook history`: the extent of this node's history, and its samples as a recording."""

import time

import click

from resctrl_hooks.core.cli.document import Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import HelpfulGroup
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.tables import duration
from resctrl_hooks.core.inventory.amounts import clock, scaled
from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.observe.cli.past_text import print_skipped
from resctrl_hooks.observe.node.history.rows import LABELS
from resctrl_hooks.observe.node.history.section import section
from resctrl_hooks.observe.params import Past, recording_errors, recording_options
from resctrl_hooks.observe.past.times import FORMS
from resctrl_hooks.observe.past.view import Past as History
from resctrl_hooks.observe.recording.files import check, writing

_LATE = 3  # intervals after which the writer is missing


class HistoryStatus(Record):
    """The file of this node's history. Times are in seconds since 1970."""

    file: str
    bytes: int
    limit_bytes: int
    first: float
    last: float


@click.group(cls=HelpfulGroup)
def command() -> None:
    """Show and export the history of this node: past samples of all counters (`history` in the configuration)."""


@command.command("status")
@output_option
@click.pass_obj
def status(config: str, *, form: Form) -> None:
    """Show the file of the history, its size, and its first and last sample."""
    context = open_node(config)
    settings = section(context.settings)
    past = History(context)
    first, last = past.ends()
    found = HistoryStatus(
        file=past.path,
        bytes=past.size(),
        limit_bytes=int(settings["size"]),
        first=first,
        last=last,
    )
    if not is_table(form):
        print_listing(form, "HistoryStatus", [found], attributes(*HistoryStatus.model_fields))
        return
    size, limit = (scaled(number, "B", binary=True) for number in (found.bytes, found.limit_bytes))
    click.echo(f"{past.path}: {size} of {limit}")
    click.echo(f"samples from {clock(first)} to {clock(last)}")
    if (late := time.time() - last) > _LATE * float(settings["interval"]):
        click.echo(f"the last sample is {duration(late)} old; check resctrl-hooks-guard.service")


@command.command("export")
@click.option("--since", type=Past(), metavar="TIME", required=True, help=f"From this time on: {FORMS}.")
@click.option("--until", type=Past(), metavar="TIME", help="To this time; default: now.")
@recording_options
@click.pass_obj
def export(config: str, *, since: float, until: float | None, output: str, force: bool) -> None:
    """Write samples of the history as a file of `resctrl-hook record`.

    Samples that were thinned to minutes have the largest value, or rate per second, of each counter in a column whose
    name ends in _largest.
    """
    past = History(open_node(config))
    end = time.time() if until is None else until
    with recording_errors(output):
        check(output)
        columns = dict.fromkeys(name for sample in past.samples(since, end) for row in sample.rows for name in row)
        samples = 0
        with writing(output, [*LABELS, *(name for name in columns if name not in LABELS)], replace=force) as write:
            for sample in past.samples(since, end):
                write(sample.rows)
                samples += 1
    click.echo(f"resctrl-hook: {samples} samples in {output}; draw them: resctrl-hook report {output}", err=True)
    print_skipped(past)
