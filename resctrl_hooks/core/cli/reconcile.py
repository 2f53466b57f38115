"""`resctrl-hook reconcile`: apply an edited configuration, then run the node half's reconcile."""

import sys
from contextlib import nullcontext

import click

from resctrl_hooks.core.cli.edited import as_edited
from resctrl_hooks.core.cli.installed import without_code
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.core.config.applied import apply_if_newer
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.fault_report import lacks_root
from resctrl_hooks.core.node.log import WARNING
from resctrl_hooks.core.node.plain_log import to_stderr
from resctrl_hooks.core.node.reconcile.command import SHORTEST_PAUSE, reconcile_command


@click.command()
@click.option("--dry-run", is_flag=True, help="Report the changes without making them.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Report format, for programs.")
@click.option("--json", "as_json", is_flag=True, help="Same as -o json.")
@click.option(
    "--live",
    metavar="FILE",
    default="",
    help="Keys of live pods, a JSON list or one per line; all others are released.",
)
@click.option(
    "--claim",
    is_flag=True,
    help="Adopt unrecorded groups whose names look like the hook's, after a loss of the records.",
)
@click.option(
    "--watch",
    metavar="DURATION",
    type=Duration(SHORTEST_PAUSE),
    help="Keep running and repeat at this interval.",
)
@click.pass_obj
def command(
    config: str, *, dry_run: bool, output: str | None, as_json: bool, live: str, claim: bool, watch: float | None
) -> None:
    """Update groups and records to match the containers that run on this node.

    Moves containers without a group, and ungrouped threads, into their groups. Releases the groups and records of
    dead pods and containers. Exit code 0 if no problem remains, otherwise 1.
    """
    flags = {"--dry-run": dry_run, "--json": as_json or output == "json", "--claim": claim}
    arguments = [name for name, given in flags.items() if given]
    if live:
        arguments += ["--live", live]
    if watch is not None:
        arguments += ["--watch", f"{watch:.6f}"]
    with as_edited(config, "and would be applied first") if dry_run else nullcontext(config) as file:
        sys.exit(reconcile_command(file, arguments, _apply_edited))


def _apply_edited(config: str) -> None:
    try:
        applied = apply_if_newer(config)
        if applied is not None:
            to_stderr(WARNING, f"applied the changed configuration {config}")
            for problem in without_code(applied.path, applied.settings):
                to_stderr(WARNING, str(problem))
    except (InvalidConfigError, SettingsError, OSError) as error:
        if lacks_root(error):
            return  # other output is unchanged, and reports this
        to_stderr(WARNING, f"cannot apply {config}: {error}; the previous configuration stays active")
