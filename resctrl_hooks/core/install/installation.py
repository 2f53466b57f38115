"""The change from the present state of a host to the desired one: write in the order of roles, remove in reverse."""

import hashlib
import os
from collections.abc import Callable
from typing import Final

from resctrl_hooks.core.node.settings import compiled_path, last_valid_path
from resctrl_hooks.core.programs import failure

from . import systemd
from .guard import INTERPRETER_OPTIONS
from .manifest import Manifest, read_manifest
from .paths import CODE, LAUNCH, MANIFEST, UNITS
from .plan import Plan
from .pod import REMEDY, manifests_version, outdated
from .present import named_folder, present, record_of
from .roles import HOOK, LAUNCHER, LINK, MODULE, ROLES, SETTINGS, UNIT, UNLISTED
from .settings_files import is_first
from .tree import Tree
from .unit_files import ENABLED

Output = Callable[[str], None]

_COMPILE_SECONDS: Final = 60


def install(plan: Plan, tree: Tree, *, output: Output, warn: Output, each_module: bool = False) -> None:
    """Put a plan's files on the host below ``tree`` and remove those of an earlier installation.

    ``each_module``: print each module that is written, instead of their folder and number.

    A repeated call changes nothing. Killed at any point, it leaves a host whose runtimes work, with the old hook, the
    new one or no hook. Another `install` or `uninstall` completes the change.

    The modules that hooks were loading stay, because hooks may just have been started from them; the next installation
    removes them. Settings stay.

    Raises:
        OSError: from the kernel; as above.
    """
    before = read_manifest(tree)
    record = _record(plan, before, tree)
    listed = before.files if before else {}
    staying = {path: role for path, role in listed.items() if role == SETTINGS}
    gone = Manifest(files={path: role for path, role in listed.items() if path not in record.files | staying})
    modules = [f"{CODE}/{name}" for name in (plan.payload.folder, named_folder(tree))]
    planned = {*modules, *(file.path for file in plan.files)}
    obsolete = {path: role for path, role in present(tree, gone).items() if path not in planned}
    _sweep([MANIFEST, *(file.path for file in plan.files)], tree)
    for folder in tree.missing_folders(MANIFEST):
        tree.make_folder(folder)
    complete, record.files = record.files | staying, listed | record.files
    record.save(tree)
    _stop(obsolete, tree, warn=warn)  # while their code is here, with which they restore what they changed
    for role in ROLES:
        if role == LAUNCHER:
            compile_modules(plan, tree, warn=warn)
        _write(plan, role, tree, output=output, each_module=each_module)
        if role == LINK:
            _start(plan, tree, output=output, warn=warn)
    _remove(obsolete, tree, output=output, warn=warn)
    record.files, record.complete = complete, True
    record.save(tree)
    problem = outdated(record.manifests, record.version)
    if problem:
        warn(f"{problem}: {REMEDY}")


def _record(plan: Plan, before: Manifest | None, tree: Tree) -> Manifest:
    """Return the record of a plan; its folders include those of the old installation."""
    folders = list(before.folders) if before else []
    for path in [MANIFEST, *(file.path for file in plan.files)]:
        folders += [folder for folder in tree.missing_folders(path) if folder not in folders]
    first = before.first_settings if before else ""
    for file in plan.files:
        if file.role == SETTINGS and is_first(file.data):
            first = hashlib.sha256(file.data).hexdigest()
    return Manifest(
        version=plan.payload.version,
        config=plan.config,
        python=plan.python,
        runtimes=sorted(plan.registrations),
        files={file.path: file.role for file in plan.files if file.role not in UNLISTED},
        runtime_files=plan.registrations,
        folders=folders,
        first_settings=first,
        manifests=manifests_version(tree),
        houses=plan.payload.rooms,
    )


def _write(plan: Plan, role: str, tree: Tree, *, output: Output, each_module: bool) -> None:
    modules = 0
    for file in plan.files:
        if file.role == role:
            for folder in tree.missing_folders(file.path):
                tree.make_folder(folder)
            if role == LINK:
                tree.link(file.path, file.data.decode())
            elif tree.write(file.path, file.data, file.mode):
                modules += role == MODULE
                if role != MODULE or each_module:
                    output(file.path)
    if modules and not each_module:
        output(f"{CODE}/{plan.payload.folder}/ ({modules} files)")


def compile_modules(plan: Plan, tree: Tree, *, warn: Output) -> None:
    """Compile the modules with the interpreter that will run them; without bytecode, hooks only start slower."""
    folder = f"{CODE}/{plan.payload.folder}"
    real = tree.real(folder)
    command = (plan.python, *INTERPRETER_OPTIONS, f"{real}/{plan.payload.script}", "compile", real, folder)
    problem = failure(*command, seconds=_COMPILE_SECONDS)
    if problem:
        warn(f"no bytecode for {plan.python}; hooks start slower until it is compiled: {problem}")


def _start(plan: Plan, tree: Tree, *, output: Output, warn: Output) -> None:
    """Start a plan's units on this running host, resctrl's mount first."""
    planned = {file.path for file in plan.files if file.role == UNIT}
    if planned and systemd.runs(tree):
        systemd.reload(warn, [unit for unit in ENABLED if f"{UNITS}/{unit}" in planned])
        output("units enabled and started")


def unregister(tree: Tree, runtimes: tuple[str, ...], *, output: Output, warn: Output) -> None:
    """Remove the registrations for some runtimes and leave everything else.

    Raises:
        OSError: from the kernel; a repeated call completes the removal.
    """
    record = read_manifest(tree)
    if record is None:
        return
    others, gone = _registrations(record, runtimes)
    still = {path for paths in others.values() for path in paths}
    watched = _hook_folders(record)
    _remove(_of_runtimes(gone, record, tree), tree, output=output, warn=warn)
    for name in runtimes:
        shared = [path for path in record.runtime_files.get(name, []) if path in still]
        if name not in record.runtimes:
            output(f"the hook is not registered with {name}")
        elif shared:
            output(f"{name} still calls the hook: it reads {shared[0]}, which another runtime uses")
    record.runtimes = [name for name in record.runtimes if name not in runtimes]
    record.runtime_files = others
    record.folders = [folder for folder in record.folders if folder not in watched]
    record.files = {path: role for path, role in record.files.items() if path not in gone}
    record.save(tree)


def remove_hooks(tree: Tree, *, output: Output, warn: Output) -> None:
    """Remove the registrations for all runtimes: the first step of `uninstall`.

    Raises:
        OSError: from the kernel; a repeated call completes the removal.
    """
    _remove(_hooks(tree), tree, output=output, warn=warn)


def uninstall(tree: Tree, *, output: Output, warn: Output, release: Callable[[], None] = lambda: None) -> None:
    """Remove everything that any version's `install` put on the host below ``tree``, except edited settings.

    ``release`` ends recorded containers. It is called after hooks and units have stopped, while code and settings still
    exist, so that an interrupted removal can be repeated.

    The hooks' folders stay, even if empty: a running CRI-O does not watch a folder that is created again.

    Containers that were created with the hook can still be removed: their command turns missing files into success.

    Raises:
        OSError: from the kernel; a repeated call completes the removal.
    """
    record = record_of(tree)
    _remove(_everything(record, tree, output=output), tree, output=output, warn=warn, release=release)
    _sweep([*record.files, LAUNCH, MANIFEST], tree)
    tree.remove(MANIFEST)
    for folder in sorted({*record.folders, CODE} - _hook_folders(record), key=len, reverse=True):
        tree.remove_folder(folder)


def removed_paths(
    tree: Tree, runtimes: tuple[str, ...] = (), *, hooks_only: bool = False, output: Output
) -> list[tuple[str, str]]:
    """Return the paths that a removal would remove, with their roles, in its order; read-only.

    ``runtimes``: as by `unregister`; ``hooks_only``: as by `remove_hooks`; else as by `uninstall`.
    """
    record = record_of(tree)
    if runtimes:
        paths = _of_runtimes(_registrations(record, runtimes)[1], record, tree)
    else:
        paths = _hooks(tree) if hooks_only else _everything(record, tree, output=output)
    ordered = [(path, role) for role in reversed(ROLES) for path, its in paths.items() if its == role]
    last = [] if runtimes or hooks_only else [(MANIFEST, "manifest")]
    return [(path, role) for path, role in ordered + last if tree.exists(path)]


def _registrations(record: Manifest, runtimes: tuple[str, ...]) -> tuple[dict[str, list[str]], set[str]]:
    """Return the registrations of the other runtimes, and the paths of these runtimes that no other one uses."""
    others = {name: paths for name, paths in record.runtime_files.items() if name not in runtimes}
    still = {path for paths in others.values() for path in paths}
    return others, {path for name in runtimes for path in record.runtime_files.get(name, [])} - still


def _of_runtimes(paths: set[str], record: Manifest, tree: Tree) -> dict[str, str]:
    """Return these paths of an installation, and the links that enable units among them."""
    smaller = Manifest(files={path: role for path, role in record.files.items() if path in paths})
    return {path: role for path, role in present(tree, smaller).items() if role != MODULE}


def _hooks(tree: Tree) -> dict[str, str]:
    return {path: role for path, role in present(tree).items() if role == HOOK}


def _everything(record: Manifest, tree: Tree, *, output: Output) -> dict[str, str]:
    there = {path: role for path, role in present(tree, record).items() if role != SETTINGS}
    return there | _own_settings(record, tree, output=output)


def _remove(
    paths: dict[str, str], tree: Tree, *, output: Output, warn: Output, release: Callable[[], None] = lambda: None
) -> None:
    """Remove paths in the reverse order of roles; ``release`` is called when their units have stopped."""
    live = False
    for role in reversed(ROLES):
        if role == LINK:
            live = _stop(paths, tree, warn=warn)
            release()
        for path in (path for path, its in paths.items() if its == role):
            if role == MODULE:
                tree.remove_all(path)
                output(f"removed {path}/")
            elif tree.remove(path) and role != LINK:
                output(f"removed {path}")
        if role == UNIT and live:
            systemd.reload(warn)


def _stop(paths: dict[str, str], tree: Tree, *, warn: Output) -> bool:
    """Stop the units among paths, except resctrl's mount, which contains the groups; return whether there are any."""
    units = [os.path.basename(path) for path, role in paths.items() if role == UNIT and not path.endswith(".mount")]
    live = bool(units) and systemd.runs(tree)
    if live:
        systemd.stop(units, warn)
    return live


def _hook_folders(record: Manifest) -> set[str]:
    return {os.path.dirname(path) for path in record.paths(HOOK)}


def _sweep(paths: list[str], tree: Tree) -> None:
    """Remove the temporary files that interrupted calls left beside these paths."""
    names: dict[str, set[str]] = {}
    for path in paths:
        names.setdefault(os.path.dirname(path), set()).add(os.path.basename(path))
    for folder, its in names.items():
        tree.sweep(folder, its)


def _own_settings(record: Manifest, tree: Tree, *, output: Output) -> dict[str, str]:
    """Return the settings to remove: those that `install` wrote and no one edited."""
    config = record.config
    if not config:
        return {}
    text = tree.read(config)
    if text is not None and hashlib.sha256(text).hexdigest() != record.first_settings:
        output(f"{config} and its compiled file are kept, because it was edited")
        return {}
    ours = record.paths(SETTINGS)
    compiled = compiled_path(config)
    ours += [name for name in (compiled, last_valid_path(compiled)) if config in ours]
    return dict.fromkeys(ours, SETTINGS)
