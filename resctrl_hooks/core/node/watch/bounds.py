"""Pure bounds of the exec watcher: its processor time, moves of one container, and requests to reconcile.

One container that starts many processes must neither take processors from the node nor the watcher from others.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE = 2.0  # seconds within which a new container's hook makes its record
_ASK_EVERY = 15.0  # seconds: a pod's sandbox never gets a record
_MOST_NEW = 4096


class Bucket:
    """A leaky bucket: an amount that drains by ``rate`` in each second, and is too much above one second's rate.

    >>> bucket = Bucket(2)
    >>> [bucket.add(1, now) for now in (0.0, 0.1, 0.2, 1.5)]
    [False, False, True, False]
    """

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._level = 0.0
        self._at = 0.0

    def add(self, amount: float, now: float) -> bool:
        """Add an amount at the time ``now`` in seconds, and return whether there is too much now."""
        self._level = max(0.0, self._level - max(0.0, now - self._at) * self._rate) + amount
        self._at = now
        return self._level > self._rate

    def is_empty(self, now: float) -> bool:
        """Return whether everything has drained."""
        return self._level <= (now - self._at) * self._rate


class Loops:
    """Containers that call exec in a loop: how many of each one's processes are moved in a second.

    A container with more than ``most`` is *sampled* for ``rest`` seconds. Others are served as before.
    """

    def __init__(self, most: float, rest: float) -> None:
        self.most = most
        self._rest = rest
        self._buckets: "dict[str, Bucket]" = {}
        self.sampled: "dict[str, float]" = {}
        """The containers that are sampled, and until when."""

    def admit(self, container: str, now: float) -> bool:
        """Count a process of a container, and return whether it may be moved; false begins, or is in, a sampling."""
        if container in self.sampled:
            return False
        bucket = self._buckets.get(container)
        if bucket is None:
            bucket = self._buckets[container] = Bucket(self.most)
        if bucket.add(1, now):
            self.sampled[container] = now + self._rest
            return False
        return True

    def drain(self, now: float) -> None:
        """End the samplings that are over, and forget containers that are quiet."""
        self.sampled = {name: until for name, until in self.sampled.items() if until > now}
        self._buckets = {name: bucket for name, bucket in self._buckets.items() if not bucket.is_empty(now)}


class Places:
    """Where execs were that needed nothing. Nothing can limit these, so the status shows where most of them are.

    >>> places = Places()
    >>> for where in ("/kubepods/a", "/kubepods/a", "/system.slice", "/kubepods/a"):
    ...     places.see(where)
    >>> str(places)
    ', 75% of those that needed nothing in /kubepods/a'
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: "dict[str, int]" = {}

    def see(self, where: str) -> None:
        """Count an exec of a process in a cgroup or a mon_group."""
        self._seen[where] = self._seen.get(where, 0) + 1

    def clear(self) -> None:
        """Begin again."""
        self._seen = {}

    def __str__(self) -> str:
        if not self._seen:
            return ""
        where = max(self._seen, key=lambda one: self._seen[one])
        return f", {self._seen[where] / sum(self._seen.values()):.0%} of those that needed nothing in {where}"


class Newcomers:
    """Containers that call exec and have no record: reconcile is asked to adopt those whose hook has failed."""

    def __init__(self) -> None:
        self._seen: "dict[str, float]" = {}  # by cgroup, when it was seen first
        self._asked: "set[str]" = set()
        self._ask_at = 0.0

    def see(self, cgroup: str, now: float) -> None:
        """Note a container without a record."""
        if cgroup not in self._asked and len(self._seen) < _MOST_NEW:
            self._seen.setdefault(cgroup, now)

    def are_late(self, now: float, is_recorded_or_gone: "Callable[[str], bool]") -> bool:
        """Return whether reconcile is to be asked now, once for each container that still has no record."""
        due = [cgroup for cgroup, when in self._seen.items() if now - when >= _GRACE]
        if not due or now < self._ask_at:
            return False
        for cgroup in due:
            del self._seen[cgroup]
        late = [cgroup for cgroup in due if not is_recorded_or_gone(cgroup)]
        if not late:
            return False
        if len(self._asked) > _MOST_NEW:
            self._asked.clear()
        self._asked.update(late)
        self._ask_at = now + _ASK_EVERY
        return True
