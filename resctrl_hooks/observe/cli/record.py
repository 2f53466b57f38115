"""`resctrl-hook record`: sample every counter of the node into a file."""

import math
import threading
import time
from collections.abc import Sequence

import click

from resctrl_hooks.core.cli.errors import remarks
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.node.history.rows import Row, Sampler
from resctrl_hooks.observe.params import ended_by_signals, interval_option, recording_errors, recording_options
from resctrl_hooks.observe.recording.files import Write, writing


@click.command()
@interval_option("1s", "Time between two samples.")
@click.option(
    "--for", "duration", type=Duration(0.1), help="Duration of the recording, such as 10m or 2h; default: until Ctrl-C."
)
@recording_options
@click.pass_obj
def command(config: str, *, interval: float, duration: float | None, output: str, force: bool) -> None:
    """Record the counters of all pods over time to a CSV or Parquet file.

    A row for each sample, pod and L3 domain, and for ungrouped tasks. `resctrl-hook report FILE` draws it. An existing
    file is replaced only with --force. Exit code 1 if nothing could be recorded.
    """
    ended = ended_by_signals()
    node = open_node(config)
    sampler = Sampler(node, PodNames(node))
    first = sampler.sample()  # a first sample that fails, for example without permission, ends the command
    with recording_errors(output), writing(output, sampler.columns, replace=force) as write:
        click.echo(f"resctrl-hook: recording every {interval:g} s into {output}; Ctrl-C stops it", err=True)
        samples = _record(sampler, first, write, interval, duration, ended)
    peaks = ", ".join(f"domain {name} {scaled(rate, 'B/s')}" for name, rate in sorted(sampler.peaks.items()) if rate)
    if peaks:
        click.echo(f"resctrl-hook: largest bandwidth: {peaks}; lower bound for monitoring.capacity", err=True)
    click.echo(f"resctrl-hook: {samples} samples; draw them: resctrl-hook report {output}", err=True)


def _record(
    sampler: Sampler,
    first: Sequence[Row],
    write: Write,
    interval: float,
    duration: float | None,
    ended: threading.Event,
) -> int:
    """Write samples at fixed times from the first one on, skipping missed ones. Return their number."""
    started = time.monotonic()
    write(first)
    samples = 1
    last_error = ""
    while True:
        since = time.monotonic() - started
        following = (math.floor(since / interval) + 1) * interval
        if duration is not None and following > duration:
            ended.wait(max(duration - since, 0))
            return samples
        if ended.wait(following - since):
            return samples
        try:
            write(sampler.sample())
            samples += 1
            last_error = ""
        except HookError as error:
            if str(error) != last_error:
                last_error = str(error)
                remarks()(last_error)
