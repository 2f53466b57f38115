"""The loop of the resident process: each resident samples at its interval, and fails and starts again by itself."""

import gc
import time

from ....core.node.fault_report import as_hook_error
from ....core.node.log import ERROR, NOTICE, WARNING
from ....core.node.resctrl.absence import why_no_monitoring
from ..resident import Moment, Resident
from ..watch import Watch
from .unsaved import Unsaved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ....core.node.context import Context
    from ....core.node.host.notify import Notify
    from ..snapshot.snapshot import Files, Snapshot
    from .largest import Largest

    Start = Callable[[Context], "Resident | None"]

RESIDENTS = {"guard": "guard.resident", "history": "history.resident", "slowdown": "slowdown.resident"}
"""The residents by name: a module of observe's node half with a function ``start``."""
RETRY = 30.0
"""Seconds until a failed resident is started again."""
_NOTHING = (
    "rdt.guard.mode, history and slowdown are off; nothing to do: set `history: {enabled: true}`, `slowdown: {enabled: "
    "true}` or `rdt: {guard: {mode: observe}}` in the configuration, then run `resctrl-hook config apply` and "
    "`resctrl-hook install`"
)
_NEVER = float("inf")
_PAUSE = 0.2  # seconds between two looks at the signal flag


class Hosted:
    """One resident in this process: off, running, or failed and waiting for its next start.

    Args:
        name: its name.
        start: starts it, and returns None if it is off.
        context: the node.
    """

    def __init__(self, name: str, start: "Start", context: "Context") -> None:
        self.name = name
        self.resident: "Resident | None" = None
        self.failed = False
        self.due = _NEVER
        self._start = start
        self._context = context
        self._logged = ""

    def step(self, moment: Moment) -> None:
        """Sample, or start the resident if it has not been started or has failed. Never raises."""
        try:
            if self.resident is None:
                self.resident = self._start(self._context)
            else:
                self.resident.sample(moment)
                self._logged = ""
        except Exception as error:  # noqa: BLE001  # the other residents continue
            self.close()
            self._report(error)
            self.failed, self.due = True, moment.when + RETRY
        else:
            self.failed = False
            self.due = _NEVER if self.resident is None else following(self.resident.interval, time.monotonic())

    def start(self, moment: Moment) -> None:
        """Start the resident, and make its first sample due at once."""
        self.step(moment)
        if self.resident is not None:
            self.due = moment.when

    def close(self) -> bool:
        """Close a running resident; return whether that succeeded. Never raises."""
        resident, self.resident = self.resident, None
        try:
            if resident is not None:
                resident.close()
        except Exception as error:  # noqa: BLE001  # as above
            self._report(error)
            return False
        return True

    def _report(self, error: Exception) -> None:
        """Log an error once, not at each new try."""
        found = as_hook_error(error)
        if str(found) != self._logged:
            self._logged = str(found)
            self._context.log(ERROR, f"{self.name}: {found}", stage=self.name, reason=found.reason)


def following(interval: float, now: float) -> float:
    """Return the time of the next sample: a multiple of the interval, at which residents with the same one meet."""
    return -((-now / interval - 0.5) // 1) * interval


def starters() -> "dict[str, Start]":
    """Return the function that starts each resident."""
    return {name: _starter(module) for name, module in RESIDENTS.items()}


def _starter(module: str) -> "Start":
    """Return a function that imports the resident when it starts: a failing import ends that resident only."""

    def start(context: "Context") -> "Resident | None":
        found: "Resident | None" = __import__(module, globals(), None, ("start",), 2).start(context)
        return found

    return start


def run(context: "Context", notify: "Notify", changed: "Callable[[], bool]", ended: "list[int]") -> bool:
    """Serve all residents until a signal is in ``ended``, the settings have changed, or no resident works any more.

    Return whether everything succeeded.
    """
    hosted = [Hosted(name, start, context) for name, start in starters().items()]
    take, watch = _Taker(context), Watch(context)
    watch.step(time.monotonic())
    now = Moment(time.monotonic(), take)
    for one in hosted:
        one.start(now)
    if not any(one.resident for one in hosted):
        if any(one.failed for one in hosted):
            return False
        if why_no_monitoring(context.monitor.resctrl) is None:  # else the guard has logged it
            context.log(WARNING, f"guard: {_NOTHING}", stage="guard")
        notify(READY="1")
        return True
    notify(READY="1", STATUS=", ".join(one.resident.status for one in hosted if one.resident))
    collect_rarely()
    alive = True
    closed: "list[bool]" = []
    unsaved = Unsaved(context.settings.state_dir)
    try:
        alive = _loop(take, watch, hosted, notify, changed, ended, unsaved)
        if alive and not ended:
            text = "guard: the settings have changed; restoring all values and starting again"
            context.log(NOTICE, text, stage="guard")
    finally:
        if ended:
            notify(STOPPING="1")
        closed = [one.close() for one in hosted]
        take.close()
        unsaved.note({})
    return alive and all(closed)


def collect_rarely() -> None:
    """Search for garbage at each 10 000 new objects, and among kept ones every few minutes.

    With Python's threshold of 700, searching the kept windows of 500 pods takes a tenth of the processor time.
    """
    gc.collect()
    gc.set_threshold(10_000)


class _Taker:
    """Reads all counters. Their files stay open between reads, from the first one on."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._files: "Files | None" = None
        self._largest: "Largest | None" = None

    def __call__(self) -> "Snapshot":
        from ..snapshot.snapshot import open_files, take  # not every process has a resident that needs it

        if self._files is None:
            self._files = open_files(lambda text: self._context.log(NOTICE, text, stage="guard"))
        found = take(self._context, self._files)
        if self._largest is None:
            from .largest import Largest

            self._largest = Largest(self._context, found.slots.values())
        self._largest.saw(found)
        return found

    def close(self) -> None:
        if self._files is not None:
            self._files.close()


def _loop(
    take: "Callable[[], Snapshot]",
    watch: Watch,
    hosted: "list[Hosted]",
    notify: "Notify",
    changed: "Callable[[], bool]",
    ended: "list[int]",
    unsaved: "Unsaved",
) -> bool:
    """Return whether a resident works at the end; systemd starts a process without one again."""
    while not ended and not changed():
        moment = Moment(time.monotonic(), take)
        watch.step(moment.when)
        for one in hosted:
            if one.due <= moment.when:
                one.step(moment)
        if not any(one.resident for one in hosted):
            return False
        unsaved.note({name: why for one in hosted if one.resident for name, why in one.resident.unsaved.items()})
        notify.alive()  # an interval may be longer than the watchdog's
        left = min(one.due for one in hosted) - time.monotonic()
        if left > 0 and not ended:
            time.sleep(min(left, _PAUSE))
    return True
