"""Lines of the demo on the terminal."""

import click

_COLUMN = 38


def heading(text: str) -> None:
    """Print the heading of a step."""
    click.echo()
    click.secho(text, fg="green", bold=True)


def line(what: str, why: str) -> None:
    """Print a line with its explanation, on the right if it fits, else below."""
    if why and len(what) >= _COLUMN:
        click.echo(f"   {what}")
        what = ""
    click.echo(f"   {what:<{_COLUMN}}{click.style(why, dim=True)}" if why else f"   {what}")


def remark(text: str) -> None:
    """Print something that is missing."""
    click.secho(text, fg="yellow")
