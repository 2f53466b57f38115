"""`resctrl-hook record`: every counter of the node, again and again, into a file."""

import math
import signal
import threading
import time

import click

from resctrl_hooks.cli.errors import FailedError
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.cli.params import Duration
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.recording.files import FORMATS, RecordingError, Writer, writing
from resctrl_hooks.recording.sampler import Sampler

_WRONG_USE = 2


@click.command()
@click.option("--interval", type=Duration(0.1), default="1s", show_default=True, help="From one look to the next.")
@click.option("--for", "duration", type=Duration(0.1), help="For how long: 10m, 2h; until ^C unless said.")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help=f"A new file: {' or '.join(FORMATS)} by its name.",
)
@click.pass_obj
def command(config: str, *, interval: float, duration: float | None, output: str) -> None:
    """Record the counters of all pods over time, into a CSV or Parquet file.

    A row for each look, pod and L3 domain, and for what is in no group. `resctrl-hook report FILE` draws it.
    """
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    sampler = Sampler(open_node(config))
    try:
        with writing(output, sampler.columns) as writer:
            click.echo(f"resctrl-hook: recording every {interval:g} s into {output}; ^C ends it", err=True)
            looks = _record(sampler, writer, interval, duration, ended)
    except RecordingError as error:
        raise FailedError(f"--output: {error}", _WRONG_USE) from error
    except OSError as error:
        raise FailedError(f"{output} can't be written: {error.strerror}") from error
    click.echo(f"resctrl-hook: {looks} looks; draw them: resctrl-hook report {output}", err=True)


def _record(sampler: Sampler, writer: Writer, interval: float, duration: float | None, ended: threading.Event) -> int:
    """Looks at fixed moments from the start: a late look leaves out those that it missed. Returns how many."""
    started = time.monotonic()
    looks = 0
    said = ""
    while True:
        try:
            writer.write(sampler.look())
            looks += 1
            said = ""
        except HookError as error:
            if str(error) != said:
                said = str(error)
                click.echo(f"resctrl-hook: {said}", err=True)
        since = time.monotonic() - started
        following = (math.floor(since / interval) + 1) * interval
        if duration is not None and following > duration:
            ended.wait(max(duration - since, 0))
            return looks
        if ended.wait(following - since):
            return looks
