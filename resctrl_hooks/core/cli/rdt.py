"""`resctrl-hook rdt`: compare declared RDT classes with the kernel's, and apply them."""

import sys
from typing import Any

import click
from rich.markup import escape

from resctrl_hooks.core.cli.document import Column, Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.edited import as_edited
from resctrl_hooks.core.cli.errors import HelpfulGroup
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.tables import console, print_table, table
from resctrl_hooks.core.rdt.classes import Classes
from resctrl_hooks.core.rdt.report import ClassReport

_GOOD = ("as declared", "not declared")
_EDITED = "and is used as it is now; hooks use it after `resctrl-hook config apply`"
_VERBS = {"missing": "create", "differs": "change"}
_STYLES = {"as declared": "green", "not declared": "dim", "missing": "yellow", "differs": "yellow", "impossible": "red"}


@click.group(cls=HelpfulGroup)
def command() -> None:
    """Apply and show declared RDT classes (`rdt.classes`)."""


@command.command()
@output_option
@click.pass_obj
def show(config: str, *, form: Form) -> None:
    """Compare the classes on this node with the declared ones. Exit code 1 if they differ."""
    _print(Classes.of_node(open_node(config)).show(), form)


@command.command()
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@output_option
@click.pass_obj
def apply(config: str, *, dry_run: bool, form: Form) -> None:
    """Create the declared classes and write their schemata. Undeclared classes are not changed.

    An edited configuration file is used as it is now; `resctrl-hook config apply` makes hooks use it too.
    """
    with as_edited(config, _EDITED) as file:
        context = open_node(file)
    _print(Classes.of_node(context).apply(dry_run=dry_run), form, changes=True, dry_run=dry_run)


def _about_units(reports: list[ClassReport]) -> list[str]:
    """Return the unit of each bandwidth, classes declared in another unit, and values that a process holds."""
    units = {resource: unit for report in reports for resource, unit in report.units.items()}
    lines = [f"{resource} is in {unit}" for resource, unit in sorted(units.items())]
    for report in reports:
        for resource in sorted(report.units):
            declared = report.declared.get(resource)
            if declared is not None and not isinstance(declared, int):
                lines.append(f"{report.name}: {resource} is declared as {_in_words(declared)}")
        for domain, value in sorted(report.held.items()):
            lines.append(f"{report.name}: {report.owner} holds MB of domain {domain} below the declared {value}")
    return lines


def _in_words(declared: Any) -> str:
    if isinstance(declared, dict):
        return ", ".join(f"{domain}={_in_words(value)}" for domain, value in declared.items())
    return " or ".join(map(str, declared)) if isinstance(declared, list) else str(declared)


def _consequence(reports: list[ClassReport], *, dry_run: bool) -> str:
    """Return the result of `apply` that its lines do not show."""
    if any(report.state == "impossible" for report in reports):
        return "nothing written: some changes are not possible"
    if dry_run:
        todo = [f"{verb} {report.name}" for report in reports if (verb := _VERBS.get(report.state))]
        return f"would {', '.join(todo)}; nothing written" if todo else "nothing would change"
    return ""


def _schemata(report: ClassReport, apart: str = "  ") -> str:
    return apart.join(
        f"{name}:{';'.join(f'{domain}={value}' for domain, value in values.items())}"
        for name, values in report.schemata.items()
    )


_CSV: tuple[Column, ...] = (
    *attributes("name", "state", "mode", "tasks"),
    ("schemata", _schemata),
    ("problems", lambda report: "; ".join(report.problems)),
    ("notes", lambda report: "; ".join(report.notes)),
)


def _print(reports: list[ClassReport], form: Form, *, changes: bool = False, dry_run: bool = False) -> None:
    if not is_table(form):
        print_listing(form, "RdtClassList", reports, _CSV)
    else:
        rows = table("CLASS", "STATE", "MODE", "TASKS", "SCHEMATA", right=frozenset({"TASKS"}))
        out = console()
        apart = "\n" if out.is_terminal else "  "  # one line per resource, as in the kernel's file
        for report in reports:
            text = _schemata(report, apart)
            state = f"[{_STYLES[report.state]}]{report.state}[/]"
            rows.add_row(escape(report.name), state, report.mode or "-", str(report.tasks), escape(text) or "-")
        if rows.row_count:
            print_table(out, rows)
        else:
            out.print("No declared RDT classes.")
        for line in [] if changes else _about_units(reports):
            out.print(escape(line))
        for report in reports:
            for line in report.planned:
                out.print(f"{escape(report.name)}: would write {escape(line)}")
            for line in report.done:
                out.print(f"{escape(report.name)}: {escape(line)}")
            for line in [*report.problems, *report.notes]:
                out.print(f"{escape(report.name)}: {escape(line)}")
        if changes and (line := _consequence(reports, dry_run=dry_run)):
            out.print(escape(line))
    bad = [report for report in reports if report.state not in _GOOD]
    if bad and not (dry_run and all(report.state != "impossible" for report in bad)):
        sys.exit(1)
