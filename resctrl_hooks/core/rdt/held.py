"""Values of RDT classes that another house's process, such as the bandwidth guard, keeps changed for a limited time."""

from collections.abc import Mapping
from typing import NamedTuple

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.parts import load, parts


class Held(NamedTuple):
    """Changed values.

    Args:
        owner: the process in words.
        declared: the values before its changes, of MB by class and L3 domain.
    """

    owner: str = ""
    declared: Mapping[str, Mapping[int, int]] = {}


def held_values(context: Context) -> Held:
    """Return the values that a process keeps changed now. Only one process does that at a time."""
    found: list[Held] = [load(part.held)(context) for part in parts() if part.held]
    return next((held for held in found if held.declared), Held())
