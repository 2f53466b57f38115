"""The truth about each key's counts: what its groups counted, as limits for the totals that programs report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from accounting.kernel import DOMAINS, Meter

Counts = tuple[int, ...]
NOTHING: Counts = (0,) * DOMAINS


@dataclass
class Known:
    """The knowledge of one group as of the last quiet read.

    Attributes:
        least: what the total has of it at least.
        most: what the total has of it at most.
        seen: whether it was one of the key's groups at that read.
        recorded: whether the key's record had it then.
        whole: whether all that it has counted is the key's, so that the total has its first byte.
    """

    least: Counts = NOTHING
    most: Counts = NOTHING
    seen: bool = False
    recorded: bool = False
    whole: bool = True


@dataclass
class Truth:
    """One key's.

    Attributes:
        total: of the last quiet read.
        highest: of the last read.
        reported: what is missing in the total, and was reported as ended unseen.
        groups: all that the key ever had.
        away: by group, the counts with which it was last taken from the key.
        unplugged: the domains that went offline since the last quiet read. Their unread counts are lost.
        unread: these counts by domain, until it is read again: a program may have read them for its own use.
    """

    total: Counts = NOTHING
    highest: Counts = NOTHING
    reported: Counts = NOTHING
    groups: dict[Meter, Known] = field(default_factory=dict)
    away: dict[Meter, Counts] = field(default_factory=dict)
    unplugged: set[int] = field(default_factory=set)
    unread: list[int] = field(default_factory=lambda: [0] * DOMAINS)

    def note(self, present: Iterable[Meter], others: set[Meter]) -> None:
        """Learn the key's groups after any step of the machine; ``others`` were another key's before it."""
        here = set(present)
        for meter in here:
            known = self.groups.setdefault(meter, Known())
            if meter in others:  # another program has given it this key's name
                known.whole = known.recorded = False
            self.away.pop(meter, None)
        for meter in self.groups.keys() - here:
            self.away.setdefault(meter, tuple(meter.counts))

    def unplug(self, domain: int) -> None:
        """A domain goes offline: what its counters have counted unread is lost."""
        self.unplugged.add(domain)
        for meter, known in self.groups.items():
            known.whole = False
            self.unread[domain] += self._most(meter)[domain] - known.most[domain]

    def allow(self, meter: Meter) -> None:
        """Some readers may count this group, which is not the key's, until now."""
        self.groups.setdefault(meter, Known())
        self.away[meter] = tuple(meter.counts)

    def check(self, found: Sequence[int]) -> None:
        """Check the totals of any read."""
        for domain in range(DOMAINS):
            most = sum(self._most(meter)[domain] for meter in self.groups)
            assert found[domain] >= self.highest[domain], f"a total fell from {self.highest} to {found}"
            assert found[domain] <= most, f"domain {domain}: a total is {found[domain]}, its groups counted {most}"
        self.highest = tuple(found)

    def _most(self, meter: Meter) -> Counts:
        return self.away.get(meter) or tuple(meter.counts)

    def check_quiet(
        self, found: Sequence[int], sure: set[Meter], *, reported: bool, unclear: bool, offline: set[int]
    ) -> bool:
        """Check the totals of a read of everything without trouble; return whether counts ended unseen.

        Args:
            found: the totals.
            sure: the key's recorded groups; those of other programs count from zero or from their first read.
            reported: whether a group's end was reported since the last such read. Its counts may be too low then.
            unclear: whether a group may have been taken for an earlier one, which has the same effect.
            offline: the domains that are offline; ``found`` has their last totals.
        """
        self.check(found)
        least, most, lost = [0] * DOMAINS, [0] * DOMAINS, [0] * DOMAINS
        low, high = list(self.total), list(self.total)
        ended = False
        for meter, known in self.groups.items():
            now = self._most(meter)
            gone = meter in self.away
            ended = ended or (gone and known.seen)
            for domain in range(DOMAINS):
                grown, unknown = now[domain] - known.most[domain], now[domain] - known.least[domain]
                if gone and not known.seen and not grown:
                    bounds = (0, 0)
                elif gone:
                    bounds = (0, unknown)
                    lost[domain] += grown if known.seen and not meter.released else 0
                elif meter not in sure:
                    bounds = (0, unknown)
                elif meter.ours and known.whole:
                    bounds = (grown, unknown)
                else:
                    bounds = (grown, grown) if known.recorded else (0, unknown)
                low[domain] += bounds[0]
                high[domain] += bounds[1]
            recorded = meter in sure and not gone
            if recorded and ((meter.ours and known.whole) or known.recorded):
                known.least = (
                    now
                    if meter.ours and known.whole
                    else tuple(
                        one + after - before for one, after, before in zip(known.least, now, known.most, strict=True)
                    )
                )
            known.most, known.seen, known.recorded = now, not gone, recorded
            for domain in range(DOMAINS):
                least[domain] += known.least[domain]
                most[domain] += known.most[domain]
        for domain in set(range(DOMAINS)) - offline:
            high[domain] += self.unread[domain]
            self.unread[domain] = 0
        excused = set(range(DOMAINS)) if unclear or (ended and reported) else self.unplugged
        if excused:
            missing = [max(low[one] - found[one], 0) if one in excused else 0 for one in range(DOMAINS)]
            self.reported = tuple(map(sum, zip(self.reported, missing, strict=True)))
            low = [one - other for one, other in zip(low, missing, strict=True)]
        for domain in range(DOMAINS):
            what = f"domain {domain}: a total is {found[domain]} after a quiet read"
            assert least[domain] - self.reported[domain] <= found[domain] <= most[domain], (
                f"{what}, its groups counted {least[domain]} to {most[domain]}"
            )
            assert low[domain] <= found[domain] <= high[domain], (
                f"{what}, was {self.total[domain]} at the one before, and {low[domain]} to {high[domain]} are right"
            )
        self.total = tuple(found)
        sure_domains, self.unplugged = set(range(DOMAINS)) - self.unplugged, set()
        return any(
            found[domain] < high[domain] and lost[domain] == high[domain] - low[domain] for domain in sure_domains
        )
