"""Facts that `install` and `uninstall` look up: the configuration that hooks use, and the owner of their files."""

import os

import click
from click.core import ParameterSource

from resctrl_hooks.core.config.applied import MACHINE_CONFIG, read_compiled
from resctrl_hooks.core.config.problems import Problem
from resctrl_hooks.core.install.houses import WITHOUT_CODE, missing
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG, MANAGED_BY, Settings, compiled_path
from resctrl_hooks.core.parts import clause


def installed_config(context: click.Context, record: Manifest | None) -> str:
    """Return the configuration named with --config, else the installation's, else the default."""
    named = context.find_root().get_parameter_source("config") is not ParameterSource.DEFAULT
    config: str = context.obj
    return config if named or record is None else record.config or config


def other_config(compiled: str) -> str:
    """Return the configuration of the installed hooks if its compiled file is not ``compiled``; empty otherwise."""
    record = read_manifest(Tree(""))
    used = record.config if record else ""
    return used if used and compiled_path(used) != os.path.abspath(compiled) else ""


def without_code(compiled: str, settings: Settings) -> list[Problem]:
    """Return the remark that these settings of the installed hooks need modules that the installation lacks."""
    record = read_manifest(Tree(""))
    absent = missing(record, settings) if record and compiled_path(record.config) == os.path.abspath(compiled) else []
    what = WITHOUT_CODE.format(", ".join(absent))
    return [Problem(what, "install again: `resctrl-hook install`", file=compiled, severity="warning")] if absent else []


def leave_to_machine_config(root: str, config: str) -> None:
    """Refuse to change files of a MachineConfig: the machine config operator would mark the node degraded.

    Raises:
        click.ClickException: a MachineConfig installed the hook.
    """
    for path in (compiled_path(config), compiled_path(DEFAULT_CONFIG)):
        if (read_compiled(root + path) or {}).get(MANAGED_BY) == MACHINE_CONFIG:
            what = f"{path} belongs to a MachineConfig; change or delete it in the cluster{clause('delivered')}"
            raise click.ClickException(f"cannot change this installation: {what}")


class Lines:
    """Prints the lines of a change of this host. An output that takes no more does not leave the change half done."""

    def __init__(self) -> None:
        self._error: OSError | None = None

    def __call__(self, line: str) -> None:
        """Print a line, or nothing after a failure."""
        if self._error is None:
            try:
                click.echo(line)
            except OSError as error:
                self._error = error

    def end(self) -> None:
        """Raise the error of the output, after the change."""
        if self._error is not None:
            raise self._error


def warn(text: str) -> None:
    """Print a warning of an installation."""
    click.echo(f"warning: {text}", err=True)
