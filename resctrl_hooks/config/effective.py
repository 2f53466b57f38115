"""The active settings for the people half's commands.

The models are imported only to validate a YAML file, so that commands on a configured node start fast.
"""

import os
from dataclasses import dataclass
from typing import Literal

import click

from resctrl_hooks.node.errors import SettingsError
from resctrl_hooks.node.settings import DEFAULT_CONFIG, LAST_VALID_NAME, Settings, beside, compiled_path, load

Source = Literal["compiled", "last-valid", "yaml", "defaults"]


class UnusableConfigError(click.ClickException):
    """No usable settings exist for a command."""

    exit_code = 2


@dataclass(frozen=True)
class Effective:
    """Settings, their source, and remarks for the operator (empty for none).

    ``unapplied`` names a YAML file that is not active, or not in its current form; the active settings are valid
    nevertheless.

    ``source``: ``compiled`` is the file that `config apply` wrote; ``last-valid`` its copy, used if that is damaged;
    ``yaml`` a file that was never applied, which only this command uses; ``defaults`` the built-in ones.
    """

    settings: Settings
    source: Source
    path: str
    problem: str
    unapplied: bool = False


def find_effective(config: str = DEFAULT_CONFIG) -> Effective:
    """Find the settings for a ``--config FILE``: the compiled file, else the YAML validated in memory, else defaults.

    Raises:
        SettingsError: the existing file is unusable, or ``FILE`` was named and does not exist.
    """
    path = compiled_path(config)
    applied = any(os.path.lexists(name) for name in (path, beside(path, LAST_VALID_NAME)))
    if applied or not os.path.exists(config):
        settings, problem = load(config)
        if not settings.path:
            return Effective(settings, "defaults", "", problem)
        source: Source = "last-valid" if settings.path == beside(path, LAST_VALID_NAME) else "compiled"
        return Effective(settings, source, settings.path, problem, bool(problem) and source == "compiled")
    return _never_applied(config)


def _never_applied(config: str) -> Effective:
    # Only for a file that was never applied: these modules import pydantic.
    from .applied import values_of  # noqa: PLC0415
    from .check import check_file, trust_problems  # noqa: PLC0415

    checked = check_file(config)
    wrong = [*checked.errors, *trust_problems(config)]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise SettingsError(f"{wrong[0]}{more}")
    hooks = "use the built-in defaults" if config == DEFAULT_CONFIG else "do nothing"
    problem = f"{config} has never been applied; until `resctrl-hook config apply`, installed hooks {hooks}"
    return Effective(Settings(values_of(checked.valid()), config), "yaml", config, problem, unapplied=True)


def effective_settings(config: str = DEFAULT_CONFIG, *, unapplied: bool = False) -> Settings:
    """Return the settings for a command's ``--config``; report damage of the active ones on stderr.

    With ``unapplied``, also report that the file was not applied. Commands need that if they show the effect of hooks
    or configuration, but not if they only read counters.

    Raises:
        UnusableConfigError: no usable settings exist.
    """
    try:
        found = find_effective(config)
    except SettingsError as error:
        raise UnusableConfigError(str(error)) from error
    if found.problem and (unapplied or not found.unapplied):
        click.echo(f"resctrl-hook: {found.problem}", err=True)
    return found.settings
