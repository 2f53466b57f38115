"""`resctrl-hook guard`: run the bandwidth guard, show its state, and restore the values that it changed."""

import os
import sys
import time
from collections.abc import Callable

import click
from rich.markup import escape

from resctrl_hooks.core.cli.document import Form, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import HelpfulGroup
from resctrl_hooks.core.cli.node import find_settings, open_node
from resctrl_hooks.core.cli.tables import age, console, print_table, table
from resctrl_hooks.errors import HookError
from resctrl_hooks.observe.inventory.guard import GuardedClass, GuardedDomain, guard_status
from resctrl_hooks.observe.inventory.load_text import source_text
from resctrl_hooks.observe.node.guard.status import NAME
from resctrl_hooks.observe.node.sampler.command import guard_command

_STYLES = {"idle": "green", "holding": "yellow", "pressed": "red", "exhausted": "red", "blind": "red"}


@click.group(cls=HelpfulGroup)
def command() -> None:
    """Limit the bandwidth of RDT classes while the memory of protected classes is full (experimental; `rdt.guard`)."""


@command.command("run")
@click.pass_obj
def run_guard(config: str) -> None:
    """Guard this node until SIGTERM, then restore every value. A unit runs it: resctrl-hooks-guard.service.

    The mode `act` is experimental.
    """
    sys.exit(guard_command(config, ["run"], find_settings))


@command.command("restore")
@click.pass_obj
def restore_guard(config: str) -> None:
    """Restore the MB values that a guard changed. Values that another program wrote are left unchanged."""
    sys.exit(guard_command(config, ["restore"], find_settings))


def _refuse_unreadable(path: str) -> None:
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HookError.of_file(error, path, "read") from error


@command.command("status")
@output_option
@click.pass_obj
def show_status(config: str, *, form: Form) -> None:
    """Show each memory domain's load and state, and each class's declared value and value now."""
    context = open_node(config)
    status = guard_status(context)
    if status is None:
        _refuse_unreadable(f"{context.settings.state_dir}/{NAME}")
        hint = "set rdt.guard.mode to observe, and start resctrl-hooks-guard.service"
        raise HookError("no guard has run since the last boot", hint=hint)
    if not is_table(form):
        print_listing(form, "GuardStatus", status.domains, _COLUMNS, **status.model_dump(mode="json", by_alias=True))
        return
    out = console()
    now = time.time()
    state = "running" if status.running else f"not running; last seen {age(int(status.updated), now)} ago"
    mode = f"{status.mode} (experimental)" if status.mode == "act" else status.mode
    out.print(escape(f"guard: {mode}, {state}{f' ({status.why})' if status.why else ''}"))
    rows = table("DOMAIN", "LOAD", "STATE", "SINCE", "CLASS", f"MB ({status.unit})", "LAST ACTION")
    for domain in status.domains:
        _add_rows(rows.add_row, domain, now)
    print_table(out, rows)
    for domain in status.domains:
        for name, limit in domain.classes.items():
            if limit.kept:
                out.print(escape(f"{name} is not lowered on memory domain {domain.domain}: {limit.kept}"))


def _add_rows(add: Callable[..., None], domain: GuardedDomain, now: float) -> None:
    load = "-" if domain.load is None else f"{'~' if domain.estimated else ''}{domain.load:.0%}"
    load += source_text(domain.capacity_source)
    style = _STYLES.get(domain.state, "")
    state = f"[{style}]{domain.state}[/]" if style else domain.state
    head = [domain.domain, load, state, age(int(domain.since), now)]
    last = ""
    if domain.last is not None:
        done = domain.last
        last = f"{age(int(done.time), now)} ago: {done.action} {done.rdt_class} ({done.reason})"
    for name, limit in domain.classes.items() or [("-", None)]:
        value = "-" if limit is None else _in_words(limit)
        add(*head, escape(name), value, escape(last))
        head, last = [""] * len(head), ""


def _in_words(limit: GuardedClass) -> str:
    """Return a value in words: ``100``; ``100↓60`` if lowered, ``100 (would be 60)`` in mode ``observe``.

    ``100 (overridden)`` if another program changed it; ``100 (kept)`` if a cut harmed a protected class.
    """
    if limit.overridden:
        return f"{limit.declared} (overridden)"
    if limit.kept:
        return f"{limit.now} (kept)"
    if limit.now < limit.declared:
        return f"{limit.declared}↓{limit.now}"
    return f"{limit.declared} (would be {limit.wanted})" if limit.wanted < limit.declared else str(limit.declared)


_COLUMNS = [
    ("DOMAIN", lambda domain: domain.domain),
    ("LOAD", lambda domain: domain.load),
    ("STATE", lambda domain: domain.state),
    ("SINCE", lambda domain: domain.since),
    ("CLASSES", lambda domain: [f"{name}={limit.now}/{limit.declared}" for name, limit in domain.classes.items()]),
]
