"""The budget of one pass: processor time and progress. On a slow node, elapsed time means nothing.

A pass that has used its processor time leaves the remaining containers to the next one, which begins with them.
"""

import time

from ..errors import LedgerError
from ..host.files import read_small_file, remove_file, write_file
from ..log import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..container.running import Running
    from ..context import Context

MOST_SECONDS = 60.0
"""Processor time of one pass; 10 000 containers take a second or two."""
STALLED = 1800
"""Seconds without progress after which a hanging pass is killed: one container never takes so long."""
FILE = "resume"
_LIMIT = 256


class Budget:
    """What one pass may use.

    Args:
        seconds: processor time.
        alarm: ends this process after so many seconds unless it is called again, as `signal.alarm`.
    """

    def __init__(self, seconds: float = MOST_SECONDS, alarm: "Callable[[int], object] | None" = None) -> None:
        self._alarm = alarm
        self._end = time.process_time() + seconds
        self.note_progress()

    def note_progress(self) -> None:
        """Let the pass live on."""
        if self._alarm is not None:
            self._alarm(STALLED)

    @property
    def is_spent(self) -> bool:
        """Whether the pass has used its processor time."""
        return time.process_time() >= self._end


def resumed(context: "Context", containers: "list[Running]", budget: "Budget | None") -> "list[Running]":
    """Return the containers in the order of this pass: with a budget, first those that the last one has left."""
    if budget is None:
        return containers
    try:
        first = read_small_file(f"{context.settings.state_dir}/{FILE}", _LIMIT).decode("ascii", "replace")
    except (OSError, ValueError):
        return containers
    place = next((number for number, one in enumerate(containers) if one.id == first), 0)
    return containers[place:] + containers[:place]


def leave(context: "Context", left: "list[Running]", number: int) -> None:
    """Record which containers of so many this pass leaves; without any, the next pass has no special order.

    Raises:
        LedgerError: the state directory is unusable.
    """
    path = f"{context.settings.state_dir}/{FILE}"
    try:
        if not left:
            remove_file(path)
            return
        write_file(path, left[0].id.encode(), 0o600)
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
    what = f"{len(left)} of {number} containers left to the next pass: {MOST_SECONDS:g} s of processor time are used"
    context.log(INFO, what, stage="reconcile")
    context.ledger.wake()
