"""The hook stages as commands, for manual tests.

Runtimes call the node half directly, which starts ten times faster.
"""

import sys

import click

from resctrl_hooks.config import find_effective
from resctrl_hooks.node.container.oci import CREATE_RUNTIME, HOOK, POSTSTOP
from resctrl_hooks.node.hook.call import run
from resctrl_hooks.node.settings import Settings


def _find(config: str) -> tuple[Settings, str]:
    """Return the settings that the hooks use, or those of the file, with a remark, if no configuration was applied."""
    found = find_effective(config)
    return found.settings, found.problem


def _stage(name: str, text: str) -> click.Command:
    @click.command(
        name, help=f"{text} The OCI state comes on stdin.\n\nTo try it by hand: runtimes call installed code."
    )
    @click.pass_obj
    def stage(config: str) -> None:
        sys.exit(run(config, name, _find))

    return stage


commands = {
    CREATE_RUNTIME: _stage(CREATE_RUNTIME, "Do a workload's steps before it runs."),
    POSTSTOP: _stage(POSTSTOP, "Take a workload's steps back after it has ended."),
    HOOK: _stage(HOOK, "Serve whichever stage the state's status says."),
}
