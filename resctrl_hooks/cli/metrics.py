"""`resctrl-hook metrics`: OpenMetrics on stdout, into a file for node_exporter, or served over HTTP."""

import os
import tempfile

import click

from resctrl_hooks.cli.opening import open_node
from resctrl_hooks.cli.wording import FailedError
from resctrl_hooks.metrics.exposition import render
from resctrl_hooks.metrics.listener import DEFAULT_PORT, ListenAddressError, Listener, parse_address
from resctrl_hooks.metrics.scrape import Scraper
from resctrl_hooks.node.faults import lacks_root

_READABLE = 0o644
_WRONG_USE = 2


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
    type=click.Choice(["openmetrics", "prometheus"]),
    help="The text's format: OpenMetrics on stdout and the older one in a file unless said; HTTP clients choose.",
)
@click.pass_obj
def command(config: str, output: str | None, listen: str | None, kind: str | None) -> None:
    """Write counters of all pods, and figures about the hook itself, as metrics."""
    if output and listen is not None:
        raise click.UsageError("--output writes once and --listen serves; give one of them.")
    address = _address(listen) if listen is not None else None
    scraper = Scraper(open_node(config))
    if address is not None:
        listener = Listener(address, scraper)
        listener.end_on_signals()
        click.echo(f"resctrl-hook: metrics at {listener.url}", err=True)
        listener.serve_forever()
        return
    families, problems = scraper.families()
    text = render(families, openmetrics=(kind or ("prometheus" if output else "openmetrics")) == "openmetrics")
    if output:
        _replace(output, text)
    else:
        click.echo(text, nl=False)
    for problem in problems:
        if lacks_root(problem):
            raise problem  # what else can't be read has no other reason
    for text in dict.fromkeys(map(str, problems)):
        click.echo(f"resctrl-hook: {text}", err=True)
    if problems:
        raise SystemExit(1)


def _address(listen: str) -> tuple[str, int]:
    try:
        return parse_address(listen)
    except ListenAddressError as error:
        raise FailedError(f"--listen: {error}", _WRONG_USE) from error


def _replace(path: str, text: str) -> None:
    """Puts the text into place at once, readable by node_exporter's own user, under a name that it doesn't read."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path) or ".", suffix=".new", delete=False) as file:
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
