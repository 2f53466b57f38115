"""What happened between two samples: the guard's actions, and limits of pods that began or ended."""

from ....core.node.host.files import parse_json, read_file
from ..guard.status import NAME, event_text
from ..temporary.limits import active_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ....core.node.context import Context
    from ..temporary.limits import ActiveLimit

_STATUS_LIMIT = 1 << 20


class GuardEvents:
    """The guard's actions since the last call."""

    def __init__(self, node: "Context") -> None:
        self._path = f"{node.settings.state_dir}/{NAME}"
        self._last = (self._all()[0] or [None])[-1]  # those until then are not of this recording

    def new(self) -> "Iterator[tuple[int, dict[str, str]]]":
        """Yield the memory domain and the labels of each."""
        events, mode, unit = self._all()
        seen = events.index(self._last) + 1 if self._last in events else 0
        for event in events[seen:]:
            self._last = event
            try:
                text = event_text(event, mode, unit)
                found = int(event["domain"]), {"key": event["action"], "rdt_class": event["class"], "event": text}
            except (ValueError, KeyError, TypeError):
                continue  # of another version
            yield found

    def _all(self) -> "tuple[list[Any], str, str]":
        """Return the guard's last events in their order, its mode and its unit; no event without its file."""
        try:
            status = parse_json(read_file(self._path, _STATUS_LIMIT))
            return list(status["events"]), str(status["mode"]), str(status["unit"])
        except (OSError, ValueError, KeyError, TypeError):
            return [], "", ""  # no guard has run since the last boot, or its file is another version's


class LimitEvents:
    """Limits that began or ended since the last call; at the first call, all that are active began.

    Args:
        node: the node.
        labels: returns the labels of a pod by its key.
    """

    def __init__(self, node: "Context", labels: "Callable[[str], dict[str, str]]") -> None:
        self._node = node
        self._labels = labels
        self._active: "dict[tuple[str, ActiveLimit], dict[str, str]]" = {}

    def new(self) -> "Iterator[tuple[bool, dict[str, str]]]":
        """Yield whether each is active now, and its labels: first those that ended."""
        found = {(name, one._replace(ends=None, end=0.0)): one for name, one in active_limits(self._node).items()}
        for ended in [one for one in self._active if one not in found]:
            yield False, self._active.pop(ended)  # the name of an ended pod is forgotten
        for known, limit in found.items():
            if known not in self._active:
                of_class = {"rdt_class": limit.rdt_class} if limit.rdt_class else {}
                self._active[known] = {**self._labels(limit.key), **of_class, "event": limit.text}
                yield True, self._active[known]
