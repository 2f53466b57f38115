"""The places of samples in the history, by time and in the order of writing; no sample is decoded."""

from .tables import Entry


class Places:
    """Finds samples; `Store`, its only subclass, has the file."""

    def _query(self, query: str, *values: object) -> "list[tuple[int, ...]]":
        raise NotImplementedError

    def at(self, time: int) -> "Entry | None":
        """Return the last sample at or before a time; None if there is none."""
        return self._entry("time <= ? ORDER BY time DESC, id DESC", time)

    def near(self, entry: Entry, steps: int) -> "Entry | None":
        """Return the sample so many steps after one, or before it for a negative number; the end if there are fewer."""
        query = "id > ? ORDER BY id" if steps > 0 else "id < ? ORDER BY id DESC"
        found = [*self._entries(f"{query} LIMIT {abs(steps)}", entry.id)]
        return found[-1] if found else None

    def following(self, time: int) -> "Entry | None":
        """Return the first sample after a time; None if there is none."""
        return self._entry("time > ? ORDER BY time, id", time)

    def ends(self) -> "tuple[int, int] | None":
        """Return the times of the first and the last sample in the order of writing; None for an empty history."""
        first = self._query("SELECT time FROM sample ORDER BY id LIMIT 1")
        last = self._query("SELECT time FROM sample ORDER BY id DESC LIMIT 1")
        return (first[0][0], last[0][0]) if first and last else None

    def number(self) -> int:
        """Return the number of samples."""
        return self._query("SELECT count(*) FROM sample")[0][0]

    def _entry(self, condition: str, *values: object) -> "Entry | None":
        found = self._entries(f"{condition} LIMIT 1", *values)
        return found[0] if found else None

    def _entries(self, condition: str, *values: object) -> "list[Entry]":
        return [Entry(*row) for row in self._query(f"SELECT id, time, span FROM sample WHERE {condition}", *values)]  # noqa: S608  # constants
