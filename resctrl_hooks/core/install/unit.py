"""A systemd unit, as each house lists its own."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from resctrl_hooks.core.node.settings import Settings


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
        status: reads the resident service's status from the state directory; None if it has not run.
        serves: the service's name in messages, if it serves the containers of runtimes that call no hooks.
        check: the check of `doctor` that examines such a service.
    """

    name: str
    text: str
    rank: int
    target: str = ""
    resident: bool = False
    needed: Callable[[Settings], bool] | None = None
    replaces: str = ""
    by_hand: str = ""
    status: Callable[[str], Mapping[str, Any] | None] | None = None
    serves: str = ""
    check: str = ""
