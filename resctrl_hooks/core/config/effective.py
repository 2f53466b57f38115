"""The active settings for the people half's commands.

The models are imported only to validate a YAML file, so that commands on a configured node start fast.
"""

import os
from dataclasses import dataclass
from typing import Literal

import click

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.settings import (
    DEFAULT_CONFIG,
    Settings,
    active_path,
    compiled_path,
    config_command,
    last_valid_path,
    load,
)

Source = Literal["compiled", "last-valid", "yaml", "defaults"]


class UnusableConfigError(click.ClickException):
    """No usable settings exist for a command."""

    exit_code = 2


@dataclass(frozen=True)
class Effective:
    """Settings, their source, and a remark for the operator (empty for none), for example that the YAML is newer.

    ``source``: ``compiled`` is the file that `config apply` wrote; ``last-valid`` its copy, used if that is damaged;
    ``yaml`` a file that was never applied, which only this command uses; ``defaults`` the built-in ones.
    """

    settings: Settings
    source: Source
    path: str
    problem: str


def find_effective(config: str = DEFAULT_CONFIG) -> Effective:
    """Find the settings for a ``--config FILE``: the compiled file, else the YAML validated in memory, else defaults.

    Raises:
        SettingsError: the existing file is unusable, or ``FILE`` was named and does not exist.
    """
    path = compiled_path(config)
    former = active_path(config) != path
    applied = any(os.path.lexists(name) for name in (path, last_valid_path(path)))
    if not applied and os.path.exists(config):
        try:
            return _never_applied(config)
        except SettingsError:
            if not former:
                raise
    settings, problem = load(config)
    if not settings.path:
        return Effective(settings, "defaults", "", problem)
    source: Source = "last-valid" if settings.path == last_valid_path(path) else "compiled"
    return Effective(settings, source, settings.path, problem)


def _never_applied(config: str) -> Effective:
    # Only for a file that was never applied: this module imports pydantic.
    from .check import check_file, trust_problems  # noqa: PLC0415

    checked = check_file(config)
    wrong = [*checked.errors, *trust_problems(config)]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise SettingsError(f"{wrong[0]}{more}")
    hooks = "use the built-in defaults" if config == DEFAULT_CONFIG else "do nothing"
    active = active_path(config)
    if active != compiled_path(config):
        hooks = f"use {active} of version 0.2"
    problem = f"{config} has never been applied; until `{config_command(config)}`, installed hooks {hooks}"
    return Effective(Settings(checked.valid().given(), config), "yaml", config, problem)


def effective_settings(config: str = DEFAULT_CONFIG, *, has_hooks: bool = True) -> Settings:
    """Return the settings for a command's ``--config``; remark on stderr if hooks use others.

    The remark is the command's last line, after the output that it explains.

    Args:
        config: the YAML file.
        has_hooks: whether hooks are installed. Without them, a file needs no `config apply`.

    Raises:
        UnusableConfigError: no usable settings exist.
    """
    try:
        found = find_effective(config)
    except SettingsError as error:
        raise UnusableConfigError(str(error)) from error
    if found.problem and (has_hooks or found.source != "yaml"):
        _print_last(f"resctrl-hook: {found.problem}")
    return found.settings


def _print_last(line: str) -> None:
    context = click.get_current_context(silent=True)
    if context is None:
        click.echo(line, err=True)
    else:
        context.find_root().call_on_close(lambda: click.echo(line, err=True))
