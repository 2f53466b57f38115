"""`resctrl-hook report`: draw a recording as one HTML page."""

import os
import time
from collections.abc import Iterator

import click

from resctrl_hooks.core.cli.errors import INVALID, FailedError
from resctrl_hooks.core.cli.replaced import replacing
from resctrl_hooks.observe.node.history.rows import Row
from resctrl_hooks.observe.params import Bandwidth, Past, not_negative
from resctrl_hooks.observe.past.times import FORMS
from resctrl_hooks.observe.recording.energy import write_csv
from resctrl_hooks.observe.recording.files import RecordingError, read
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.reading import recording_of


@click.command()
@click.argument("recording", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", metavar="PAGE", help="Output file; default: FILE with the suffix .html.")
@click.option("--since", type=Past(), metavar="TIME", help=f"Draw this node's history from a time on: {FORMS}.")
@click.option("--until", type=Past(), metavar="TIME", help="Its end; default: now.")
@click.option(
    "--grams-per-kwh",
    metavar="NUMBER",
    type=float,
    callback=not_negative,
    help="Show CO2 with this carbon intensity.",
)
@click.option("--energy-csv", metavar="TABLE", help="Also write the energy of pods and namespaces into this CSV file.")
@click.option(
    "--capacity",
    type=Bandwidth(),
    metavar="BYTES",
    help="Bytes a second that each memory domain carries, as 180G; default: the recorded monitoring.capacity.",
)
@click.pass_obj
def command(
    config: str,
    *,
    recording: str | None,
    output: str | None,
    since: float | None,
    until: float | None,
    grams_per_kwh: float | None,
    energy_csv: str | None,
    capacity: float | None,
) -> None:
    """Draw a file of `resctrl-hook record`, or with --since the history, as one self-contained HTML page.

    The page begins with the slowed pods, the pods that slowed them, and when. Below are a timeline, charts of memory
    bandwidth, cache occupancy and power by pod, and tables. It needs no resctrl: record on the node, draw anywhere.
    """
    if (recording is None) == (since is None):
        raise click.UsageError("name either a FILE or --since")
    if since is None and until is not None:
        raise click.UsageError("--until needs --since")
    target = output or (f"{recording.rpartition('.')[0]}.html" if recording else "history.html")
    files = [os.path.realpath(one) for one in (recording, target, energy_csv) if one]
    if len({*files}) < len(files):
        raise click.UsageError("the recording, the page and --energy-csv need different files")
    try:
        rows = read(recording) if recording else _past(config, since or 0.0, until)
        found = recording_of(rows)
        text = page_of(found, grams_per_kwh, {"*": capacity} if capacity else None)
    except RecordingError as error:
        raise FailedError(str(error), INVALID) from error
    try:
        with replacing(target) as file:
            file.write(text)
        if energy_csv:
            write_csv(energy_csv, found, grams_per_kwh)
    except OSError as error:
        raise FailedError(f"cannot write {error.filename or target}: {error.strerror}") from error
    click.echo(f"resctrl-hook: {target}", err=True)


def _past(config: str, since: float, until: float | None) -> Iterator[Row]:
    from resctrl_hooks.core.cli.node import open_node  # noqa: PLC0415  # a file needs no node
    from resctrl_hooks.observe.cli.past_text import print_skipped  # noqa: PLC0415  # as above
    from resctrl_hooks.observe.past.view import Past as History  # noqa: PLC0415  # as above

    past = History(open_node(config))
    yield from past.rows(since, time.time() if until is None else until)
    print_skipped(past)
