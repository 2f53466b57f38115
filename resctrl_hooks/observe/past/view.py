"""The history as commands open it: the sample at a time, steps from it, gaps, and ranges of rows."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.inventory.limited import PodLimit
from resctrl_hooks.observe.node.history.rows import Row
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.section import section
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.tables import Entry, HistoryError

from .limits import PastLimits

_GAP = 2.5  # intervals without a sample that are a gap
_MILLI = 1000


class Found(NamedTuple):
    """A stored sample with the one before it, which is None at the beginning and after a gap of ``gap`` seconds."""

    entry: Entry
    sample: Sample
    before: Sample | None
    gap: float


class Past:
    """The history of this node, read-only.

    Raises:
        HistoryError: there is none, or it cannot be read.
    """

    def __init__(self, context: Context) -> None:
        settings = section(context.settings)
        self.path: str = settings["file"]
        try:
            os.stat(self.path)
        except PermissionError:
            raise HistoryError(f"cannot read {self.path}: permission denied", hint="run it as root") from None
        except OSError:
            hint = "`resctrl-hook install --history` enables it"
            if settings["enabled"]:
                hint = "resctrl-hooks-guard.service writes it; check that it runs"
            raise HistoryError(f"this node has no history ({self.path})", hint=hint) from None
        self._store = Store(self.path)
        self._limits: PastLimits | None = None  # with a file of its own: its unreadable samples were not asked for

    def limits_at(self, found: Found) -> dict[str, list[PodLimit]]:
        """Return the active limits at a sample, by the pod's key."""
        self._limits = self._limits or PastLimits(Store(self.path))
        return self._limits.at(found.entry, found.sample.boot)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        return self._store.size()

    def ends(self) -> tuple[float, float]:
        """Return the times of the first and the last sample, in seconds since 1970.

        Raises:
            HistoryError: there is no sample.
        """
        found = self._store.ends()
        if found is None:
            raise HistoryError(f"{self.path} has no sample yet")
        return found[0] / _MILLI, found[1] / _MILLI

    def at(self, when: float) -> Found:
        """Return the sample of a time in seconds since 1970: the last one before it.

        Raises:
            HistoryError: there is none, or the time is in a gap, which the message names.
        """
        first, _ = self.ends()
        found = self._found(self._store.at(int(when * _MILLI)), -1)
        if found is None:
            raise HistoryError(self.skipped() or f"no sample at {clock(when)}; the history begins at {clock(first)}")
        late = when - found.entry.time / _MILLI
        if late > _GAP * found.sample.interval:
            following = self._store.following(int(when * _MILLI))
            end = f"and the next one at {clock(following.time / _MILLI)}" if following else "and there is no later one"
            raise HistoryError(
                f"no sample at {clock(when)}: the last one before it is at {clock(found.entry.time / _MILLI)}, {end}"
            )
        return found

    def step(self, entry: Entry, steps: int) -> Found | None:
        """Return the sample so many steps later, or earlier for a negative number; None at the end."""
        return self._found(self._store.near(entry, steps), steps)

    def near(self, when: float) -> Found | None:
        """Return the sample at or before a time, also across a gap; the first one if there is none before."""
        place = int(when * _MILLI)
        return self._found(self._store.at(place), -1) or self._found(self._store.following(place), 1)

    def _found(self, entry: Entry | None, direction: int) -> Found | None:
        """Return the sample at a place, or else the nearest one in a direction that can be decoded."""
        place, sample = self._readable(entry, direction)
        if place is None or sample is None:
            return None
        _, before = self._readable(self._store.near(place, -1), -1)
        seconds = sample.since(before) if before else 0.0
        if before is not None and not 0 < seconds <= _GAP * max(sample.interval, before.interval):
            return Found(place, sample, None, max(seconds, 0.0))
        return Found(place, sample, before, 0.0)

    def _readable(self, entry: Entry | None, direction: int) -> tuple[Entry | None, Sample | None]:
        while entry is not None:
            sample = self._store.read(entry)
            if sample is not None:
                return entry, sample
            entry = self._store.near(entry, 1 if direction > 0 else -1)
        return None, None

    def samples(self, since: float, until: float) -> Iterator[Sample]:
        """Yield the samples from one time to another, without those that cannot be decoded: `skipped` has them."""
        return self._store.between(int(since * _MILLI), int(until * _MILLI))

    def skipped(self) -> str:
        """Return a line about the samples that could not be decoded so far; empty if there are none."""
        found = [*self._store.skipped.values()]
        return f"samples left out that cannot be decoded: {len(found)}; the first: {found[0]}" if found else ""

    def rows(self, since: float, until: float) -> Iterator[Row]:
        """Yield the rows of all samples from one time to another.

        Raises:
            HistoryError: there is none; the message names the ends of the history.
        """
        empty = True
        for sample in self.samples(since, until):
            for row in sample.rows:
                empty = False
                yield row
        if empty:
            if self.skipped():
                raise HistoryError(self.skipped())
            first, last = self.ends()
            raise HistoryError(
                f"no samples from {clock(since)} to {clock(until)}; the history is from {clock(first)} to {clock(last)}"
            )
