"""Check of the owners of RMIDs and CLOSIDs."""

from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.inventory.creators import greediest

from .finding import Check, Finding, ok, some, warning
from .host import Host

_MANY: Final = 0.25
"""The part of all RMIDs from which one program's groups are reported although no pod waits."""


def owners(host: Host) -> Iterator[Finding]:
    """Print the owners, and name the program that holds the most RMIDs for other groups than those of pods."""
    inventory = host.inventory
    if inventory is None or inventory.account is None or not inventory.account.rmids:
        return
    found = inventory.account
    yield ok(found.as_line())
    greedy = greediest(found)
    if greedy is None:
        return
    creator, groups = greedy
    total = sum(found.rmids.values())
    text = f"{creator.name} holds {len(groups)} of {total} RMIDs: {some([one.name for one in groups])}"
    yield warning(text, creator.remedy) if inventory.waiting or len(groups) >= _MANY * total else ok(text)


CHECKS: Final = {"RMID owners": Check(owners)}
