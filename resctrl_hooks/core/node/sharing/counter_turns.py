"""Turns with assignable bandwidth counters: the order of equal pods, and the start of each turn.

The file ``counter-turns`` has the boot, the time and duration of the last round, and each key's state. The lock of
`counter_share` protects it.
"""

from ..host.files import format_json, write_file
from ..host.state_file import read_state
from ..resctrl.counter_share import OURS
from ..shapes import Annotated, Flag, NotRequired, Number, Text, TypedDict, exactly
from .claims import chance, now
from .decision import gap, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..resctrl.counter_share import Holder
    from ..resctrl.monitor import Monitor
    from ..settings import Settings

_FILE = "counter-turns"
INTERVAL = 90.0  # three passes of the timer: docs/dev/design.md, Rounds
_CONTINUES, _WAITS, _YIELDS = range(3)


class TurnsRecord(TypedDict):
    """When the last round was; by key whether it is counted, and since when."""

    boot: Text
    last: Number
    gap: NotRequired[Number]
    since: dict[Text, Annotated["list[Any]", exactly(Flag, Number)]]


def times_of(settings: "Settings") -> "tuple[float, float]":
    """Return the interval of rounds, and the minimum duration of a turn, in seconds."""
    share = settings.monitoring.get("share") or {}
    interval = float(share.get("interval") or INTERVAL)
    at_least = share.get("atLeast")
    return interval, interval / 3 if at_least is None else float(at_least)


def set_turns(monitor: "Monitor", settings: "Settings", holders: "Iterable[Holder]", event: str) -> None:
    """If a round is due, set the place of each of our holders: see `counter_share.share`.

    Turns that are too short continue, then waiting pods follow by age and chance, then those with the shortest turns.
    """
    ours = [holder for holder in holders if holder.kind == OURS]
    record = _load(monitor)
    time, since = now(), record["since"]
    counted: "dict[str, bool]" = {}
    for holder in ours:
        counted[holder.key] = counted.get(holder.key, True) and all(holder.states.get(event, {}).values())
    record["since"] = since = {
        key: since[key] if since.get(key, [None])[0] == has else [has, time] for key, has in counted.items()
    }
    interval, at_least = times_of(settings)
    if time - record["last"] >= record.get("gap", interval) and not all(counted.values()):
        record["last"], record["gap"] = time, gap(interval, chance())
        shuffled = spread(interval, sum(counted.values()), len(counted) - sum(counted.values()))
        delays = {key: shuffled * chance() for key in counted}
        for holder in ours:
            has, began = since[holder.key]
            if not has:
                holder.turn = (_WAITS, began + delays[holder.key])
            else:
                holder.turn = (_CONTINUES, began) if time - began < at_least else (_YIELDS, -began)
    write_file(f"{monitor.ledger.folder}/{_FILE}", format_json(record))


def _load(monitor: "Monitor") -> "TurnsRecord":
    record = read_state(f"{monitor.ledger.folder}/{_FILE}", TurnsRecord)
    if record and record["boot"] == monitor.boot:
        return record
    return {"boot": monitor.boot, "last": -1e9, "since": {}}
