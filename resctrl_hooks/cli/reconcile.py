"""`resctrl-hook reconcile`: apply an edited configuration, then run the node half's reconcile."""

import sys
from contextlib import nullcontext

import click

from resctrl_hooks.cli.node import as_it_would_be
from resctrl_hooks.cli.params import Duration
from resctrl_hooks.config.applied import apply_if_newer
from resctrl_hooks.config.problems import InvalidConfigError
from resctrl_hooks.node.errors import SettingsError
from resctrl_hooks.node.fault_report import lacks_root
from resctrl_hooks.node.log import WARNING, to_stderr
from resctrl_hooks.node.reconcile.command import reconcile_command


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Form of the report, for programs.")
@click.option("--json", "as_json", is_flag=True, help="As -o json.")
@click.option("--live", metavar="FILE", default="", help="Keys that live, a JSON list or one a line: all others end.")
@click.option("--claim", is_flag=True, help="After the ledger was lost: take groups of our shape as ours.")
@click.option("--watch", metavar="DURATION", type=Duration(0), help="Stay, and repeat after each pause.")
@click.pass_obj
def command(
    config: str, *, dry_run: bool, output: str | None, as_json: bool, live: str, claim: bool, watch: float | None
) -> None:
    """Make groups and records agree with what runs on this node.

    Containers without a group are brought into one, threads that entered later too; what belongs to dead pods and
    containers is released. Exit code 0 says that nothing is wrong any more, 1 that something still is.
    """
    flags = {"--dry-run": dry_run, "--json": as_json or output == "json", "--claim": claim}
    arguments = [name for name, given in flags.items() if given]
    if live:
        arguments += ["--live", live]
    if watch is not None:
        arguments += ["--watch", f"{watch:.6f}"]
    with as_it_would_be(config) if dry_run else nullcontext(config) as file:
        sys.exit(reconcile_command(file, arguments, _apply_edited))


def _apply_edited(config: str) -> None:
    try:
        if apply_if_newer(config) is not None:
            to_stderr(WARNING, f"{config} was newer than what was in force, and is applied now")
    except (InvalidConfigError, SettingsError, OSError) as error:
        if lacks_root(error):
            return  # other output is unchanged, and reports this
        to_stderr(WARNING, f"{config} is newer than what is in force, but can't be applied: {error}")
