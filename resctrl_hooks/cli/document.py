"""What programs read: one envelope for every command that lists, as JSON or YAML, and the same items as CSV."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import yaml
from pydantic import BaseModel

from resctrl_hooks.node.reconcile.report import API_VERSION


def document(kind: str, items: Iterable[Any], *, old: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The envelope: what it is, of which host, when, and its items, as Kubernetes' lists are.

    ``more`` are further keys of this kind. Models are dumped with the contract's camelCase keys. ``old`` is what the
    command printed before 0.2: its keys stay beside the envelope for this version.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "host": os.uname().nodename,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **{name: _plain(value) for name, value in more.items()},
        "items": [_plain(item) for item in items],
        **(old or {}),
    }


def print_document(form: str, value: Mapping[str, Any], *, compact: bool = False) -> None:
    """Prints it as ``json`` or ``yaml``; ``compact`` is a line or a YAML document of a stream."""
    if form == "yaml":
        start = "---\n" if compact else ""
        click.echo(start + yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(value, indent=None if compact else 2))


Column = tuple[str, Callable[[Any], Any]]
"""A heading with its unit, and what of an item stands below it."""


def print_csv(columns: Sequence[Column], items: Iterable[Any], *, headers: bool) -> None:
    """Prints items as CSV (RFC 4180): numbers without units, nothing where there is none."""
    writer = csv.writer(sys.stdout)
    if headers:
        writer.writerow([name for name, _ in columns])
    for item in items:
        writer.writerow([_cell(get(item)) for _, get in columns])


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(str(part) for part in value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    return [_plain(one) for one in value] if isinstance(value, list) else value
