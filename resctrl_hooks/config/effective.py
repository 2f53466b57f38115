"""The settings in force, for the people half's commands: what the hooks obey, or would.

The models are imported only where a YAML file has to be validated, so that a command on a configured node starts fast.
"""

import os
from dataclasses import dataclass
from typing import Literal

import click

from resctrl_hooks.node.errors import SettingsError
from resctrl_hooks.node.settings import DEFAULT_CONFIG, LAST_VALID_NAME, Settings, beside, compiled_path, load

Source = Literal["compiled", "last-valid", "yaml", "defaults"]


class UnusableConfigError(click.ClickException):
    """There are no settings that a command could go by."""

    exit_code = 2


@dataclass(frozen=True)
class Effective:
    """Settings, where they come from, and what the operator should know about that (empty for nothing).

    ``unapplied`` says that this is a YAML file which isn't in force yet, or not as it is now: no fault of what is.

    ``source``: ``compiled`` is what `config apply` wrote; ``last-valid`` its copy, where that is damaged; ``yaml`` a
    file that was never applied, so that only the command that read it goes by it; ``defaults`` the built-in ones.
    """

    settings: Settings
    source: Source
    path: str
    problem: str
    unapplied: bool = False


def find_effective(config: str = DEFAULT_CONFIG) -> Effective:
    """Find the settings for a ``--config FILE``: the compiled file, else the YAML validated in memory, else defaults.

    Raises:
        SettingsError: what is there can't be used, or ``FILE`` was named and isn't there.
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
    # Only for a file that was never applied; these import pydantic.
    from .applied import values_of  # noqa: PLC0415
    from .check import check_file, trust_problems  # noqa: PLC0415

    checked = check_file(config)
    wrong = [*checked.errors, *trust_problems(config)]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise SettingsError(f"{wrong[0]}{more}")
    hooks = "use the built-in defaults" if config == DEFAULT_CONFIG else "leave every container alone"
    problem = f"{config} was never applied; until `resctrl-hook config apply`, installed hooks {hooks}"
    return Effective(Settings(values_of(checked.valid()), config), "yaml", config, problem, unapplied=True)


def effective_settings(config: str = DEFAULT_CONFIG, *, unapplied: bool = False) -> Settings:
    """Return the settings for a command's ``--config``; that those in force are damaged goes to stderr.

    With ``unapplied`` so does that the file was not applied, which concerns commands that tell what hooks or the
    configuration make of a node, but nobody who looks at counters.

    Raises:
        UnusableConfigError: there are none that can be used.
    """
    try:
        found = find_effective(config)
    except SettingsError as error:
        raise UnusableConfigError(str(error)) from error
    if found.problem and (unapplied or not found.unapplied):
        click.echo(f"resctrl-hook: {found.problem}", err=True)
    return found.settings
