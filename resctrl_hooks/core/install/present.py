"""The present state of an installation on a host: its paths and their roles.

The manifest lists the files, whichever version wrote it. Links that enable units, and the modules' folders, are found
by their names.
"""

import os
import re
from typing import Final

from .directories import RUNTIMES, directories
from .manifest import Manifest, read_manifest
from .paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, UNITS, VENDOR_HOOKS
from .payload import is_payload_folder
from .roles import DROP_IN, HOOK, LAUNCHER, LINK, MODULE, ROLES, UNIT
from .tree import Tree
from .unit_files import ALL
from .units import MOUNT

_NAMED_FOLDER: Final = re.compile(rb"/(node-[0-9a-f]+)\"")


def present(tree: Tree, record: Manifest | None = None) -> dict[str, str]:
    """Return the installed paths and their roles: files, links, and folders of modules.

    Raises:
        OSError, RuntimeConfigError: without a manifest, a runtime's configuration is unreadable.
    """
    listed = (record or record_of(tree)).files
    # A role that only a later version knows is removed like the runtimes' configuration.
    files = {path: role if role in ROLES else DROP_IN for path, role in listed.items()}
    units = {os.path.basename(path) for path, role in files.items() if role == UNIT}
    modules = {f"{CODE}/{name}": MODULE for name in tree.names(CODE) if is_payload_folder(name)}
    return files | dict.fromkeys(_enabling(tree, units), LINK) | modules


def record_of(tree: Tree) -> Manifest:
    """Return the manifest, or without one the files that an installation may have left.

    Raises:
        OSError, RuntimeConfigError: as above.
    """
    record = read_manifest(tree)
    if record is not None:
        return record
    folders = {VENDOR_HOOKS, ADMIN_HOOKS}
    for runtime in RUNTIMES.values():
        folders |= set(directories(runtime, tree.root))
    files = {f"{folder}/{HOOK_NAME}": HOOK for folder in sorted(folders)}
    files |= {f"{UNITS}/{unit}": UNIT for unit in ALL if unit != MOUNT}  # without a record, it may be foreign
    drop_ins = (path for runtime in RUNTIMES.values() for path in (runtime.drop_in, runtime.service_drop_in) if path)
    files |= {**dict.fromkeys(drop_ins, DROP_IN), LAUNCH: LAUNCHER}
    return Manifest(files={path: role for path, role in files.items() if tree.exists(path)})


def is_installed(tree: Tree) -> bool:
    """Return whether any part of an installation exists."""
    return read_manifest(tree) is not None or bool(record_of(tree).files) or tree.exists(CODE)


def named_folder(tree: Tree) -> str:
    """Return the modules' folder that the script on the host names; empty without one."""
    found = _NAMED_FOLDER.search(tree.read(LAUNCH) or b"")
    return found[1].decode() if found else ""


def _enabling(tree: Tree, units: set[str]) -> list[str]:
    """Return the links that enable units, as `systemctl disable` finds them, and dangling ones of other versions."""
    found = []
    for folder in (name for name in tree.names(UNITS) if name.endswith((".wants", ".requires"))):
        for name in tree.names(f"{UNITS}/{folder}"):
            left = name.startswith("resctrl-hooks-") and not tree.exists(f"{UNITS}/{name}")
            if name in units or left:
                found.append(f"{UNITS}/{folder}/{name}")
    return found
