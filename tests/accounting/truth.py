"""The truth about each key's counts: what its groups counted, as limits for the totals that programs report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from accounting.kernel import DOMAINS, Meter

Counts = tuple[int, ...]
NOTHING: Counts = (0,) * DOMAINS


@dataclass
class Known:
    """The knowledge of one group as of the last quiet read."""

    least: Counts = NOTHING  # what the total has of it at least
    most: Counts = NOTHING  # what the total has of it at most
    seen: bool = False  # whether it was one of the key's groups at that read
    recorded: bool = False  # whether the key's record had it then
    whole: bool = True  # whether all that it has counted is the key's, so that the total has its first byte


@dataclass
class Truth:
    """One key's.

    The counts of a domain that goes offline are lost if they were not read: a program may have read them for its own
    use, which shows when it is read again.
    """

    total: Counts = NOTHING  # of the last quiet read
    highest: Counts = NOTHING  # of the last read
    reported: Counts = NOTHING  # what is missing in the total, and was reported as ended unseen
    groups: dict[Meter, Known] = field(default_factory=dict)  # all that the key ever had
    away: dict[Meter, Counts] = field(default_factory=dict)  # the counts with which a group was last taken from the key
    unplugged: set[int] = field(default_factory=set)  # the domains that went offline since the last quiet read
    unread: list[int] = field(default_factory=lambda: [0] * DOMAINS)  # their unread counts by domain

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

        ``sure`` are the key's recorded groups; those of other programs count from zero or from their first read. After
        a group's end was ``reported``, or where a group may have been taken for an earlier one (``unclear``), they can
        be too low. Of domains that are ``offline``, ``found`` has the last totals.
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
                bounds = (0, unknown)
                if gone:
                    bounds = (0, unknown if known.seen or grown else 0)
                    lost[domain] += grown if known.seen and not meter.released else 0
                elif meter in sure and meter.ours and known.whole:
                    bounds = (grown, unknown)
                elif meter in sure and known.recorded:
                    bounds = (grown, grown)
                low[domain] += bounds[0]
                high[domain] += bounds[1]
            recorded = meter in sure and not gone
            if recorded and meter.ours and known.whole:
                known.least = now
            elif recorded and known.recorded:
                grown_by = zip(known.least, now, known.most, strict=True)
                known.least = tuple(one + after - before for one, after, before in grown_by)
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
