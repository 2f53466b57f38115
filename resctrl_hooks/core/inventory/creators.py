"""The probable creator of a foreign group, by the names that known programs give to their groups."""

import re
from typing import Final, NamedTuple

from resctrl_hooks.core.node.names import pod_uid_validator

from .account import Account, Owner


class Creator(NamedTuple):
    """A program that creates groups, and how to get its RMIDs back."""

    name: str
    remedy: str


UNKNOWN: Final = Creator("an unknown program", "find its tasks' program, stop it, then remove the groups with rmdir")
RUNTIME: Final = Creator(
    "the container runtime",
    "remove `linux.intelRdt.enableMonitoring` from these containers, or let them share an RDT class",
)
_BY_UID: Final = Creator(
    "an agent that names groups by pod UID, such as the NRI plugin resctrl-mon",
    "run only one such agent on a node; after a loss of the state directory, run `resctrl-hook reconcile --claim`",
)
_PQOS: Final = Creator("pqos", "stop `pqos` with its option `--mon-reset`, or remove the groups with rmdir")
_NAMES: Final = ((re.compile(r"pqos-\d+-\d+"), _PQOS),)
"""Source: intel-cmt-cat, lib/resctrl_monitoring.c, resctrl_mon_new_group."""


def creator_of(group: str, *, by_runtime: bool = False) -> Creator:
    """Return the probable creator of a group by its name."""
    if by_runtime:
        return RUNTIME
    if pod_uid_validator(group):
        return _BY_UID
    return next((creator for pattern, creator in _NAMES if pattern.fullmatch(group)), UNKNOWN)


def greediest(account: Account) -> tuple[Creator, list[Owner]] | None:
    """Return the program that holds the most RMIDs for other groups than those of pods, and its groups and classes."""
    held: dict[Creator, list[Owner]] = {}
    for one in account.of("foreign", "runtimes"):
        held.setdefault(creator_of(one.group, by_runtime=one.owner == "runtimes"), []).append(one)
    return max(held.items(), key=lambda item: len(item[1]), default=None)
