"""Reads the rows of a recording, with the samples of each host in order of time."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from resctrl_hooks.observe.node.history.rows import COUNTED, EVENTS, LOST, MEMORY, POD, RATIO, SLOWED, Row, Value
from resctrl_hooks.observe.node.slowdown.constants import SLOWED as SLOWED_FROM

from .times import Times, order_of, sorted_rows
from .tracks import Recording, Track, User, Verdicts, Why, on_host, user_of

_STEPPED: Final = 1.02
"""How many times as long as by the clock an interval is counted from where the clock was set back."""


class _Reader:
    """The rows read so far, with names as if there were one host."""

    def __init__(self) -> None:
        self.places: dict[str, dict[float, int]] = defaultdict(dict)
        self.tracks: dict[tuple[User, str], Track] = {}
        self.by_labels: dict[tuple[object, ...], Track] = {}
        self.slowed: dict[User, Verdicts] = {}
        self.others: dict[str, list[tuple[float, Row]]] = {kind: [] for kind in (MEMORY, LOST, *EVENTS)}
        self._texts: dict[object, float] = {}

    def add(self, row: Row) -> None:
        get = row.get
        text, kind, host = row["time"], row["kind"], get("host") or ""
        when = self._texts.get(text)
        if when is None:
            when = self._texts[text] = datetime.fromisoformat(str(text)).timestamp()
        of = self.places[str(host)]
        place = of.setdefault(when, len(of))
        other = self.others.get(str(kind))
        if other is not None:
            other.append((when, row))
        elif kind == SLOWED:
            self._judge(place, row)
        else:
            labels = (host, kind, get("key"), row["domain"], get("rdt_class"), get("namespace"), get("pod"))
            track = self.by_labels.get(labels)
            if track is None:
                track = self.tracks.setdefault((user_of(row, several=False), str(row["domain"])), Track())
                self.by_labels[labels] = track
            track.add(place, row)

    def _judge(self, place: int, row: Row) -> None:
        if (ratio := row.get(RATIO)) is None:
            return
        of = self.slowed.setdefault(user_of({**row, "kind": POD}, several=False), Verdicts())
        of.at.append(place)
        of.ratios.append(float(ratio))
        if float(ratio) >= SLOWED_FROM:
            causes = filter(None, str(row.get("event") or "").split(", "))
            of.why[place] = Why(str(row["domain"]), tuple(causes), tuple(str(row.get("culprits") or "").split()))


def recording_of(rows: Iterable[Row]) -> Recording:
    """Return the rows as a recording. With several hosts, names of users and domains begin with theirs."""
    found = _Reader()
    for row in rows:
        found.add(row)
    hosts = sorted(found.places)
    several = len(hosts) > 1
    tracks: dict[str, list[Track]] = {host: [] for host in hosts}
    for (user, _), track in found.tracks.items():
        tracks[user.host].append(track)
    times = {host: _sort(found, host, of) for host, of in tracks.items()}
    named = {user: on_host(user) if several else user for user, _ in found.tracks}
    others = {
        kind: sorted(((when, _with_host(row) if several else row) for when, row in of), key=lambda one: one[0])
        for kind, of in found.others.items()
    }
    return Recording(
        times,
        {(named[user], f"{user.host}/{at}" if several and at else at): of for (user, at), of in found.tracks.items()},
        others[MEMORY],
        sorted((one for kind in EVENTS for one in others[kind]), key=lambda one: one[0]),
        others[LOST],
        {on_host(user) if several else user: of for user, of in found.slowed.items()},
    )


def _sort(found: _Reader, host: str, tracks: Sequence[Track]) -> Times:
    """Order the samples of a host whose rows were not in order of time; return their times."""
    of = found.places[host]
    order = order_of([*of])
    kept = sorted(when for when, place in zip(of, order.places, strict=True) if place is not None)
    if order.places != [*range(len(of))]:
        for track in tracks:
            track.move(order.places)
        _sort_others(found, host, order.places, {*kept})
    return Times(kept, order.seams, _counted(tracks, kept), order.left_out)


def _sort_others(found: _Reader, host: str, places: Sequence[int | None], kept: set[float]) -> None:
    """Order the verdicts of a host, and leave out the rows of samples that are left out; events stay."""
    for user, verdicts in [*found.slowed.items()]:
        if user.host == host:
            order = sorted_rows(verdicts.at, places)
            verdicts.ratios = array("d", map(verdicts.ratios.__getitem__, order))
            verdicts.at = array("I", (places[verdicts.at[one]] or 0 for one in order))
            verdicts.why = {new: why for old, why in verdicts.why.items() if (new := places[old]) is not None}
            if not verdicts.at:
                del found.slowed[user]
    for kind in (MEMORY, LOST):
        rows = found.others[kind]
        found.others[kind] = [(at, row) for at, row in rows if at in kept or str(row.get("host") or "") != host]


def _counted(tracks: Iterable[Track], times: Sequence[float]) -> dict[int, float]:
    """Return the seconds of intervals in which the clock was set back, by a pod that was counted longest at the end."""
    track = max(tracks, key=lambda one: (one.columns.get(COUNTED) or (0.0,))[-1], default=Track())
    rows = pairwise(zip(track.at, track.column(COUNTED), strict=True))
    return {
        at: grown
        for (before, start), (at, end) in rows
        if at == before + 1 and (grown := end - start) > _STEPPED * (times[at] - times[before])
    }


def _with_host(row: Row) -> Row:
    """Return a row whose domain has its host's name, and the L3 domains of a memory domain too."""
    host = str(row.get("host") or "")
    found: dict[str, Value] = {**row, "domain": f"{host}/{row['domain']}" if row["domain"] else ""}
    if row["kind"] == MEMORY:
        found["key"] = " ".join(f"{host}/{name}" for name in str(row.get("key") or "").split())
    return found
