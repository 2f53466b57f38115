"""A systemd unit, as each house lists its own."""

from collections.abc import Callable
from typing import NamedTuple

from resctrl_hooks.node.settings import Settings


class Unit(NamedTuple):
    """A systemd unit.

    Args:
        name: the name of its file.
        text: its text, with the fields of `units`.
        rank: its place among the units of all houses.
        target: the target that starts it; empty if another unit starts it.
        resident: whether it is a service that only some nodes need: the nodes whose installation chooses its house, and
            those with such settings.
        needed: whether settings need the resident service; None if they never do.
        replaces: the resident service whose work it does too.
        by_hand: the operator's alternative without systemd.
    """

    name: str
    text: str
    rank: int
    target: str = ""
    resident: bool = False
    needed: Callable[[Settings], bool] | None = None
    replaces: str = ""
    by_hand: str = ""
