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


def needed(settings: Settings, chosen: Collection[str] = (), root: str | None = None) -> list[str]:
    """Return the houses whose code a node with these settings needs, and the ``chosen`` ones.

    ``root``: also the houses of features whose changes the host below it still has; None for a host that is not here.
    """
    left = set() if root is None else _left(root + settings.state_dir)
    return [part.name for part in parts() if part.rooms and (part.name in chosen or _is_needed(part, settings, left))]


def missing(record: Manifest, settings: Settings) -> list[str]:
    """Return the houses that settings need and an installation lacks."""
    return [] if record.houses is None else [name for name in needed(settings) if name not in record.houses]


def _is_needed(part: Part, settings: Settings, left: Collection[str]) -> bool:
    units = load(part.units) if part.units else ()
    features = features_of(part)
    return any(unit.needed is not None and unit.needed(settings) for unit in units) or any(
        name in left or is_in_use(name, settings) for name in features
    )


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
