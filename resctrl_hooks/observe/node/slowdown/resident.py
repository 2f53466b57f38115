"""The sampling of the pods' speed as a resident of the sampling process."""

import posix

from ....core.node.container.names import RecordedNames
from ....core.node.errors import HookError
from ....core.node.host.instance import RunningError, only_instance
from ....core.node.log import WARNING
from ....core.node.names import SLOWDOWN_STATUS
from ....core.node.resctrl.absence import has_counters
from ..guard.section import section as guard_section
from ..guard.section import slowdown_of
from ..resident import Moment, Resident
from .baseline.store import Store
from .constants import FEWEST, JUDGED, MOST_SLOWED, SLOWED_TURNS, UNWATCHED_WINDOWS, WINDOW
from .evidence.perf.watched import Candidate, chosen, turn_of
from .live import Live
from .section import LOCK, section
from .status import Status
from .verdict import SLOWED_WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.context import Context
    from .evidence.window import Window
    from .live import Finding

NAME = "slowdown"


class SlowdownResident(Resident):
    """Judges all pods once in each window, and learns from quiet ones. It holds the lock of the baselines."""

    name = NAME
    interval = WINDOW

    def __init__(self, context: "Context", live: Live, lock: int) -> None:
        self.status = f"slowdown of pods every {WINDOW:g} s"
        self._context = context
        self._settings = section(context.settings)
        guard = guard_section(context.settings)
        self._protected = list(guard["protect"])
        self._reported = set(slowdown_of(guard))
        self._live = live
        self._lock = lock
        self._names = RecordedNames(context.ledger)
        self._findings: "dict[str, Finding]" = {}
        self._turn = 0
        path = f"{context.settings.state_dir}/{SLOWDOWN_STATUS}"
        self._file = Status(path, context.log, self._names.of)

    @property
    def unsaved(self) -> "dict[str, str]":
        """The baselines, while they cannot be saved."""
        why = self._live.saving.why
        return {"baselines": why} if why else {}

    def sample(self, moment: Moment) -> None:
        """End a window, judge all pods, and begin the next window.

        Raises:
            HookError: resctrl is gone.
        """
        snapshot = moment.snapshot
        watch = self._watched(snapshot.held or {key: set() for key in snapshot.pods})  # without resctrl: all
        window = self._live.step(watch, snapshot.pods)
        if window is None:
            return
        if self._live.watched.why_not:
            self._live.forget(UNWATCHED_WINDOWS)
        self._judge(window, snapshot.held)

    def _judge(self, window: "Window", held: "dict[str, set[str]]") -> None:
        """Judge pods at the end of a window, and write the verdicts on all of them."""
        kept = self._kept(held)
        self._findings = {key: kept.get(key) or self._live.present(key, JUDGED) for key in window.uses}
        self._file.saw(window, self._findings)
        self._file.write(self._findings, self._pressed(held))

    def _kept(self, held: "dict[str, set[str]]") -> "dict[str, Finding]":
        """Return the findings of slowed pods that are not judged now, as they are too many: the newest ones.

        The guard acts on pods of the classes that it protects, so these are judged.
        """
        slowed = [
            (found.windows[-1].time, key)
            for key, found in self._findings.items()
            if found.verdict.verdict == SLOWED_WORD and self._reported.isdisjoint(held.get(key, ()))
        ]
        now = max(MOST_SLOWED, -(-len(slowed) // SLOWED_TURNS))
        return {key: self._findings[key] for _, key in sorted(slowed)[now:]}

    def _watched(self, held: "dict[str, set[str]]") -> "list[str]":
        """Return the pods with performance counters in the next window."""
        self._names.learn(held)
        pods = [self._candidate(key, tuple(sorted(classes))) for key, classes in held.items()]
        most = int(self._settings["pods"])
        self._turn += 1
        return turn_of(chosen(pods, self._settings["watch"], self._protected, most), most, self._turn)

    def _candidate(self, key: str, classes: "tuple[str, ...]") -> Candidate:
        namespace, pod, container = self._names.of(key)
        found = self._findings.get(key)
        use = self._live.windows[-1].uses.get(key) if self._live.windows else None
        return Candidate(
            key,
            "/".join(filter(None, (namespace, pod or container))),
            tuple(name or "/" for name in classes),
            found is not None and found.verdict.verdict == SLOWED_WORD,
            (use.cpu if use else None) or 0.0,
        )

    def _pressed(self, held: "dict[str, set[str]]") -> "dict[str, Any]":
        """Return the pods that memory bandwidth slows in their last windows, with the start of these.

        The guard only reads those of classes that are protected at a slowdown.
        """
        found: "dict[str, Any]" = {}
        for key, one in self._findings.items():
            if one.verdict.ratio is None or self._reported.isdisjoint(held.get(key, ())):
                continue
            now = self._live.pressed(key, one, FEWEST)
            if now is not None:
                verdict, windows = now
                found[key] = {
                    "ratio": verdict.ratio,
                    "classes": sorted(held.get(key, ())),
                    "domains": sorted({number for one in windows for number in one.together.memory[key]}),
                    "since": windows[0].time - windows[0].seconds,
                    "until": windows[-1].time,
                }
        return found

    def close(self) -> None:
        """Save the baselines, and release counters and the lock."""
        try:
            self._file.remove()
            self._live.close()
        finally:
            posix.close(self._lock)


def start(context: "Context") -> "SlowdownResident | None":
    """Load the baselines and begin; None if it is off.

    Raises:
        HookError: another process samples, resctrl should be mounted and is not, or the baselines are unreadable.
        OSError: the state directory is unusable.
    """
    settings = section(context.settings)
    if not settings["enabled"]:
        return None

    def log(priority: int, text: str) -> None:
        context.log(priority, f"{NAME}: {text}", stage=NAME)

    has_counters(context.monitor.resctrl)  # first: without resctrl, create nothing
    try:
        lock = only_instance(f"{context.settings.state_dir}/{LOCK}")
    except RunningError as error:
        raise HookError(f"{error}; it adds samples to the baselines") from None
    try:
        store = Store(settings["directory"])
        problem = store.load()
        if problem:
            log(WARNING, problem)
        return SlowdownResident(context, Live(context, store, log, perf=settings["perf"]), lock)
    except BaseException:
        posix.close(lock)
        raise
