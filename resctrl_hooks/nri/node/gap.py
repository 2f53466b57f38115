"""Passes of reconcile while the runtime sends no events: after a lost connection, and until Synchronize.

On a node that starts many pods at once, containerd 2 drops a plugin that answers late, and then holds its Synchronize
back until no pod is being created (42 seconds, measured). Containers start meanwhile, and no event reports them.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .worker import Reply
    from .workers import Workers

FIRST = 1.0
"""Seconds until the first pass, and the least between two: a quiet runtime synchronizes earlier."""
LONGEST_WITHOUT_CONNECTION = 60.0
"""Seconds after which the timer of reconcile is enough for a runtime that does not run."""
_SHARE = 3  # a pass may take a quarter of the time
_LIMIT = 60.0  # seconds for a pass


class Gap:
    """A period without events; closed at first.

    Args:
        adopt: makes a pass in a process of its own, and replies.
    """

    def __init__(self, adopt: "Callable[[Reply], None]") -> None:
        self._adopt = adopt
        self._due = self._end = 0.0
        self._running = False

    def open(self, *, connected: bool) -> None:
        """Begin a gap; without a connection it ends by itself."""
        now = time.monotonic()
        if self._end < now:
            self._due = now + FIRST
        self._end = float("inf") if connected else now + LONGEST_WITHOUT_CONNECTION

    def close(self) -> None:
        """End the gap: the runtime has listed its containers."""
        self._end = 0.0

    def serve(self, workers: "Workers") -> None:
        """Start a pass if one is due."""
        begun = time.monotonic()
        if self._running or not self._due <= begun <= self._end:
            return

        def done(_: "int | None", __: bytes) -> None:
            now = time.monotonic()
            self._running, self._due = False, now + max(FIRST, _SHARE * (now - begun))

        self._running = True
        try:
            workers.start(self._adopt, _LIMIT, done)
        except OSError:
            done(None, b"")
