"""Execution of a plan: first everything that a hook needs, last the registrations that make runtimes call it."""

import hashlib
import os
import re
from collections.abc import Callable
from typing import Final

from resctrl_hooks.node.names import RESCTRL_ROOT

from . import systemd
from .guard import INTERPRETER_OPTIONS
from .manifest import Manifest, read_manifest
from .paths import CODE, LAUNCH, MANIFEST, UNITS
from .payload import is_payload_folder
from .plan import DROP_IN, HOOK, LAUNCHER, MODULE, SETTINGS, UNIT, Plan
from .programs import failure
from .settings_files import FIRST
from .tree import Tree
from .units import ENABLED, MOUNT, enabling_link

Say = Callable[[str], None]

_COMPILE_SECONDS: Final = 60
_NAMED_FOLDER: Final = re.compile(rb"/(node-[0-9a-f]+)\"")


def install(plan: Plan, tree: Tree, *, say: Say, warn: Say) -> None:
    """Put a plan's files on the host below ``tree``; a repeated call changes nothing.

    Killed at any point, it leaves a host whose runtimes work, with the old hook, the new one or no hook. Another
    `install` or `uninstall` completes the change.

    Raises:
        OSError: from the kernel; as above.
    """
    before = read_manifest(tree)
    record = _record(plan, before, tree)
    _sweep(plan, tree)
    for folder in tree.missing_folders(MANIFEST):
        tree.make_folder(folder)
    record.save(tree)
    serving = named_folder(tree)
    for kind in (MODULE, LAUNCHER, SETTINGS, UNIT, DROP_IN, HOOK):
        if kind == LAUNCHER:
            compile_modules(plan, tree, warn=warn)
        if kind == DROP_IN:
            enable(plan, tree, say=say, warn=warn)
        modules = 0
        for file in plan.files:
            if file.kind == kind:
                for folder in tree.missing_folders(file.path):
                    tree.make_folder(folder)
                if tree.write(file.path, file.data, file.mode):
                    modules += kind == MODULE
                    if kind != MODULE:
                        say(file.path)
        if modules:
            say(f"{CODE}/{plan.payload.folder}/ ({modules} files)")
    _retire(plan, tree, before, {plan.payload.folder, serving}, say=say, warn=warn)
    record.files = {file.path: file.kind for file in plan.files if file.kind != MODULE} | _kept_settings(before)
    record.complete = True
    record.save(tree)


def _record(plan: Plan, before: Manifest | None, tree: Tree) -> Manifest:
    """Return the record that is valid from now until the end: files of the old installation and of the new one."""
    files = dict(before.files) if before else {}
    folders = list(before.folders) if before else []
    for path in [MANIFEST, *(file.path for file in plan.files), *links(plan)]:
        folders += [folder for folder in tree.missing_folders(path) if folder not in folders]
    files |= {file.path: file.kind for file in plan.files if file.kind != MODULE}
    first = before.first_settings if before else ""
    if any(file.kind == SETTINGS and file.data == FIRST for file in plan.files):
        first = hashlib.sha256(FIRST).hexdigest()
    return Manifest(
        version=plan.payload.version,
        config=plan.config,
        python=plan.python,
        runtimes=sorted(plan.registrations),
        files=files,
        runtime_files=plan.registrations,
        folders=folders,
        first_settings=first,
    )


def _kept_settings(before: Manifest | None) -> dict[str, str]:
    """Return the settings of an earlier installation that this one left unchanged."""
    return {path: kind for path, kind in (before.files if before else {}).items() if kind == SETTINGS}


def _sweep(plan: Plan, tree: Tree) -> None:
    names: dict[str, set[str]] = {CODE: {os.path.basename(MANIFEST)}}
    for file in plan.files:
        names.setdefault(os.path.dirname(file.path), set()).add(os.path.basename(file.path))
    for folder, wanted in names.items():
        tree.sweep(folder, wanted)


def named_folder(tree: Tree) -> str:
    """Return the modules' folder that the script on the host names; empty without one."""
    found = _NAMED_FOLDER.search(tree.read(LAUNCH) or b"")
    return found[1].decode() if found else ""


def compile_modules(plan: Plan, tree: Tree, *, warn: Say) -> None:
    """Compile the modules with the interpreter that will run them; without bytecode, hooks only start slower."""
    folder = f"{CODE}/{plan.payload.folder}"
    real = tree.real(folder)
    command = (plan.python, *INTERPRETER_OPTIONS, f"{real}/launch.py", "compile", real, folder)
    problem = failure(*command, seconds=_COMPILE_SECONDS)
    if problem:
        warn(f"no bytecode for {plan.python}; hooks start slower until it is compiled: {problem}")


def enable(plan: Plan, tree: Tree, *, say: Say, warn: Say) -> None:
    """Enable the units; on this running host also start them, resctrl's mount first."""
    there = _units_in(plan)
    for path, target in links(plan).items():
        for missing in tree.missing_folders(path):
            tree.make_folder(missing)
        tree.link(path, target)
    if there and not tree.root and systemd.is_running():
        # A mounted resctrl stays mounted: a new mount would remove every group.
        started = [unit for unit in there if unit != MOUNT or not os.path.ismount(RESCTRL_ROOT)]
        systemd.reload(warn, started)
        say("units enabled and started")


def links(plan: Plan) -> dict[str, str]:
    """Return the symbolic links that enable a plan's units, with their targets."""
    return {enabling_link(f"{UNITS}/{unit}"): f"{UNITS}/{unit}" for unit in _units_in(plan)}


def _units_in(plan: Plan) -> list[str]:
    return [unit for unit in ENABLED if any(file.path == f"{UNITS}/{unit}" for file in plan.files)]


def remove_file(path: str, tree: Tree, *, say: Say) -> None:
    """Remove an installed file, a unit after the link that enables it."""
    link = enabling_link(path)
    if link:
        tree.remove(link)
    if tree.remove(path):
        say(f"removed {path}")


def _retire(plan: Plan, tree: Tree, before: Manifest | None, keep: set[str], *, say: Say, warn: Say) -> None:
    """Remove the files that only the earlier installation had.

    The previous modules stay, because hooks may just have been started from them; the next installation removes them.
    """
    wanted = {file.path for file in plan.files}
    for path, kind in (before.files if before else {}).items():
        if path in wanted or kind == SETTINGS:
            continue
        if kind == UNIT and not tree.root and systemd.is_running():
            systemd.stop([os.path.basename(path)], warn)
        remove_file(path, tree, say=say)
    for name in tree.names(CODE):
        if is_payload_folder(name) and name not in keep:
            tree.remove_all(f"{CODE}/{name}")
