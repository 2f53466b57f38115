"""The sources of a total: which of them a read has seen, and from where each continues. `total` has the arithmetic.

A source, such as a group, is known by its identity, not by its place, which a rename changes. One that a read does not
see keeps its last values and continues from them when it returns. Only a new source starts at 0.
"""

from .group import CREATED
from .total import GONE, LEFT, OUT_OF_VIEW, SEEN, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from ..records import PodRecord
    from .counters import Raw

    Found = dict[str, tuple[str, list[Raw]]]  # by place: the source's identity, and its values

_MOST_ENDED = 16
_MOST_OUT_OF_VIEW = 512  # more than the RMIDs of most machines: one that is forgotten would be counted again


class Sources:
    """The known sources of a key.

    Attributes:
        seen: those of the last read, by place.
        unseen: the others, by identity.
    """

    __slots__ = ("seen", "unseen")

    def __init__(self) -> None:
        self.seen: "dict[str, Source]" = {}
        self.unseen: "dict[str, Source]" = {}

    def are_as_before(self, found: "Found") -> bool:
        """Return whether a read has found the seen sources at their places, no others, and none is out of view."""
        seen = self.seen
        if len(seen) != len(found) or (self.unseen and self.out_of_view()):
            return False
        for place, (identity, _) in found.items():
            source = seen.get(place)
            if source is None or source.identity != identity:
                return False
        return True

    def lack(self, found: "Found") -> bool:
        """Return whether a read has not found a source that is not known to be gone."""
        there = {source.identity for source in (*self.seen.values(), *self.unseen.values()) if source.state != GONE}
        return not there <= {identity for identity, _ in found.values()}

    def observe(
        self, found: "Found", judge: "Callable[[Source | None, str, str], Source]", *, hidden: bool
    ) -> "list[Source]":
        """Take the result of a read, and return the sources that it has found to be gone.

        Args:
            found: what was found.
            judge: returns the source of an identity at a place, given the known one elsewhere or unseen, if any.
            hidden: whether something could not be looked at, so that each missing source may be there.
        """
        known = {source.identity: source for source in (*self.unseen.values(), *self.seen.values())}
        seen: "dict[str, Source]" = {}
        gone: "list[Source]" = []
        for place, (identity, _) in found.items():
            before = known.pop(identity, None)
            if before is not None and before.state == SEEN and before.place == place:
                source = before
            else:
                source = judge(before, place, identity)
            if source is not before and before is not None and before.state != LEFT:
                gone.append(before)
            source.state = SEEN
            seen[place] = source
        for source in known.values():
            if source.state in (SEEN, OUT_OF_VIEW):
                source.state = OUT_OF_VIEW if hidden else GONE
                if not hidden:
                    gone.append(source)
        left = () if hidden else [source.identity for source in known.values() if source.state == LEFT]
        self.seen = seen
        self.unseen = _latest(source for source in known.values() if source.identity not in left)
        return gone

    def leave(self, state: str, places: "Collection[str] | None" = None) -> None:
        """Let the seen sources at these places, by default all, be unseen until a read finds them again."""
        for place in [place for place in self.seen if places is None or place in places]:
            source = self.seen.pop(place)
            source.state = state
            self.unseen[source.identity] = source
        self.unseen = _latest(self.unseen.values())

    def out_of_view(self) -> "list[str]":
        """Return the places of the sources that may be there."""
        return [source.place for source in self.unseen.values() if source.state == OUT_OF_VIEW]

    def doubt(self) -> None:
        """Let all sources be unseen and uncertain: other ones may have their identities by now."""
        self.leave(OUT_OF_VIEW)
        for source in self.unseen.values():
            source.is_certain = False


def began_at(record: "PodRecord | dict[str, Any]", place: str) -> "float | None":
    """Return when this project or a runtime created the group at a place, in seconds since the boot, if recorded."""
    if "/" in place or record.get("groups", {}).get(place) == CREATED:
        return record.get("since", {}).get(place)
    return None


def new_source(record: "PodRecord | dict[str, Any]", place: str, identity: str, now: float) -> Source:
    """Return a new group, which counts from its creation if that time is known, and its energy from the value then.

    mkdir starts the L3 counters at zero, but PERF_PKG's continue from the RMID's previous user.
    """
    baselines = record.get("baselines", {})
    # Another program may have renamed it into another class before the first read: the identity decides.
    origin = next((known for known in (place, *baselines) if baselines.get(known, ("",))[0] == identity), None)
    made = record.get("since", {}).get(place if origin is None else origin, now)
    return Source(identity, min(made, now), None if origin is None else baselines[origin][1])


def drop_repeats(found: "Found") -> None:
    """Leave out all but the last look at a group that was renamed meanwhile."""
    last = {identity: place for place, (identity, _) in found.items()}
    for place in found.keys() - last.values():
        del found[place]


def _latest(sources: "Iterable[Source]") -> "dict[str, Source]":
    """Return those that may still be there, and of the others those that were read last, by identity."""
    found = [*sources]
    if len(found) > _MOST_ENDED:
        found.sort(key=lambda source: source.read, reverse=True)
        hidden = [source for source in found if source.state == OUT_OF_VIEW]
        ended = [source for source in found if source.state != OUT_OF_VIEW]
        found = [*hidden[:_MOST_OUT_OF_VIEW], *ended[:_MOST_ENDED]]
    return {source.identity: source for source in found}


def is_new(source: Source, began: "float | None") -> bool:
    """Return whether a group with the identity of an uncertain source certainly is another one.

    A resctrl that is mounted again gives its groups the same identities, also to groups in other classes: umount moves
    all tasks into the root class. Where the evidence is unclear, the source continues from its last values (see
    `Source.weaken`), which may be too little and is never too much.

    Args:
        source: the known source.
        began: when this project created the group at its place, in seconds since the boot; None for another's group.
    """
    return began is not None and began > source.read
