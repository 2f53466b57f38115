"""Removal of an installation: first the registrations that make runtimes call the hook, last its code."""

import hashlib
import os
from collections.abc import Callable

from resctrl_hooks.node.settings import COMPILED_NAME, LAST_VALID_NAME

from . import containerd, systemd
from .directories import RUNTIMES, directories
from .installation import Say, remove_file
from .manifest import Manifest, read_manifest
from .paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, MANIFEST, UNITS, VENDOR_HOOKS
from .payload import is_payload_folder
from .plan import DROP_IN, HOOK, SETTINGS, UNIT
from .tree import Tree
from .units import COMPILE, EXEC, GUARD, NRI, RECONCILE, TIMER, WAKE

_OWN_UNITS = (GUARD, NRI, EXEC, TIMER, WAKE, RECONCILE, COMPILE)
"""All but resctrl's mount, which contains groups, and whose name systemd prescribes."""


def registered(tree: Tree) -> list[str]:
    """Return the runtimes that have a registration."""
    record = read_manifest(tree)
    return record.runtimes if record else []


def unregister(tree: Tree, runtimes: tuple[str, ...], *, say: Say, warn: Say) -> None:
    """Remove the registrations for some runtimes and leave everything else.

    Raises:
        OSError: from the kernel; a repeated call completes the removal.
    """
    record = read_manifest(tree)
    if record is None:
        return
    still = {path for name, paths in record.runtime_files.items() if name not in runtimes for path in paths}
    gone = [path for name in runtimes for path in record.runtime_files.get(name, []) if path not in still]
    if f"{UNITS}/{NRI}" in gone and not tree.root and systemd.is_running():
        systemd.stop((NRI,), warn)
    for path in sorted(gone, key=lambda path: record.files.get(path) != HOOK):
        remove_file(path, tree, say=say)
    for name in runtimes:
        shared = [path for path in record.runtime_files.get(name, []) if path in still]
        if name not in record.runtimes:
            say(f"the hook is not registered with {name}")
        elif shared:
            say(f"{name} still calls the hook: it reads {shared[0]}, which another runtime uses")
    record.runtimes = [name for name in record.runtimes if name not in runtimes]
    record.runtime_files = {name: record.runtime_files[name] for name in record.runtimes}
    watched = _hook_folders(record)
    record.folders = [folder for folder in record.folders if folder not in watched]
    record.files = {path: kind for path, kind in record.files.items() if path not in gone}
    record.save(tree)


def is_installed(tree: Tree) -> bool:
    """Return whether any part of an installation exists."""
    return read_manifest(tree) is not None or bool(_without_manifest(tree).files) or tree.exists(CODE)


def remove_hooks(tree: Tree, *, say: Say) -> None:
    """Remove the registrations for all runtimes: the first step of `uninstall`.

    Raises:
        OSError: from the kernel; a repeated call completes the removal.
    """
    record = read_manifest(tree) or _without_manifest(tree)
    _remove_files(record, HOOK, tree, say=say)


def _remove_files(record: Manifest, kind: str, tree: Tree, *, say: Say) -> None:
    for path in record.paths(kind):
        remove_file(path, tree, say=say)


def uninstall(tree: Tree, *, say: Say, warn: Say, release: Callable[[], None] = lambda: None) -> None:
    """Remove everything that `install` put on the host below ``tree``, except edited settings.

    ``release`` ends recorded containers. It is called after hooks and units have stopped, while code and settings still
    exist, so that an interrupted removal can be repeated.

    The hooks' folders stay, even if empty: a running CRI-O does not watch a folder that is created again.

    Containers that were created with the hook can still be removed: their command turns missing files into success.

    Raises:
        OSError: from the kernel; a repeated call completes the removal.
    """
    record = read_manifest(tree) or _without_manifest(tree)
    live = not tree.root and systemd.is_running()
    remove_hooks(tree, say=say)
    has_units = bool(record.paths(UNIT))
    if live and has_units:
        systemd.stop(_OWN_UNITS, warn)
    release()
    _remove_files(record, UNIT, tree, say=say)
    if live and has_units:
        systemd.reload(warn)
    _remove_files(record, DROP_IN, tree, say=say)
    _sweep(record, tree)
    _remove_code(tree, say=say)
    _remove_settings(record, tree, say=say)
    tree.remove(MANIFEST)
    for folder in sorted({*record.folders, CODE} - _hook_folders(record), key=len, reverse=True):
        tree.remove_folder(folder)


def _hook_folders(record: Manifest) -> set[str]:
    return {os.path.dirname(path) for path in record.paths(HOOK)}


def _without_manifest(tree: Tree) -> Manifest:
    """Return the files that an installation without a record may have left."""
    folders = {VENDOR_HOOKS, ADMIN_HOOKS}
    for runtime in RUNTIMES.values():
        folders |= set(directories(runtime, tree.root))
    files = {f"{folder}/{HOOK_NAME}": HOOK for folder in sorted(folders)}
    files |= {f"{UNITS}/{unit}": UNIT for unit in _OWN_UNITS}  # without a record, the mount unit may be foreign
    files |= {runtime.drop_in: DROP_IN for runtime in RUNTIMES.values() if runtime.drop_in}
    files[containerd.DROP_IN] = DROP_IN
    return Manifest(files={path: kind for path, kind in files.items() if tree.exists(path)})


def _sweep(record: Manifest, tree: Tree) -> None:
    for path in [*record.files, LAUNCH, MANIFEST]:
        tree.sweep(os.path.dirname(path), {os.path.basename(path)})


def _remove_code(tree: Tree, *, say: Say) -> None:
    remove_file(LAUNCH, tree, say=say)
    for name in tree.names(CODE):
        if is_payload_folder(name):
            tree.remove_all(f"{CODE}/{name}")
            say(f"removed {CODE}/{name}/")


def _remove_settings(record: Manifest, tree: Tree, *, say: Say) -> None:
    config = record.config
    if not config:
        return
    text = tree.read(config)
    ours = record.paths(SETTINGS)
    if text is None or hashlib.sha256(text).hexdigest() == record.first_settings:
        folder = os.path.dirname(config)
        ours += [f"{folder}/{name}" for name in (COMPILED_NAME, LAST_VALID_NAME) if config in ours]
        for path in ours:
            remove_file(path, tree, say=say)
    else:
        say(f"{config} and its compiled file are kept, because it was edited")
