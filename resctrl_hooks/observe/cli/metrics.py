"""`resctrl-hook metrics`: OpenMetrics on stdout, in a file for node_exporter, or over HTTP."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from resctrl_hooks.core.cli.errors import INVALID, FailedError, remarks
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.core.cli.replaced import replacing
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.fault_report import lacks_root
from resctrl_hooks.core.node.resctrl.counter_files import layout
from resctrl_hooks.core.node.resctrl.counters import COUNTERS, MON_DATA
from resctrl_hooks.extras import remedy
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.metrics.diagnoses import diagnoses
from resctrl_hooks.observe.metrics.former import with_former_names
from resctrl_hooks.observe.metrics.selection import Selection
from resctrl_hooks.observe.metrics.server import DEFAULT_PORT, ListenAddressError, Server, parse_address
from resctrl_hooks.observe.params import ended_by_signals
from resctrl_hooks.observe.slowdown.diagnosis import DIAGNOSES

if TYPE_CHECKING:
    from resctrl_hooks.core.node.errors import HookError

_READABLE = 0o644
_FAILED = 1
_PUSH_SECONDS = 60.0
_WRITERS: dict[str, Callable[[CollectorRegistry], bytes]] = {
    "openmetrics": generate_openmetrics,
    "prometheus": generate_latest,
}


@click.command()
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write to FILE atomically, for node_exporter's textfile collector.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    is_flag=False,
    flag_value=str(DEFAULT_PORT),
    help=f"Serve /metrics and {DIAGNOSES} at HOST:PORT. Default host: loopback; default port: {DEFAULT_PORT}.",
)
@click.option("--otlp", metavar="URL", help="Push to this OpenTelemetry collector, such as http://localhost:4318.")
@click.option("--interval", type=Duration(1), help="Time between two pushes; default 1m.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_WRITERS)),
    help="Text format. Default: openmetrics on stdout, prometheus in a file; HTTP clients choose their own.",
)
@click.option(
    "--counter",
    "counters",
    metavar="GLOB",
    multiple=True,
    help="Only these counters, such as 'mbm_*'; can be repeated.",
)
@click.option(
    "--namespace",
    "-n",
    "namespaces",
    metavar="GLOB",
    multiple=True,
    help="Only pods of these namespaces; can be repeated.",
)
@click.pass_obj
def command(
    config: str,
    output: str | None,
    listen: str | None,
    otlp: str | None,
    interval: float | None,
    kind: str | None,
    counters: tuple[str, ...],
    namespaces: tuple[str, ...],
) -> None:
    """Write the counters of all pods and the hook's own statistics as metrics.

    Each pod has a series for each of its classes, domains and counters: --counter and --namespace make them fewer, and
    can be repeated.
    """
    if output and listen is not None:
        raise click.UsageError("--output and --listen are mutually exclusive.")
    if otlp is not None and (output or listen is not None or kind):
        raise click.UsageError("--otlp cannot be combined with --output, --listen or --format.")
    if interval is not None and otlp is None:
        raise click.UsageError("--interval requires --otlp.")
    address = _address(listen) if listen is not None else None
    context, selection, remark = open_node(config), Selection(counters, namespaces), remarks()
    _check_counters(context, selection)
    if otlp is not None:
        _push(context, otlp, interval or _PUSH_SECONDS, selection)
        return
    if address is not None:
        documents = {DIAGNOSES: diagnoses(context, selection)}
        server = Server(address, registry_of(NodeCollector(context, remark, selection)), documents)
        server.end_on_signals()
        remark(f"metrics at {server.url}")
        server.serve_forever()
        return
    problems: list[HookError] = []
    write = _WRITERS[kind or ("prometheus" if output else "openmetrics")]
    text = with_former_names(write(registry_of(NodeCollector(context, problems.append, selection))))
    if output:
        _replace(output, text)
    else:
        click.echo(text, nl=False)
    for problem in problems:
        if lacks_root(problem):
            raise problem  # without --output, every other error has the same cause
    for line in dict.fromkeys(map(str, problems)):
        remark(line)
    if problems:
        raise SystemExit(1)


def _push(context: Context, url: str, interval: float, selection: Selection) -> None:
    try:
        from resctrl_hooks.observe.metrics.otlp import EndpointError, Pusher  # noqa: PLC0415  # an extra of its own
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise FailedError(f"--otlp needs OpenTelemetry's SDK: {remedy('otel')}", _FAILED) from error
    ended, remark = ended_by_signals(), remarks()
    try:
        with Pusher(context, url, interval, remark, selection):
            remark(f"metrics are pushed to {url} every {interval:g} s")
            ended.wait()
    except EndpointError as error:
        raise FailedError(f"--otlp: {error}", INVALID) from error


def _check_counters(context: Context, selection: Selection) -> None:
    """Refuse a glob that matches no counter of this machine or, for mixed fleets, of any known processor."""
    here = [slot.counter.name for slot in layout(f"{context.monitor.resctrl.root}/{MON_DATA}")]
    names = sorted({*COUNTERS, *here})
    for glob in selection.useless_counters(names):
        raise click.UsageError(f"--counter {glob!r} matches no counter; available: {', '.join(names)}.")


def _address(listen: str) -> tuple[str, int]:
    try:
        return parse_address(listen)
    except ListenAddressError as error:
        raise FailedError(f"--listen: {error}", INVALID) from error


def _replace(path: str, text: bytes) -> None:
    """Replace the file atomically, readable by node_exporter's user; the temporary name is one that it ignores."""
    try:
        with replacing(path, _READABLE) as file:
            file.write(text.decode())
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from error
