"""`resctrl-hook machineconfig`: render a MachineConfig for an OpenShift cluster."""

import os
from collections.abc import Callable
from typing import Final

import click

from resctrl_hooks.core.cli.errors import INVALID, FailedError, print_problems
from resctrl_hooks.core.config.applied import compile_file
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.install.paths import PYTHON
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG
from resctrl_hooks.core.parts import parts
from resctrl_hooks.openshift.delivery import MANAGED_BY, delivery
from resctrl_hooks.openshift.machineconfig import (
    butane,
    disruption_policy,
    machine_config,
    machine_config_problems,
    role_problem,
)
from resctrl_hooks.openshift.release import entries
from resctrl_hooks.openshift.text import to_yaml

_DEFAULTS: Final = b'{"format": 1, "managedBy": "%s"}\n' % MANAGED_BY.encode()


def _choices(function: Callable[..., None]) -> Callable[..., None]:
    """Add the switches that choose houses."""
    for part in reversed(parts()):
        if part.delivered:
            function = click.option(f"--{part.name}", is_flag=True, help=part.delivered)(function)
    return function


@click.command()
@click.option("--role", default="worker", show_default=True, help="The machine config pool.")
@click.option(
    "--kernel-argument", "arguments", multiple=True, help="Add this kernel argument, such as rdt=cmt; can be repeated."
)
@click.option("--mount/--no-mount", default=True, help="Add a unit that mounts resctrl before CRI-O starts.")
@click.option("--mount-options", default="", help="Mount options of resctrl: cdp, mba_MBps, …")
@click.option("--python", default=PYTHON, show_default=True, help="Path of the node's Python, 3.9 or later.")
@_choices
@click.option("--butane", "as_butane", is_flag=True, help="Render Butane source instead, with each module as text.")
@click.option("--policy", is_flag=True, help="Render the NodeDisruptionPolicy that avoids a reboot for later changes.")
@click.option("--list", "as_list", is_flag=True, help="List the files for a node: mode, size, sha256, path.")
@click.pass_obj
def command(
    config: str,
    /,
    role: str,
    arguments: tuple[str, ...],
    *,
    mount: bool,
    mount_options: str,
    python: str,
    as_butane: bool,
    policy: bool,
    as_list: bool,
    **chosen: bool,
) -> None:
    """Render a MachineConfig that installs the hook on the nodes of a pool. Run it on your workstation.

    --config names the YAML file with the settings for the nodes; without it they use the defaults.
    """
    if policy:
        click.echo(to_yaml(disruption_policy()), nl=False)
        return
    problem = role_problem(role)
    if problem:
        raise FailedError(problem, INVALID)
    if not os.path.isabs(python):
        raise FailedError(f"--python must be an absolute path on the nodes: {python}", INVALID)
    content = delivery(
        _settings(config),
        mount=mount,
        mount_options=mount_options,
        python=python,
        chosen=[house for house, is_chosen in chosen.items() if is_chosen],
        archive=not as_butane,  # people read the Butane source
    )
    if as_list:
        for entry in entries(content):
            click.echo(f"{entry.mode:04o} {entry.size:7} {entry.sha256} {entry.path}")
        return
    value = machine_config(content, role, arguments)
    text = to_yaml(value)
    problems = machine_config_problems(value, text)
    if problems:
        raise FailedError("; ".join(problems), INVALID)
    click.echo(to_yaml(butane(content, role, arguments)) if as_butane else text, nl=False)


def _settings(config: str) -> bytes:
    if config == DEFAULT_CONFIG and not os.path.lexists(config):
        return _DEFAULTS
    try:
        return compile_file(config, managed_by=MANAGED_BY)
    except InvalidConfigError as error:
        print_problems(error.problems)
        raise FailedError(f"{config} is invalid; not rendered", INVALID) from error
