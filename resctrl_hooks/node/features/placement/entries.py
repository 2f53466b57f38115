"""Containers with the same place, kept as lines of text until one of them is needed: most never are."""

from ...host.procfs import lives
from .policy import Decision, PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context

_TABS = 7  # in a line of a container
_SETS = ("cpus", "owned", "hidden", "mems")


class Entry:
    """One container's place: its owner, its process, its cgroup, and the decision.

    ``unit`` is its own systemd scope, and ``scope`` the scope's cgroup if that is not the container's own (crun's
    processes are a level below). ``applied`` is the written set, 0 for none yet.
    """

    __slots__ = ("applied", "decision", "folder", "id", "key", "pid", "scope", "start", "unit")

    def __init__(
        self,
        id_: str,
        key: str,
        pid: int,
        start: int,
        folder: str,
        decision: Decision,
        *,
        unit: str = "",
        scope: str = "",
    ) -> None:
        self.id = id_
        self.key = key
        self.pid = pid
        self.start = start
        self.folder = folder
        self.unit = unit
        self.scope = scope
        self.decision = decision
        self.applied = 0

    def as_line(self) -> str:
        """Return tab-separated fields, which are faster than JSON.

        Raises:
            PlacementError: a name contains a control character.
        """
        place = (self.id, self.key, str(self.pid), str(self.start), self.folder, self.unit, self.scope)
        return _checked("\t".join((*place, str(self.decision.milli))), _TABS)

    @classmethod
    def of_line(cls, line: str, decision: Decision) -> "Entry":
        """Return the entry from a line of `as_line`, for a place with this decision.

        Raises:
            PlacementError: the line is invalid.
        """
        try:
            id_, key, pid, start, folder, unit, scope, milli = line.split("\t")
            own = Decision(decision.kind, decision.pool, milli=int(milli))
            for name in _SETS:
                setattr(own, name, getattr(decision, name))
            return cls(id_, key, int(pid), int(start), folder, own, unit=unit, scope=scope)
        except ValueError as error:
            raise PlacementError(
                f"damaged record of placements: {line[:80]!r}",
                hint="remove the file `placement` in stateDir and run `resctrl-hook reconcile`",
            ) from error

    def is_dead(self, context: "Context") -> bool:
        """Return whether its init process is gone."""
        return not lives(context.proc, self.pid, self.start)


class Place:
    """A decision and all containers with it. The decision's ``milli`` is unused here.

    ``milli`` is their total request, ``users`` their number. ``applied`` is the written set of the containers that are
    still text; a parsed entry has its own.
    """

    __slots__ = ("_entries", "_head", "_text", "applied", "decision", "milli", "users")

    def __init__(self, decision: Decision, head: str = "", text: str = "", milli: int = 0, users: int = 0) -> None:
        self.decision = decision
        self.milli = milli
        self.users = users
        self.applied = 0
        self._head = head  # the decision as text
        self._text = text  # lines of containers, each after a line feed
        self._entries: "dict[str, Entry]" = {}  # containers that are not in the text

    def as_text(self) -> str:
        """Return the place and its containers as lines, the first without a line feed.

        Raises:
            PlacementError: a name contains a control character.
        """
        if not self._head:
            one = self.decision
            sets = [f"{getattr(one, name):x}" for name in _SETS]  # every hook reads this; faster than lists
            self._head = _checked("\t".join((one.kind, one.pool, *sets)), _TABS - 2)
        head = f"{self._head}\t{self.milli}\t{self.users}{self._text}"
        return "\n".join((head, *(entry.as_line() for entry in self._entries.values())))

    @classmethod
    def of_text(cls, text: str) -> "Place":
        """Return the place from the text of `as_text`.

        Raises:
            ValueError: the text is invalid.
        """
        first, feed, rest = text.partition("\n")
        head, milli, users = first.rsplit("\t", 2)
        kind, pool, *sets = head.split("\t")
        cpus, owned, hidden, mems = [int(one, 16) for one in sets]
        rest = feed + rest
        if rest.count("\n") != int(users) or rest.count("\t") != int(users) * _TABS:
            raise ValueError("an entry has the wrong containers")
        decision = Decision(kind, pool, cpus=cpus, owned=owned, hidden=hidden, mems=mems)
        return cls(decision, head, rest, int(milli), int(users))

    def entries(self) -> "dict[str, Entry]":
        """Return all of its containers, by id."""
        lines, self._text = self._text[1:], ""
        for line in lines.split("\n") if lines else ():
            self._put(line)
        return self._entries

    def unlike(self, wanted: int) -> "list[Entry]":
        """Return the containers whose cgroups have another set."""
        found = self.entries() if self.applied != wanted else self._entries
        return [entry for entry in found.values() if entry.applied != wanted]

    def find(self, id_: str) -> "Entry | None":
        """Return one of its containers."""
        place = self._text.find(f"\n{id_}\t")
        if place >= 0:
            self._pull(place)
        return self._entries.get(id_)

    def of_key(self, key: str) -> "list[Entry]":
        """Return the containers of one key."""
        place = self._text.find(f"\t{key}\t")
        while place >= 0:
            start = self._text.rfind("\n", 0, place)
            if self._text.startswith(f"{key}\t", self._text.find("\t", start) + 1):
                self._pull(start)
                place = start - 1
            place = self._text.find(f"\t{key}\t", place + 1)
        return [entry for entry in self._entries.values() if entry.key == key]

    def add(self, entry: Entry) -> None:
        """Add a container."""
        self._entries[entry.id] = entry
        self.milli += entry.decision.milli
        self.users += 1

    def remove(self, entry: Entry) -> None:
        """Remove a container that `entries`, `find` or `of_key` returned."""
        del self._entries[entry.id]
        self.milli -= entry.decision.milli
        self.users -= 1

    def _pull(self, start: int) -> None:
        end = self._text.find("\n", start + 1)
        line = self._text[start + 1 : end] if end >= 0 else self._text[start + 1 :]
        self._text = self._text[:start] + (self._text[end:] if end >= 0 else "")
        self._put(line)

    def _put(self, line: str) -> None:
        entry = Entry.of_line(line, self.decision)
        entry.applied = self.applied
        self._entries[entry.id] = entry


def _checked(line: str, tabs: int) -> str:
    if not line.replace("\t", "").isprintable() or line.count("\t") != tabs:
        raise PlacementError(f"cannot record a name with control characters: {line[:200]!r}")
    return line
