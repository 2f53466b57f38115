"""`resctrl-hook config`: check, apply and show the configuration, and its schema for editors."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from operator import itemgetter
from typing import Any

import click

from resctrl_hooks.core.cli.document import Column, Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import INVALID, FailedError, HelpfulGroup, print_problems
from resctrl_hooks.core.cli.installed import other_config, without_code
from resctrl_hooks.core.config.applied import Applied, Change, apply_file, check_compiled, is_newer
from resctrl_hooks.core.config.check import Checked, check_file, trust_problems
from resctrl_hooks.core.config.document import format_document
from resctrl_hooks.core.config.problems import InvalidConfigError, Problem
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.config.show import Shown, show_settings
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG, compiled_path, config_command

_SOURCES = {
    "compiled": "active, from {path}",
    "last-valid": "last valid configuration, from {path}",
    "yaml": "from {path}",
    "defaults": "the built-in defaults",
}
_YAML_STATES = {
    "applied": "{path} matches the active configuration.",
    "differs": "{path} differs; activate it with `{apply}`:",
    "never-applied": "What `{apply}` would change:",
    "invalid": "{path} is not valid: see `{check}`.",
    "missing": "{path} does not exist.",
}

_CSV_PROBLEMS = attributes("key", "severity", "file", "line", "what", "right")
_CSV_SETTINGS: tuple[Column, ...] = (("setting", itemgetter(0)), ("value", itemgetter(1)))
_CSV_CHANGES = attributes(*(field.name for field in fields(Change)))


@click.group(cls=HelpfulGroup)
def command() -> None:
    """Check, apply and show the configuration."""


@command.command(short_help="Validate the file and report each problem with its line.")
@output_option
@click.pass_obj
def check(config: str, *, form: Form) -> None:
    """Validate the configuration file and report each problem with its line."""
    compiled = compiled_path(config)
    if config == DEFAULT_CONFIG and not os.path.lexists(config):
        active = f"{compiled} is active" if os.path.lexists(compiled) else "the built-in defaults apply"
        checked = Checked(config)
        checked.problems = [Problem(f"the file does not exist; {active}", file=config, severity="note")]
    elif compiled == config:
        checked = check_compiled(config)
    else:
        checked = check_file(config)
    if compiled != config:
        checked.problems += trust_problems(compiled) if os.path.lexists(compiled) else []
    if not is_table(form):
        items = _as_list(checked.problems)
        print_listing(
            form,
            "ConfigProblemList",
            items,
            _CSV_PROBLEMS,
            checked.problems,
            file=config,
            valid=not checked.errors,
        )
    else:
        print_problems(checked.problems)
        if not checked.errors:
            click.echo(f"{config} is valid" if checked.config else "nothing to check")
    sys.exit(INVALID if checked.errors else 0)


@command.command(short_help="Validate the file and activate it for the hooks.")
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@click.option("--if-newer", is_flag=True, help="Do nothing if the file has not changed since it was last applied.")
@output_option
@click.pass_obj
def apply(config: str, *, dry_run: bool, if_newer: bool, form: Form) -> None:
    """Validate the configuration file and activate it for the hooks.

    An invalid file never replaces the active configuration.
    """
    if if_newer and not is_newer(config):
        if not is_table(form):
            _print_changes(form, config, [], [], applied=False)
        return
    try:
        applied = apply_file(config, dry_run=dry_run)
    except InvalidConfigError as error:
        if not is_table(form):
            _print_changes(form, config, [], error.problems, applied=False)
        else:
            print_problems(error.problems)
        raise FailedError("not applied; the previous configuration stays active", INVALID) from error
    except SettingsError as error:
        raise click.ClickException(f"not applied: {error}") from error
    except OSError as error:
        what = f"not applied: {error.filename or config}: {error.strerror}; the previous configuration stays active"
        raise click.ClickException(what) from error
    applied.remarks.extend(without_code(applied.path, applied.settings))
    if not is_table(form):
        _print_changes(form, applied.path, applied.changes, applied.remarks, applied=not dry_run)
    else:
        _print_applied(applied, dry_run=dry_run)


@command.command(short_help="Show the active settings, including defaults.")
@output_option
@click.pass_obj
def show(config: str, *, form: Form) -> None:
    """Show the active settings, including defaults, and the differences to the file."""
    try:
        shown = show_settings(config)
    except SettingsError as error:
        raise FailedError(str(error), INVALID) from error
    if is_table(form):
        _print_shown(shown)
    else:
        item = shown.model_dump(mode="json")
        print_listing(form, "EffectiveConfigList", [item], _CSV_SETTINGS, list(_flat(item["settings"])))


@command.command(short_help="Print a JSON Schema of the file, for editors.")
def schema() -> None:
    """Print a JSON Schema of the configuration file, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))


def _as_list(problems: list[Problem]) -> list[dict[str, Any]]:
    return [asdict(problem) for problem in problems]


def _flat(settings: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting's path and its value as JSON."""
    if isinstance(settings, dict) and settings:
        for name, value in settings.items():
            yield from _flat(value, f"{path}.{name}".lstrip("."))
    else:
        yield path, json.dumps(settings)


def _print_changes(form: Form, file: str, changes: list[Change], problems: list[Problem], *, applied: bool) -> None:
    items = [asdict(change) for change in changes]
    more: dict[str, Any] = {"file": file, "applied": applied, "problems": _as_list(problems)}
    print_listing(form, "ConfigChangeList", items, _CSV_CHANGES, changes, **more)


def _print_applied(applied: Applied, *, dry_run: bool) -> None:
    print_problems(applied.remarks)
    for change in applied.changes:
        click.echo(f"  {change}")
    if dry_run and not applied.changes:
        click.echo("nothing would change")
    elif dry_run:
        click.echo(f"{_counted(applied.changes)} would change; nothing written")
    else:
        what = f"{_counted(applied.changes)} changed" if applied.changes else "nothing changed"
        click.echo(f"{applied.path} is active; {what}")
    if other := other_config(applied.path):
        click.echo(f"note: installed hooks use {other}", err=True)


def _counted(changes: list[Change]) -> str:
    return f"{len(changes)} setting{'' if len(changes) == 1 else 's'}"


def _print_shown(shown: Shown) -> None:
    click.echo(f"# {_SOURCES[shown.source].format(path=shown.path)}")
    for line in [shown.problem, *shown.warnings]:
        if line:
            click.echo(f"# {line}")
    click.echo(format_document(shown.settings))
    click.echo(f"# Set, not default: {', '.join(shown.set) or 'nothing'}")
    if shown.yaml.path != shown.path or shown.source == "yaml":
        path = shown.yaml.path
        commands = {"apply": config_command(path), "check": config_command(path, "check")}
        click.echo(f"# {_YAML_STATES[shown.yaml.state].format(path=path, **commands)}")
    for change in shown.yaml.differences:
        click.echo(f"#   {change}")
