"""The hook stages as commands, for manual tests.

Runtimes call the node half directly, which starts ten times faster.
"""

import sys

import click

from resctrl_hooks.core.cli.node import find_settings
from resctrl_hooks.core.node.container.oci import CREATE_RUNTIME, HOOK, POSTSTOP
from resctrl_hooks.core.node.hook.call import run


def _stage(name: str, text: str) -> click.Command:
    @click.command(
        name,
        help=f"{text} Reads the OCI state from stdin.\n\nFor manual tests; runtimes call the installed code instead.",
    )
    @click.pass_obj
    def stage(config: str) -> None:
        sys.exit(run(config, name, find_settings))

    return stage


create_runtime = _stage(CREATE_RUNTIME, "Apply the steps for a workload before it runs.")
poststop = _stage(POSTSTOP, "Revert the steps for a workload after it has ended.")
hook = _stage(HOOK, "Serve the stage that the state's status selects.")
