"""The limits of pods at a time of the history, from its rows of limits that began and ended.

No row says that a limit ended while no samples were taken. Its end then is the one in its text, or the pod's.
"""

import re
from datetime import UTC, datetime
from typing import Final

from resctrl_hooks.observe.inventory.limited import PodLimit
from resctrl_hooks.observe.node.history.rows import LIMIT, UNLIMIT, Row
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.tables import Entry, HistoryError

_MOST: Final = 10_000
"""Samples to search before the shown one: a day of the default interval, and some of the minutes before it."""
_TEXT: Final = re.compile(r"(.*?) until (?:the pod's end|([0-9-]+ [0-9:]+) UTC) by (.*?)(?: \((.*)\))?", re.DOTALL)
_FORM: Final = "%Y-%m-%d %H:%M:%S"


def limit_of_text(text: str) -> PodLimit | None:
    """Return a limit from the text of its row (`ActiveLimit.text`); None if it has another form."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    values, end, owner, reason = found.groups()
    try:
        ends = end and datetime.strptime(end, _FORM).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return PodLimit(values=values.split(", "), owner=owner, reason=reason or "", ends=ends or None)


class PastLimits:
    """The limits at the samples of a history. Each sample is searched once, also if one after the other is shown.

    Args:
        store: the history.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._boot = ""
        self._rows: dict[int, list[Row]] = {}
        self._first = self._last = 0  # the ids of the searched samples

    def at(self, entry: Entry, boot: str) -> dict[str, list[PodLimit]]:
        """Return the active limits at a sample of a boot, by the pod's key."""
        try:
            self._search(entry.id, boot)
        except HistoryError:
            return {}  # the samples themselves can be read
        active: dict[tuple[str, str], PodLimit] = {}
        for id_ in sorted(one for one in self._rows if entry.id - _MOST < one <= entry.id):
            for row in self._rows[id_]:
                key, text = str(row.get("key") or ""), str(row.get("event") or "")
                limit = limit_of_text(text)
                name = key, text.partition(" until ")[0]
                if row["kind"] == UNLIMIT:
                    active.pop(name, None)
                elif limit is not None:
                    active[name] = limit
        limits: dict[str, list[PodLimit]] = {}
        for (key, _), limit in active.items():
            if limit.ends is None or limit.ends * 1000 > entry.time:
                limits.setdefault(key, []).append(limit)
        return limits

    def _search(self, id_: int, boot: str) -> None:
        """Read the rows of the samples up to this one that were not searched yet."""
        if boot != self._boot or not self._first - _MOST < id_ <= self._last + _MOST:
            self._boot, self._rows, self._first, self._last = boot, {}, id_ + 1, id_
        if id_ > self._last:
            self._read(self._last, id_)
            self._last = id_
        before = max(id_ - _MOST, 0)
        if before + 1 < self._first:
            self._read(before, self._first - 1)
            self._first = before + 1

    def _read(self, after: int, until: int) -> None:
        for entry, events in self._store.events(after, _MOST, self._boot, until):
            rows = [row for row in events if row["kind"] in (LIMIT, UNLIMIT)]
            if rows:
                self._rows[entry.id] = rows
