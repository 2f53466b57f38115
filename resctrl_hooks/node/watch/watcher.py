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
from .containers import Containers
from .decision import Load
from .listener import Listener, NoConnectorError
from .move import BUSY, GONE, MOVED, NEW, WAITING, serve
from .newcomers import Newcomers
from .priority import become_ordinary, become_urgent
from .sample import sample
from .status import EVENTS, OFF, SAMPLING, Status
from .values import EVERY, SHARE, Values
from .wanted import is_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    Find = Callable[[str], tuple[Settings, str]]

    class Source(Protocol):
        """Where execs come from: `listener.Listener`."""

        overruns: int

        def wait(self, seconds: float) -> "list[int]":
            """Wait at most so long, and return the processes that have called exec."""

        def close(self) -> None:
            """Stop receiving."""


MOST_EXECS = 1500  # each second; beyond that, samples
DEGRADED = 10.0  # seconds of samples before events are tried again
_SAMPLE_EVERY, _SAMPLE_SHARE = 2.0, 20  # seconds at least; a sample takes at most a twentieth of a processor
_RETRIES = (0.002, 0.01, 0.05, 0.25)  # seconds until a process whose key was busy is looked at again
_LOOK_AROUND = 2.0  # seconds
_OFF_FOR = 10.0
_SAY_EVERY = 60.0
_NEVER = float("inf")
STAGE = "watch"
_UNWANTED = "monitoring.exec is not watch, or monitoring is off"


class Watcher:
    """Watcher of a node with the active settings, which are read again when their file changes.

    Args:
        config: the configuration's path.
        settings: the active ones; ``find`` returns them again.
        listen: opens the source of execs.
        stderr: whether the log also goes to stderr.

    ``is_on`` is whether the settings enable it.
    """

    def __init__(
        self,
        config: str,
        settings: Settings,
        find: "Find" = load,
        listen: "Callable[[], Source]" = Listener,
        *,
        stderr: bool = True,
        most: int = MOST_EXECS,
    ) -> None:
        self._config = config
        self._find = find
        self._listen = listen
        self._stderr = stderr
        self._load = Load(most)
        self._most = most
        self._stamp = stamp(compiled_path(config))
        self._source: "Source | None" = None
        self._listen_at = self._sample_at = self._look_at = 0.0
        self._overruns = 0
        self._wanted = False  # a sample, once
        self._retries: "list[tuple[float, int, int]]" = []
        self._newcomers = Newcomers()
        self._values = Values()
        self._check_at = _NEVER
        self._say_at = 0.0
        self._use(settings)
        self.status = Status(self._context.settings.state_dir)

    def _use(self, settings: Settings) -> None:
        self._context = Context(settings, Log(settings.log, stderr=self._stderr))
        self._containers = Containers(self._context.ledger)
        self.is_on = is_wanted(settings)

    def run(self, until: "Callable[[Watcher], bool]") -> None:
        """Watch for as long as ``until`` is false; it is asked every two seconds or so, or ten while nothing is on."""
        while not until(self):
            try:
                self.step()
            except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
                self._say(WARNING, f"the exec watcher restarts in {_LOOK_AROUND:g} s: {as_hook_error(error)}")
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
            self.status.become(OFF, _UNWANTED)
            time.sleep(_OFF_FOR)
            self._look_at = 0.0
            return
        if self._source is None and now >= self._listen_at:
            self._open()
        seconds = self._seconds(now)
        if self._source is None:
            time.sleep(seconds)
        else:
            self._take(self._source, self._source.wait(seconds))
        self._look_again()
        if time.monotonic() >= self._check_at:
            self._check_values()
        if (self._wanted or self._source is None) and time.monotonic() >= self._sample_at:
            self._sample()
        self.status.write_sometimes()

    def _seconds(self, now: float) -> float:
        """Return how long nothing but an exec needs attention."""
        due = [self._look_at, self._check_at, *(when for when, _, _ in self._retries[:1])]
        if self._wanted or self._source is None:
            due.append(self._sample_at)
        return max(0.0, min(due) - now)

    def _look_around(self) -> None:
        """Read changed settings; ask reconcile to adopt containers that have no record yet."""
        now = stamp(compiled_path(self._config))
        if now != self._stamp:
            self._stamp = now
            try:
                self._use(self._find(self._config)[0])
            except SettingsError as error:
                self._say(WARNING, f"{error}; the previous settings stay active")
        if self._newcomers.are_late(time.monotonic(), self._is_recorded_or_gone):
            self._context.ledger.wake()
        if self.is_on and self._check_at == _NEVER:
            self._containers.refresh()
            if self._containers.with_values():
                self._check_at = 0.0

    def _check_values(self) -> None:
        """Ask reconcile to repair values in containers' cgroups that another program has changed."""
        begun, used = time.monotonic(), time.thread_time()
        self._containers.refresh()
        members = self._containers.with_values()
        if self._values.need_repair(members, self._context, begun):
            self._context.ledger.wake()
            self._containers.read_again()
        took = time.thread_time() - used  # not the time that a busy node makes it wait
        self._check_at = begun + max(EVERY, took * SHARE) if members else _NEVER

    def _is_recorded_or_gone(self, cgroup: str) -> bool:
        self._containers.refresh()
        return self._containers.of_cgroup(cgroup) is not None or not is_folder(cgroup)

    def _open(self) -> None:
        try:
            self._source = self._listen()
        except NoConnectorError as error:
            self._listen_at = _NEVER
            self.status.become(SAMPLING, str(error))
            self._say(
                WARNING, f"the exec watcher polls every {_SAMPLE_EVERY:g} s instead of receiving each exec: {error}"
            )
            return
        become_urgent()
        self._overruns = 0
        self._wanted = True  # for what came before
        self.status.become(EVENTS)

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
            become_ordinary()

    def _take(self, source: "Source", pids: "list[int]") -> None:
        """Serve execs, or stop receiving them where there are too many."""
        self.status.values["events"] += len(pids)
        if source.overruns != self._overruns:
            self.status.values["overruns"] += source.overruns - self._overruns
            self._overruns = source.overruns
            self._wanted = True
            self._context.ledger.wake()
        if self._load.is_too_much(len(pids), time.monotonic()):
            self._close()
            self._listen_at = time.monotonic() + DEGRADED
            self.status.values["degraded"] += 1
            why = f"more than {self._most} execs in a second"
            self.status.become(SAMPLING, why)
            self._say(WARNING, f"{why}: the exec watcher polls every {_SAMPLE_EVERY:g} s for the next {DEGRADED:g} s")
            return
        for pid in pids:
            self._serve(pid, 0)

    def _look_again(self) -> None:
        """Serve the processes whose key was busy."""
        now = time.monotonic()
        due = [each for each in self._retries if each[0] <= now]
        if due:
            self._retries = [each for each in self._retries if each[0] > now]
            for _, pid, tries in due:
                self._serve(pid, tries)

    def _serve(self, pid: int, tries: int) -> None:
        values = self.status.values
        try:
            outcome = serve(self._context, self._containers, pid)
        except Exception as error:  # noqa: BLE001  # a failure of one process must not affect others
            values["failed"] += 1
            self._say(DEBUG, f"process {pid} left to reconcile: {as_hook_error(error)}")
            return
        if outcome.what == MOVED:
            values["moved"] += 1
            values["threads"] += outcome.threads
        elif outcome.what == GONE:
            values["gone"] += 1
        elif outcome.what == BUSY and tries < len(_RETRIES):
            self._retries.append((time.monotonic() + _RETRIES[tries], pid, tries + 1))
            self._retries.sort()
        elif outcome.what in (BUSY, WAITING):
            values["left"] += 1
        elif outcome.what == NEW:
            self._newcomers.see(outcome.cgroup, time.monotonic())

    def _sample(self) -> None:
        begun = time.monotonic()
        self._wanted = False
        become_ordinary()
        try:
            moved = sample(self._context)
        finally:
            if self._source is not None:
                become_urgent()
            took = time.monotonic() - begun
            self._sample_at = begun + max(_SAMPLE_EVERY, took * _SAMPLE_SHARE)
        self.status.values["samples"] += 1
        self.status.values["sampled"] += moved

    def _say(self, priority: int, message: str) -> None:
        """Log; warnings at most once a minute."""
        now = time.monotonic()
        if priority <= WARNING:
            if now < self._say_at:
                return
            self._say_at = now + _SAY_EVERY
        self._context.log(priority, message, stage=STAGE)
