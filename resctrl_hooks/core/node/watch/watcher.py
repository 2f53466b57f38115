"""The exec watcher's loop: events while each can be served, otherwise samples of all containers.

It delays and refuses nothing: failures are left to reconcile.
"""

import time

from ..context import Context
from ..errors import SettingsError
from ..fault_report import as_hook_error
from ..host.files import is_folder, stamp
from ..log import DEBUG, WARNING, Log
from ..settings import Settings, compiled_path, load
from .bounds import Bucket, Loops, Newcomers, Places
from .containers import Containers
from .enabled import is_enabled, why_useless
from .listener import Listener, NoConnectorError
from .move import BUSY, GONE, IGNORED, MOVED, NEW, REFUSED, WAITING, serve
from .priority import become_ordinary, become_urgent
from .sample import sample, sample_some
from .status import EVENTS, OFF, OFTEN, SAMPLING, Status
from .values import Values
from .writes import Writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .containers import Member
    from .listener import Source

    Find = Callable[[str], tuple[Settings, str]]


MOST_MOVES = 300  # each second and container; one with more is sampled
URGENT, MOST = 0.2, 0.5  # of a processor: at realtime priority, and altogether; beyond that, samples of all containers
DEGRADED = 10.0  # seconds of samples before events are tried again
_SAMPLE_EVERY, _SAMPLE_SHARE = 2.0, 20  # seconds at least; a sample takes at most a twentieth of a processor
_RETRIES = (0.002, 0.01, 0.05, 0.25)  # seconds until a process whose key was busy is looked at again
_LOOK_AROUND, _OFF_FOR, _WARN_EVERY = 2.0, 10.0, 60.0  # seconds
_NEVER = float("inf")
STAGE = "watch"
_DISABLED = "monitoring.exec is not watch, or monitoring is off"


class Watcher:
    """Watcher of a node with the active settings, which are read again when their file changes.

    Args:
        config: the configuration's path.
        settings: the active ones; ``find`` returns them again.
        listen: opens the source of execs, whose wait also ends when a descriptor is readable.
        stderr: whether the log also goes to stderr.

    ``is_on`` is whether the settings enable it, on a node that can have groups.
    """

    def __init__(
        self,
        config: str,
        settings: Settings,
        find: "Find" = load,
        listen: "Callable[[int], Source]" = Listener,
        *,
        stderr: bool = True,
        most: int = MOST_MOVES,
    ) -> None:
        self._config = config
        self._find = find
        self._listen = listen
        self._stderr = stderr
        self._loops = Loops(most, DEGRADED)
        self._urgent, self._all = Bucket(URGENT), Bucket(MOST)
        self._is_urgent = False
        self._stamp = stamp(compiled_path(config))
        self._source: "Source | None" = None
        self._listen_at = self._sample_at = self._look_at = self._loops_at = 0.0
        self._overruns = 0
        self._sample_due = False  # a sample, once
        self._ignored = Places()
        self._retries: "list[tuple[float, int, int]]" = []
        self._newcomers = Newcomers()
        self._writes = Writes()
        self._values = Values(self._writes)
        self._next_warning_at = 0.0
        self._use(settings)
        self.status = Status(self._context.settings.state_dir, self._context.log)

    def _use(self, settings: Settings) -> None:
        self._context = Context(settings, Log(settings.log, stderr=self._stderr))
        self._containers = Containers(self._context.ledger)
        self._off = why_useless(settings) or _DISABLED
        self.is_on = is_enabled(settings) and self._off == _DISABLED

    def run(self, until: "Callable[[Watcher], bool]") -> None:
        """Watch for as long as ``until`` is false; it is asked every two seconds or so, or ten while nothing is on."""
        while not until(self):
            try:
                self.step()
            except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
                self._log(WARNING, f"the exec watcher restarts in {_LOOK_AROUND:g} s: {as_hook_error(error)}")
                self._close()
                time.sleep(_LOOK_AROUND)
        self._close()
        self.status.become(OFF, "shutting down")
        self.status.write()

    def step(self) -> None:
        """Wait for what comes next, and serve it."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_AROUND
            self._look_around()
        if not self.is_on:
            self._close()
            self.status.become(OFF, self._off)
            time.sleep(_OFF_FOR)
            self._look_at = 0.0
            return
        if self._source is None and now >= self._listen_at:
            self._open()
        seconds = self._seconds(now)
        if self._source is None:
            self._writes.wait(seconds)
            self._look_again()
        else:
            used = time.thread_time()
            self._take(self._source, self._source.wait(seconds))
            self._look_again()
            self._bound(time.thread_time() - used)
        self._values.notice()
        if time.monotonic() >= self._values.due:
            self._values.serve(self._containers, self._context)
        if (self._sample_due or self._source is None) and time.monotonic() >= self._sample_at:
            self._sample()
        if self._loops.sampled and time.monotonic() >= self._loops_at:
            self._sample_loops()
        self.status.write_sometimes(OFTEN)

    def _seconds(self, now: float) -> float:
        """Return how long nothing but an exec or a write needs attention."""
        due = [self._look_at, self._values.due, *(when for when, _, _ in self._retries[:1])]
        if self._loops.sampled:
            due.append(self._loops_at)
        if self._sample_due or self._source is None:
            due.append(self._sample_at)
        return max(0.0, min(due) - now)

    def _look_around(self) -> None:
        """Read changed settings; ask reconcile to adopt containers that have no record yet."""
        self._ignored.clear()
        now = stamp(compiled_path(self._config))
        if now != self._stamp:
            self._stamp = now
            try:
                self._use(self._find(self._config)[0])
            except SettingsError as error:
                self._log(WARNING, f"{error}; the previous settings stay active")
        if not self._loops.sampled:
            self._loops.drain(time.monotonic())
        if self._newcomers.are_late(time.monotonic(), self._is_recorded_or_gone):
            self._context.ledger.wake()
        if self.is_on:
            self._values.look_around(self._containers)

    def _is_recorded_or_gone(self, cgroup: str) -> bool:
        self._containers.refresh()
        return self._containers.of_cgroup(cgroup) is not None or not is_folder(cgroup)

    def _open(self) -> None:
        try:
            self._source = self._listen(self._writes.fd)
        except NoConnectorError as error:
            self._listen_at = _NEVER
            self.status.become(SAMPLING, str(error))
            self._log(
                WARNING, f"the exec watcher polls every {_SAMPLE_EVERY:g} s instead of receiving each exec: {error}"
            )
            return
        self._become(urgent=True)
        self._overruns = 0
        self._sample_due = True  # for what came before
        self.status.become(EVENTS)

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
            self._become(urgent=False)

    def _become(self, *, urgent: bool) -> None:
        if urgent != self._is_urgent:
            (become_urgent if urgent else become_ordinary)()
            self._is_urgent = urgent

    def _bound(self, used: float) -> None:
        """Give up the urgency, or the events of all containers, where serving them takes too much processor time."""
        now = time.monotonic()
        self._become(urgent=not self._urgent.add(used, now))
        if self._all.add(used, now):
            self._close()
            self._listen_at = now + DEGRADED
            self.status.become(SAMPLING, f"execs take more than {MOST:.0%} of a processor{self._ignored}")
            self._degrade(f"{self.status.values['why']}: the exec watcher polls all containers")

    def _degrade(self, what: str) -> None:
        self.status.values["degraded"] += 1
        self._log(WARNING, f"{what} every {_SAMPLE_EVERY:g} s for the next {DEGRADED:g} s")

    def _take(self, source: "Source", pids: "list[int]") -> None:
        """Serve execs."""
        self.status.values["events"] += len(pids)
        lost, self._overruns = source.overruns - self._overruns, source.overruns
        if lost:
            self.status.values["overruns"] += lost
            self._sample_due = True
            self._context.ledger.wake()
        for pid in pids:
            self._serve(pid, 0)

    def _look_again(self) -> None:
        """Serve the processes whose key was busy."""
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now:
            _, pid, tries = self._retries.pop(0)
            self._serve(pid, tries)

    def _serve(self, pid: int, tries: int) -> None:
        values = self.status.values
        try:
            outcome = serve(self._context, self._containers, pid, self._may_move)
        except Exception as error:  # noqa: BLE001  # a failure of one process must not affect others
            values["failed"] += 1
            self._log(DEBUG, f"process {pid} left to reconcile: {as_hook_error(error)}")
            return
        if outcome.what == IGNORED:
            self._ignored.see(outcome.where)
        elif outcome.what == MOVED:
            values["moved"] += 1
            values["threads"] += outcome.threads
        elif outcome.what == GONE:
            values["gone"] += 1
        elif outcome.what == BUSY and tries < len(_RETRIES):
            self._retries.append((time.monotonic() + _RETRIES[tries], pid, tries + 1))
            self._retries.sort()
        elif outcome.what in (BUSY, WAITING, REFUSED):
            values["left"] += 1
        elif outcome.what == NEW:
            self._newcomers.see(outcome.where, time.monotonic())

    def _sample(self) -> None:
        begun = time.monotonic()
        self._sample_due = False
        self.status.values["samples"] += 1
        try:
            self._move_calmly(lambda: sample(self._context))
        finally:
            self._sample_at = begun + max(_SAMPLE_EVERY, (time.monotonic() - begun) * _SAMPLE_SHARE)

    def _sample_loops(self) -> None:
        begun, used = time.monotonic(), time.thread_time()
        try:
            self._move_calmly(lambda: sample_some(self._context, self._containers, self._loops.sampled))
        finally:
            self._loops.drain(begun)
            self._loops_at = begun + max(_SAMPLE_EVERY, (time.thread_time() - used) * _SAMPLE_SHARE)

    def _move_calmly(self, move: "Callable[[], int]") -> None:
        """Take a sample at the default priority."""
        urgent = self._is_urgent
        self._become(urgent=False)
        try:
            self.status.values["sampled"] += move()
        finally:
            self._become(urgent=urgent)

    def _may_move(self, member: "Member") -> bool:
        """Return whether a container's process is to be moved now, or by the next sample of its container."""
        known = len(self._loops.sampled)
        may = self._loops.admit(member.id, time.monotonic())
        if len(self._loops.sampled) > known:
            what = f"container {member.id[:12]} of {member.key} has more than {self._loops.most} execs in a second"
            self._degrade(f"{what}: the exec watcher polls this container")
        return may

    def _log(self, priority: int, message: str) -> None:
        """Log; warnings at most once a minute."""
        now = time.monotonic()
        if priority <= WARNING:
            if now < self._next_warning_at:
                return
            self._next_warning_at = now + _WARN_EVERY
        self._context.log(priority, message, stage=STAGE)
