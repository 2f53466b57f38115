"""Holders of RMIDs and waiting pods on disk: in each key's record, and holders also in an index.

The index is a folder of empty files named by priority, time and key, so that a hook on a full node finds candidates in
one read. An entry is created before its key has an RMID and removed after it has lost it, so it may list too many keys;
reconcile adds missing ones.
"""

import posix
import time

from ..ledger import RMIDS, WAITING
from .decision import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..records import PodRecord
    from ..resctrl.locked_key import LockedKey

_ZERO = 1_000_000  # offset of a priority in a file's name, which has no sign
_DIGITS = 7
_MICROSECONDS = 1_000_000
_CHANCE_BYTES = 4
_CHANCES = 1 << 32


def now() -> float:
    """Return seconds of the claims' clock, which starts at boot."""
    return int(time.monotonic() * _MICROSECONDS) / _MICROSECONDS  # as the index stores it


def chance() -> float:
    """Return a random number, from 0 to less than 1."""
    return int.from_bytes(posix.urandom(_CHANCE_BYTES), "big") / _CHANCES


def claim_of(key: str, record: "PodRecord | None") -> "Claim | None":
    """Return a key's claim from its record; None without one."""
    claim = (record or {}).get("claim")
    return Claim(key, claim["priority"], claim["since"]) if claim else None


def rank_of(record: "PodRecord") -> "tuple[int, int]":
    """Return the priority of a key, and the version of the rules that gave it; zeros without a claim."""
    claim = record.get("claim")
    return (claim["priority"], claim["rules"]) if claim else (0, 0)


def holders(ledger: "Ledger") -> "list[Claim]":
    """Return the holders of RMIDs from the index."""
    found = []
    for name in ledger.marked(RMIDS):
        rank, _, rest = name.partition(".")
        since, _, key = rest.partition(".")
        if rank.isdecimal() and since.isdecimal() and key:
            found.append(Claim(key, int(rank) - _ZERO, int(since) / _MICROSECONDS))
    return found


def begin_to_hold(
    locked: "LockedKey", ledger: "Ledger", priority: int, rules: int, since: "float | None" = None
) -> None:
    """Add a key to the holders of RMIDs, by default from now on; the caller saves its record."""
    end_holding(locked, ledger)
    claim = Claim(locked.key, priority, now() if since is None else since)
    entry = entry_of(claim)
    ledger.mark(RMIDS, entry)
    locked.record["claim"] = {"priority": priority, "since": claim.since, "rules": rules, "entry": entry}


def entry_of(claim: Claim) -> str:
    """Return the name of a claim's file in the index."""
    return f"{claim.priority + _ZERO:0{_DIGITS}d}.{round(claim.since * _MICROSECONDS)}.{claim.key}"


def begin_to_wait(locked: "LockedKey", ledger: "Ledger", rank: "tuple[int, int] | None" = None) -> None:
    """Record that a key waits for an RMID, from now on or from its first wait; saves its record.

    ``rank`` is its priority and the version of the rules; by default those of its claim.
    """
    before = locked.record.get("claim")
    since = before["since"] if before and not before["entry"] else now()
    priority, rules = rank or rank_of(locked.record)
    end_holding(locked, ledger)
    locked.record["claim"] = {"priority": priority, "since": since, "rules": rules, "entry": ""}
    locked.save()
    ledger.mark(WAITING, locked.key)


def end_holding(locked: "LockedKey", ledger: "Ledger") -> None:
    """Remove a key from the index."""
    claim = locked.record.get("claim")
    if claim and claim["entry"]:
        ledger.unmark(RMIDS, claim["entry"])
        claim["entry"] = ""
