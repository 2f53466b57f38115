"""Machine-readable output: one envelope as JSON or YAML for every command that lists, and the same items as CSV."""

import csv
import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Literal

import click
import yaml

from resctrl_hooks.core.inventory.envelope import envelope
from resctrl_hooks.core.node.names import printable

Form = Literal["table", "wide", "json", "yaml", "name", "csv"]
FORMS: tuple[Form, ...] = ("wide", "json", "yaml", "name", "csv")


Column = tuple[str, Callable[[Any], Any]]
"""A heading with its unit, and a function that returns the item's value."""


def attributes(*names: str) -> tuple[Column, ...]:
    """Return columns named like the attributes that they show."""
    return tuple((name, attrgetter(name)) for name in names)


def print_listing(
    form: Form,
    kind: str,
    items: Sequence[Any],
    columns: Sequence[Column],
    rows: Sequence[Any] | None = None,
    *,
    names: Iterable[str] | None = None,
    headers: bool = True,
    compact: bool = False,
    **more: Any,
) -> None:
    """Print a command's items in any form but ``table`` and ``wide``.

    Args:
        form: the output form.
        kind: the document's kind.
        items: the document's items.
        columns: the CSV's columns.
        rows: the CSV's rows if they differ from the items.
        names: for ``name``; by default the values in the first column of the rows.
        headers: whether the CSV has a line of headings.
        compact: whether a document is one line, or one YAML document of a stream.
        more: further keys of the document, whose envelope has the shape of a Kubernetes list.
    """
    rows = items if rows is None else rows
    if form == "csv":
        _print_csv(columns, rows, headers=headers)
    elif form == "name":
        for name in dict.fromkeys(str(columns[0][1](row)) for row in rows) if names is None else names:
            click.echo(printable(name))
    else:
        value = envelope(kind, items, **more)
        if form == "yaml":
            start = "---\n" if compact else ""
            click.echo(start + yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
        else:
            click.echo(json.dumps(value, indent=None if compact else 2))


_DIGITS = 15  # decimal digits that a float always keeps


def _print_csv(columns: Sequence[Column], items: Iterable[Any], *, headers: bool) -> None:
    """Print items as CSV (RFC 4180): numbers without units, empty cells for missing values, no control characters."""
    writer = csv.writer(sys.stdout)
    if headers:
        writer.writerow([name for name, _ in columns])
    for item in items:
        writer.writerow([_cell(get(item)) for _, get in columns])


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o`` and its older spelling ``--json`` to a command, which receives a `Form` as ``form``."""

    @click.option("-o", "--output", type=click.Choice(FORMS), help="Output format; all except wide are for programs.")
    @click.option("--json", "as_json", is_flag=True, help="Same as -o json.")
    @functools.wraps(command)
    def called(*positional: Any, output: Form | None, as_json: bool, **given: Any) -> Any:
        return command(*positional, form=output or ("json" if as_json else "table"), **given)

    return called


def is_table(form: Form) -> bool:
    """Return whether the output is a table for people."""
    return form in ("table", "wide")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")  # a product such as 301599999.99999976 is 301600000
    if isinstance(value, list):
        value = " ".join(str(part) for part in value)
    return printable(value) if isinstance(value, str) else value
