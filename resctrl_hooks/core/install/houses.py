"""The code that a node needs beside that which all nodes have: of houses, of features, of node-feature-discovery."""

import os
from collections.abc import Collection
from typing import Final

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.parts import PARTS
from resctrl_hooks.core.node.registry import is_in_use
from resctrl_hooks.core.node.settings import Settings

from .manifest import Manifest
from .payload import NFD, features_in, optional, path_of, room_of
from .unit_files import BY_HOUSE

WITHOUT_CODE: Final = "the settings need modules that are not installed: {}"


def needed(
    settings: Settings, chosen: Collection[str] = (), root: str | None = None, edited: Settings | None = None
) -> list[str]:
    """Return the names of the `optional` rooms that a node with these settings needs, and the ``chosen`` ones.

    ``root``: also those of features and programs whose changes the host below it still has; None for a host that is not
    here. ``edited``: also those of the features of these settings, which are not active yet, so that no container
    starts without the code between their application and the next installation.
    """
    left = set() if root is None else _left(root + settings.state_dir)
    left |= {room_of(row) for name, row in FEATURES.items() if edited and is_in_use(name, edited)}
    if root is not None and os.path.lexists(root + settings.node_features_path):
        chosen = (*chosen, NFD)
    return [
        name
        for name, rooms in optional().items()
        if name in chosen or _users(name, settings) or any(one.startswith(rooms) for one in left)
    ]


def missing(record: Manifest, settings: Settings) -> list[str]:
    """Return the features and units that settings need and whose code an installation lacks."""
    absent = [name for name in optional() if record.houses is not None and name not in record.houses]
    return [user for name in absent for user in _users(name, settings)]


def _users(name: str, settings: Settings) -> list[str]:
    """Return the features and units with code in optional rooms that settings need."""
    return [
        *(feature for feature in features_in(optional()[name]) if is_in_use(feature, settings)),
        *(unit.name for unit in BY_HOUSE.get(name, ()) if unit.needed is not None and unit.needed(settings)),
    ]


def _left(state: str) -> set[str]:
    """Return the modules of changes of the node or of recorded containers; all features if records are unreadable."""
    values = [value for part in PARTS for value in part.get("values", {}).values()]
    left = {path_of(function) for _, leaf, function in values if os.path.lexists(f"{state}/{leaf}")}
    found = {name for name, row in FEATURES.items() if any(os.path.exists(f"{state}/{leaf}") for leaf in row.leaves)}
    ledger = Ledger(state)
    try:
        keys = ledger.keys()
        records = [ledger.read_member(key, member) for key in keys for member in ledger.members(key)]
    except LedgerError:
        return left | {room_of(row) for row in FEATURES.values()}
    found |= {step["feature"] for record in records if record for step in record.get("steps", [])}
    return left | {room_of(FEATURES[name]) for name in found & FEATURES.keys()}
