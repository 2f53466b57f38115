"""`resctrl-hook metrics`: OpenMetrics on stdout, into a file for node_exporter, or served over HTTP."""

import os
import tempfile
from collections.abc import Callable

import click
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from resctrl_hooks.cli.errors import FailedError
from resctrl_hooks.cli.node import open_node
from resctrl_hooks.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.metrics.selection import Selection
from resctrl_hooks.metrics.server import DEFAULT_PORT, ListenAddressError, Server, parse_address
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.fault_report import lacks_root

_READABLE = 0o644
_WRONG_USE = 2
_WRITERS: dict[str, Callable[[CollectorRegistry], bytes]] = {
    "openmetrics": generate_openmetrics,
    "prometheus": generate_latest,
}


@click.command()
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Replace FILE, as the textfile collector wants it.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    is_flag=False,
    flag_value=str(DEFAULT_PORT),
    help=f"Serve /metrics at HOST:PORT; without a host on the loopback, without an address at port {DEFAULT_PORT}.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_WRITERS)),
    help="The text's format: OpenMetrics on stdout and the older one in a file unless said; HTTP clients choose.",
)
@click.option("--counter", "counters", metavar="GLOB", multiple=True, help="Only these counters, such as 'mbm_*'.")
@click.option("--namespace", "-n", "namespaces", metavar="GLOB", multiple=True, help="Only pods of these namespaces.")
@click.pass_obj
def command(
    config: str,
    output: str | None,
    listen: str | None,
    kind: str | None,
    counters: tuple[str, ...],
    namespaces: tuple[str, ...],
) -> None:
    """Write counters of all pods, and figures about the hook itself, as metrics.

    Each pod has a series for each of its classes, domains and counters: --counter and --namespace make them fewer, and
    can be repeated.
    """
    if output and listen is not None:
        raise click.UsageError("--output writes once and --listen serves; give one of them.")
    address = _address(listen) if listen is not None else None
    node, selection = open_node(config), Selection(counters, namespaces)
    if address is not None:
        server = Server(address, registry_of(NodeCollector(node, _say, selection)))
        server.end_on_signals()
        click.echo(f"resctrl-hook: metrics at {server.url}", err=True)
        server.serve_forever()
        return
    problems: list[HookError] = []
    write = _WRITERS[kind or ("prometheus" if output else "openmetrics")]
    text = write(registry_of(NodeCollector(node, problems.append, selection)))
    if output:
        _replace(output, text)
    else:
        click.echo(text, nl=False)
    for problem in problems:
        if lacks_root(problem):
            raise problem  # what else can't be read has no other reason
    for line in dict.fromkeys(map(str, problems)):
        click.echo(f"resctrl-hook: {line}", err=True)
    if problems:
        raise SystemExit(1)


def _say(problem: HookError) -> None:
    click.echo(f"resctrl-hook: {problem}", err=True)


def _address(listen: str) -> tuple[str, int]:
    try:
        return parse_address(listen)
    except ListenAddressError as error:
        raise FailedError(f"--listen: {error}", _WRONG_USE) from error


def _replace(path: str, text: bytes) -> None:
    """Puts the text into place at once, readable by node_exporter's own user, under a name that it doesn't read."""
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", suffix=".new", delete=False) as file:
            try:
                file.write(text)
                os.fchmod(file.fileno(), _READABLE)
                file.flush()
                os.rename(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise click.ClickException(f"{path} can't be written: {error.strerror}") from error
