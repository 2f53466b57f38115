"""The houses whose code a node needs. Every node has core's."""

import os
from collections.abc import Collection
from typing import Final

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.registry import is_in_use
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.parts import Part, load, parts

from .manifest import Manifest
from .payload import features_of

WITHOUT_CODE: Final = "the settings need modules that are not installed: {}"


def needed(
    settings: Settings, chosen: Collection[str] = (), root: str | None = None, edited: Settings | None = None
) -> list[str]:
    """Return the houses whose code a node with these settings needs, and the ``chosen`` ones.

    ``root``: also the houses of features whose changes the host below it still has; None for a host that is not here.
    ``edited``: also those of the features of these settings, which are not active yet, so that no container starts
    without the code between their application and the next installation.
    """
    left = set() if root is None else _left(root + settings.state_dir)
    left |= {name for name in FEATURES if edited and is_in_use(name, edited)}
    return [
        part.name
        for part in parts()
        if part.rooms and (part.name in chosen or _users(part, settings) or not left.isdisjoint(features_of(part)))
    ]


def missing(record: Manifest, settings: Settings) -> list[str]:
    """Return the features and units that settings need and whose code an installation lacks."""
    absent = [part for part in parts() if part.rooms and record.houses is not None and part.name not in record.houses]
    return [user for part in absent for user in _users(part, settings)]


def _users(part: Part, settings: Settings) -> list[str]:
    """Return the features and units of a house that settings need."""
    units = load(part.units) if part.units else ()
    return [
        *(name for name in features_of(part) if is_in_use(name, settings)),
        *(unit.name for unit in units if unit.needed is not None and unit.needed(settings)),
    ]


def _left(state: str) -> set[str]:
    """Return the features that have changed the node or a recorded container; all if records are unreadable."""
    found = {name for name, row in FEATURES.items() if any(os.path.exists(f"{state}/{leaf}") for leaf in row.leaves)}
    ledger = Ledger(state)
    try:
        keys = ledger.keys()
        records = [ledger.read_member(key, member) for key in keys for member in ledger.members(key)]
    except LedgerError:
        return set(FEATURES)
    return found | {step["feature"] for record in records if record for step in record.get("steps", [])}
