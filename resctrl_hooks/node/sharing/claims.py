"""Who holds an RMID and who waits for one, on disk: in the key's record, and holders in an index beside.

The index is a folder of empty files named by priority, time and key, so that a hook on a full node finds who yields by
one look, not by reading hundreds of records. An entry is made before its key has an RMID and removed after it has lost
it, so the index may name too many, of whom the record then tells; those it lacks, reconcile enters.
"""

import posix
import time

from ..ledger import RMIDS
from .decision import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..records import PodRecord
    from ..resctrl.locked_key import LockedKey

_ZERO = 1_000_000  # of a priority in a file's name, which has no sign: they range from minus this to this
_DIGITS = 7
_MICROSECONDS = 1_000_000
_CHANCE_BYTES = 4
_CHANCES = 1 << 32


def now() -> float:
    """Return seconds of the clock that claims are told in; it begins with the boot that records belong to."""
    return int(time.monotonic() * _MICROSECONDS) / _MICROSECONDS  # as the index can say it


def chance() -> float:
    """Return a random number, from 0 to less than 1."""
    return int.from_bytes(posix.urandom(_CHANCE_BYTES), "big") / _CHANCES


def claim_of(key: str, record: "PodRecord | None") -> "Claim | None":
    """What a key's record says of its claim; None for one that has none."""
    claim = (record or {}).get("claim")
    return Claim(key, claim["priority"], claim["since"]) if claim else None


def rules_of(record: "PodRecord") -> int:
    """Return the version of the rules that gave a key its priority; 0 for one that has no claim."""
    claim = record.get("claim")
    return claim["rules"] if claim else 0


def holders(ledger: "Ledger") -> "list[Claim]":
    """Return those who hold an RMID, as the index has it."""
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
    """Enter a key among those who hold an RMID, from now on unless said; its record is left for the caller to save."""
    end_holding(locked, ledger)
    claim = Claim(locked.key, priority, now() if since is None else since)
    entry = entry_of(claim)
    ledger.mark(RMIDS, entry)
    locked.record["claim"] = {"priority": priority, "since": claim.since, "rules": rules, "entry": entry}


def entry_of(claim: Claim) -> str:
    """Return the name of a claim's file in the index."""
    return f"{claim.priority + _ZERO:0{_DIGITS}d}.{round(claim.since * _MICROSECONDS)}.{claim.key}"


def begin_to_wait(locked: "LockedKey", ledger: "Ledger", priority: int, rules: int) -> None:
    """Notes that a key waits for an RMID from now on, or from when it began to; saves its record."""
    before = locked.record.get("claim")
    waited = before["since"] if before and not before["entry"] else None
    end_holding(locked, ledger)
    locked.record["claim"] = {
        "priority": priority,
        "since": now() if waited is None else waited,
        "rules": rules,
        "entry": "",
    }
    locked.save()
    ledger.mark("waiting", locked.key)


def end_holding(locked: "LockedKey", ledger: "Ledger") -> None:
    """Take a key out of the index."""
    claim = locked.record.get("claim")
    if claim and claim["entry"]:
        ledger.unmark(RMIDS, claim["entry"])
        claim["entry"] = ""
