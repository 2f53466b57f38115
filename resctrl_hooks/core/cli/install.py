"""`resctrl-hook install`: install the node half on this host, or below the root folder of an image."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator

import click

from resctrl_hooks.core.cli.added import extended
from resctrl_hooks.core.cli.errors import INVALID, FailedError, print_problems
from resctrl_hooks.core.cli.installed import Lines, installed_config, leave_to_machine_config, warn
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.install import systemd
from resctrl_hooks.core.install.directories import RUNTIMES, RuntimeConfigError, directories
from resctrl_hooks.core.install.guard import node_command
from resctrl_hooks.core.install.installation import install
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.paths import CODE, HOOK_NAME, MANIFEST, PYTHON, UNITS
from resctrl_hooks.core.install.plan import Plan, plan
from resctrl_hooks.core.install.roles import DROP_IN, FEATURES, HOOK, LAUNCHER, LINK, MODULE, ROLES, UNIT
from resctrl_hooks.core.install.settings_files import ADDITIONS
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.unit_files import BY_HOUSE, KEEP_RUNNING, WITHOUT_SYSTEMD
from resctrl_hooks.core.install.units import MOUNT
from resctrl_hooks.core.install.watching import LOOKS_PAST, looks_past
from resctrl_hooks.core.node.names import STATE_DIR
from resctrl_hooks.core.parts import clause, parts

OTHERS = """`namespaces: ["?*"]` in the configuration excludes containers without a Kubernetes namespace"""


def _choices(function: Callable[..., None]) -> Callable[..., None]:
    """Add the switches that choose houses and further sections of the configuration."""
    switches = {part.name: part.choice for part in parts() if part.choice} | {
        one.section: one.help for one in ADDITIONS
    }
    for name, text in reversed(switches.items()):
        function = click.option(f"--{name}/--no-{name}", default=None, help=text)(function)
    return function


@click.command()
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    type=click.Choice(list(RUNTIMES)),
    help="Make this runtime call the hook; can be repeated. Default: as installed before, else all installed runtimes.",
)
@click.option(
    "--root", metavar="DIR", default="/", show_default=True, help="Stage everything below DIR, an existing folder."
)
@click.option("--dry-run", is_flag=True, help="Print the files and actions in order without writing anything.")
@click.option("-v", "--verbose", is_flag=True, help="Print each module of the hook's code instead of their folder.")
@click.option("--python", help=f"Path of the host's Python, 3.9 or later. Default: as installed before, else {PYTHON}.")
@click.option(
    "--units/--no-units",
    "with_units",
    default=None,
    help="Install systemd units for the resctrl mount and reconcile. Default: as installed before, else yes.",
)
@_choices
@click.option(
    "--nfd/--no-nfd",
    default=None,
    help="Label the node by node-feature-discovery with what it can do. Default: as installed before, else no.",
)
@click.pass_context
@extended("install", served=clause("served"))
def command(
    context: click.Context,
    /,
    runtimes: tuple[str, ...],
    root: str,
    *,
    dry_run: bool,
    verbose: bool,
    python: str | None,
    with_units: bool | None,
    nfd: bool | None,
    **choices: bool | None,
) -> None:
    """Install the hook on this host, or below --root for an image{served}.

    An existing configuration and existing records are kept. To upgrade, install again.

    The hook reads the file that --config names; default: as installed before, else /etc/resctrl-hooks/config.yaml.
    It is a path on the host, so it is created below --root.
    """
    tree = Tree(os.path.abspath(root))
    try:
        os.close(os.open(tree.root or "/", os.O_PATH | os.O_DIRECTORY))
    except OSError as error:
        what = f"cannot install below {root}: {error.strerror}; --root must be an existing folder"
        raise FailedError(what, INVALID) from error
    before = read_manifest(tree)
    earlier = before.runtimes if before else []
    config = installed_config(context, before)
    python = python or (before.python if before else PYTHON)
    if with_units is None:
        with_units = before is None or UNIT in before.files.values()
    targets = tuple(dict.fromkeys([*runtimes, *earlier] or _found(tree)))
    if not targets:
        raise FailedError("no container runtime found; specify one with --runtime", INVALID)
    for option, path in (("--config", config), ("--python", python)):
        if not os.path.isabs(path):
            raise FailedError(f"{option} must be an absolute path on the host: {path}", INVALID)
    leave_to_machine_config(tree.root, config)
    try:
        todo = plan(
            targets,
            config,
            root=tree.root,
            python=python,
            with_units=with_units,
            earlier_units=before is not None and f"{UNITS}/{MOUNT}" in before.files,
            chosen=[
                part.name
                for part in parts()
                if part.choice and (_was_chosen(part.name, before, tree) if (by := choices[part.name]) is None else by)
            ],
            sections=choices,
            nfd=before is not None and FEATURES in before.files.values() if nfd is None else nfd,
        )
    except InvalidConfigError as error:
        print_problems(error.problems)
        raise FailedError(f"{config} is invalid; not installed", INVALID) from error
    except RuntimeConfigError as error:
        raise FailedError(f"cannot read a runtime's configuration: {error}; not installed") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}; not installed") from error
    todo.notes.extend(_notes(todo, tree, with_units=with_units))
    if dry_run:
        _print(todo, live=systemd.runs(tree), each_module=verbose)
        return
    output = Lines()
    try:
        install(todo, tree, output=output, warn=warn, each_module=verbose)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}; fix it and install again, or uninstall"
        raise click.ClickException(what) from error
    output.end()
    for note in (*todo.notes, *_restarts(todo, tree)):
        click.echo(f"note: {note}")
    click.echo(f"installed {todo.payload.version} for {', '.join(targets)}; `{_doctor(tree)}` checks it")


def _doctor(tree: Tree) -> str:
    return shlex.join(["resctrl-hook", "doctor", *(["--root", tree.root] if tree.root else [])])


def _was_chosen(house: str, before: Manifest | None, tree: Tree) -> bool:
    """Return whether an earlier installation has a house's service by choice, not because its runtime needs it.

    Without units, its code shows that, or the status of a service that was started by hand.
    """
    if before is None or any(RUNTIMES[name].house == house for name in before.runtimes):
        return False
    if UNIT in before.files.values():
        units = {f"{UNITS}/{unit.name}" for unit in BY_HOUSE[house]}
        by_runtime = any(units.intersection(paths) for paths in before.runtime_files.values())
        return not by_runtime and not units.isdisjoint(before.files)
    if before.houses is not None:
        return house in before.houses
    return any(unit.status and unit.status(f"{tree.root}{STATE_DIR}") for unit in BY_HOUSE[house])


def _found(tree: Tree) -> list[str]:
    if tree.root:
        return [name for name in RUNTIMES if tree.exists(f"/usr/bin/{name}") or tree.exists(f"/usr/local/bin/{name}")]
    return [name for name in RUNTIMES if shutil.which(name)]


def _notes(todo: Plan, tree: Tree, *, with_units: bool) -> Iterator[str]:
    """Yield consequences of a plan for this host or image that the operator would not expect."""
    folders = {os.path.dirname(file.path) for file in todo.files if file.role == HOOK}
    others = [name for name in _found(tree) if name not in todo.registrations and not RUNTIMES[name].house]
    for name in others:
        for folder in sorted(folders & set(directories(RUNTIMES[name], tree.root))):
            yield f"{name} also reads {folder}, so its containers get the hook as well; {OTHERS}"
    if not tree.root and not (with_units and systemd.is_running()):
        command = shlex.join(node_command(todo.config, "reconcile", python=todo.python))
        why = "systemd does not run here and cannot start the units" if with_units else "no units installed"
        yield f"{why}: {WITHOUT_SYSTEMD.format(command=command)}"
        yield from (KEEP_RUNNING[name] for name in todo.services if name in KEEP_RUNNING)


def _restarts(todo: Plan, tree: Tree) -> Iterator[str]:
    """Return the programs that need a restart to call the hook; valid only after the files are written."""
    for name, paths in todo.registrations.items():
        for folder in {os.path.dirname(path) for path in paths if os.path.basename(path) == HOOK_NAME}:
            if looks_past(RUNTIMES[name], tree, folder):
                yield f"{LOOKS_PAST.format(name=name, folder=folder)}: {RUNTIMES[name].restart}"


def _print(todo: Plan, *, live: bool, each_module: bool = False) -> None:
    """Print a plan in the order of execution: each file follows what it depends on."""
    modules = [] if each_module else [file for file in todo.files if file.role == MODULE]
    made = [(LAUNCHER, f"bytecode  {CODE}/{todo.payload.folder}/{name}.*") for name in ("compiled", "launch")]
    if live and any(file.role == UNIT for file in todo.files):
        made.append((DROP_IN, "start     systemd reloads and starts the units"))
    click.echo(f"0644       - manifest  {MANIFEST}")
    for role in ROLES:
        for before, line in made:
            if before == role:
                click.echo(f"{'-':>4} {'-':>7} {line}")
        if role == MODULE and modules:
            total = sum(len(file.data) for file in modules)
            folder = f"{CODE}/{todo.payload.folder}/ ({len(modules)} files)"
            click.echo(f"{modules[0].mode:04o} {total:7d} {role:<9} {folder}")
            continue
        for file in (file for file in todo.files if file.role == role):
            size = f"{'-':>4} {'-':>7}" if role == LINK else f"{file.mode:04o} {len(file.data):7d}"
            click.echo(f"{size} {role:<9} {file.path}")
    for note in todo.notes:
        click.echo(f"note: {note}")
