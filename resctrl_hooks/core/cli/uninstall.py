"""`resctrl-hook uninstall`: remove the node half from this host, or from the root folder of an image."""

import os

import click

from resctrl_hooks.core.cli.installed import Lines, installed_config, leave_to_machine_config, warn
from resctrl_hooks.core.config import find_effective
from resctrl_hooks.core.install.directories import RUNTIMES, RuntimeConfigError
from resctrl_hooks.core.install.installation import remove_hooks, removed_paths, uninstall, unregister
from resctrl_hooks.core.install.manifest import read_manifest
from resctrl_hooks.core.install.present import is_installed
from resctrl_hooks.core.install.roles import MODULE
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.release import Released, release_everything, restore_values
from resctrl_hooks.core.node.settings import Settings


@click.command()
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    type=click.Choice(list(RUNTIMES)),
    help="Only unregister the hook from this runtime, while another runtime uses it. Default: remove everything.",
)
@click.option(
    "--root", metavar="DIR", default="/", show_default=True, help="The root directory of the staged installation."
)
@click.option(
    "--release-groups", is_flag=True, help="Also remove the monitoring groups of running containers, and all records."
)
@click.option(
    "--hooks-only", is_flag=True, help="Only remove the hook's registration; a later uninstall removes the rest."
)
@click.option("--dry-run", is_flag=True, help="Print the paths to remove in order without removing anything.")
@click.pass_context
def command(
    context: click.Context,
    runtimes: tuple[str, ...],
    root: str,
    *,
    release_groups: bool,
    hooks_only: bool,
    dry_run: bool,
) -> None:
    """Uninstall the hook from this host. Containers keep running and can be removed as usual.

    Without --release-groups, the monitoring groups and records of running containers stay until the next boot;
    a later installation continues with them. An edited configuration is kept.
    """
    tree = Tree(os.path.abspath(root))
    if tree.root and release_groups:
        raise click.UsageError("--release-groups cannot be combined with --root")
    record = read_manifest(tree)
    config = installed_config(context, record)
    leave_to_machine_config(tree.root, config)
    # Records and groups belong to this running kernel, whatever root the files are below.
    settings = None if tree.root else _settings(config)
    partly = runtimes if record and set(record.runtimes) - set(runtimes) else ()
    output = Lines()
    try:
        if dry_run:
            _print(removed_paths(tree, partly, hooks_only=hooks_only, output=output), tree)
            if settings is not None and not partly and not hooks_only:
                groups_stay = _stays(settings, release=release_groups)
                what = f"the groups of running containers and {settings.state_dir}"
                click.echo(f"note: {what} {'are kept' if groups_stay else 'are removed too'}")
            return
        if partly:
            unregister(tree, runtimes, output=output, warn=warn)
            output.end()
            return
        if hooks_only:
            remove_hooks(tree, output=output, warn=warn)
            output.end()
            return
        there = is_installed(tree)

        def release() -> None:
            if settings is not None:
                _end_records(settings, release=release_groups)

        if there:
            uninstall(tree, output=output, warn=warn, release=release)
        else:
            release()
    except BrokenPipeError:
        raise  # the reader of the output is gone
    except (OSError, HookError, RuntimeConfigError) as error:
        what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise click.ClickException(f"{what}; fix it and uninstall again") from error
    output.end()
    click.echo("uninstalled" if there else f"resctrl-hooks is not installed below {root}")


def _settings(config: str) -> Settings | None:
    try:
        return find_effective(config).settings
    except HookError as error:
        warn(f"{error}; groups and records are kept")
        return None


def _print(paths: list[tuple[str, str]], tree: Tree) -> None:
    """Print paths in the order of their removal; a folder of modules with the number of its files."""
    if not paths:
        click.echo(f"nothing to remove below {tree.root or '/'}")
    for path, role in paths:
        files = sum(len(names) for _, _, names in os.walk(tree.real(path)))
        click.echo(f"{role:<9} {path}{f'/ ({files} files)' if role == MODULE else ''}")


def _stays(settings: Settings, *, release: bool) -> bool:
    pods = f"{settings.state_dir}/pods"
    return not release and os.path.isdir(pods) and bool(os.listdir(pods))


def _end_records(settings: Settings, *, release: bool) -> None:
    """Remove the ledger, and first the groups if requested; a ledger that still describes groups stays."""
    stays = _stays(settings, release=release)
    done = Released()
    if stays:
        restore_values(Context(settings), done)
    else:
        done = release_everything(Context(settings))
    for line in done.restored:
        click.echo(f"restored {line}")
    if stays:
        click.echo(f"the groups of running containers and {settings.state_dir} are kept")
    for key in done.keys:
        click.echo(f"released {key}")
    if done.problems:
        raise click.ClickException(f"{'; '.join(done.problems)}; fix it and uninstall again")
