"""Carries out the change of one running container under its key's lock: class, group, then all other steps.

Its record is written before any effect, so that a kill leaves nothing unknown, and again only if it has changed.
"""

import time

from ..errors import DeadlineError, LockTimeoutError
from ..fault_report import as_hook_error
from ..feature_table import FEATURES
from ..hook.create_runtime import apply_steps
from ..log import INFO, WARNING
from .join import join, record_late, record_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from ..errors import HookError
    from ..feature import Feature, Step
    from ..resctrl.locked_key import LockedKey
    from .change import Change, Steps
    from .report import Report


_CALM_SECONDS = 3600.0  # seconds without a restart after which earlier ones are forgotten
_NOT_AGAIN = "not restarted: {} exits within an hour"


def bring_in(change: "Change", locked: "LockedKey", context: "Context", report: "Report") -> bool:
    """Carry out a change unless its container has ended; return false if it waits for an RMID."""
    container = change.container
    if not container.revalidate(context.proc):
        return True
    one = _One(change, locked, context, report)
    if change.late:
        for _, step in change.others:
            _may_start(container, step.feature)  # the first start counts
        record_late(container, locked)
        report.add("placed", *change.placed)
    elif container.recorded and container.changed:
        record_running(container, locked)  # planned again
    one.log_unmet()
    one.apply(change.classes)
    joined = one.join() if change.joins else True
    container.recorded = container.recorded or change.late
    if change.late or change.classes:
        container.note_class()  # the class's step may have failed
    if container.revalidate(context.proc):  # it may have ended while a handover released the lock
        one.apply(change.others)
        # Its poststop may have forgotten it while programs ran for it.
        if container.recorded and container.changed and locked.member(container.id) is not None:
            record_running(container, locked)
    return joined


def take_in(context: "Context", change: "Change", report: "Report") -> bool:
    """Carry out a change under its key's lock, as `bring_in`."""
    with context.monitor.hold(change.container.key) as locked:
        return bring_in(change, locked, context, report)


class _One:
    """One container under its key's lock."""

    def __init__(self, change: "Change", locked: "LockedKey", context: "Context", report: "Report") -> None:
        self._container = change.container
        self._late = change.late
        self._locked = locked
        self._context = context
        self._report = report

    def join(self) -> bool:
        """Join the group of the present class; return false if it waits for an RMID."""
        try:
            self._container.revalidate(self._context.proc)
            return join(self._locked, self._context, self._container, self._report)
        except (DeadlineError, LockTimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # no feature's trouble is another's
            self._report.fail(self._context, self._container.key, error)
            return True

    def _start_again(self, feature: "Feature", step: "Step") -> "str | None":
        """Return why a step is applied again, empty if unknown; None if it is not to be applied.

        A process that a step starts may end at once each time.
        """
        container, name = self._container, step.feature
        most = FEATURES[name].most_starts
        if not most or self._late or name in container.replanned:
            return ""
        if holds(feature, step, container, self._context):
            return None  # checked without the lock while it was just being started
        allowed, why = _may_start(container, name), container.record.get("unmet", {}).get(name, "")
        not_again = _NOT_AGAIN.format(most)
        lost = ""
        if allowed or not why.startswith(not_again):
            lost = _lost(feature, step, container, self._context)  # applying it removes the evidence
            why = f"{not_again}; {lost}" if lost else not_again
        if allowed:
            self._write_start()
            return lost
        self._report.reasons.append(name)
        self._not_had(name, why)
        return None

    def _write_start(self) -> None:
        """Record a restart before it happens, so that a kill leaves it counted. The key is not held here."""
        self._locked.lock_again(self._context.monitor.patience)
        try:
            record_running(self._container, self._locked)
        finally:
            self._locked.unlock()

    def apply(self, steps: "Steps") -> None:
        """Apply those of these steps that must be applied now, each independently."""
        container = self._container
        lost: "dict[int, str]" = {}

        def may_apply(number: int) -> bool:
            why = self._start_again(*steps[number])
            if why is not None:
                lost[number] = why
            return why is not None

        def on_step(number: int, error: "HookError | None") -> None:
            _, step = steps[number]
            if isinstance(error, (DeadlineError, LockTimeoutError)):
                raise error
            if error is not None:
                self._report.reasons.append(error.reason)
                self._not_had(step.feature, str(error))
                return
            container.lacks(step.feature, "")
            self._report.add(f"applied {step.feature}", container.id)
            if lost.get(number):
                self._log(WARNING, f"{step.feature} of {container} exited and was restarted; {lost[number]}")
            else:
                self._log(INFO, f"{step.feature} of {container} applied: {step.action}")

        apply_steps(steps, container, self._locked, self._context, on_step, may_apply)

    def _not_had(self, name: str, why: str) -> None:
        """Report an inapplicable feature: once in the log, and in each report.

        A container adopted late never had it, and nothing can repair that; for any other it is a problem.
        """
        if self._container.lacks(name, why):
            self._container.unlogged.add(name)
            self.log_unmet()
        if not self._container.record.get("late"):
            self._report.add("failed", f"{self._container.id[:12]} {name}", why=why)

    def log_unmet(self) -> None:
        """Log once what the container lacks."""
        for name in sorted(self._container.unlogged):
            self._log(WARNING, f"{self._container} runs without {name}: {self._container.record['unmet'][name]}")
        self._container.unlogged.clear()

    def _log(self, priority: int, what: str) -> None:
        self._context.log(priority, what, stage="reconcile", key=self._container.key, container=self._container.id)


def holds(feature: "Feature", step: "Step", container: "Running", context: "Context") -> bool:
    """Return whether a step's result is in place; false if unknown, because applying it reports what is wrong."""
    try:
        return feature.holds(step, container, context)
    except DeadlineError:
        raise
    except Exception:  # noqa: BLE001  # see above
        return False


def _lost(feature: "Feature", step: "Step", container: "Running", context: "Context") -> str:
    """Return why a process that a feature had started has ended, if known."""
    try:
        return feature.lost(step, container, context)
    except DeadlineError:
        raise
    except Exception as caught:  # noqa: BLE001  # it is started again, whatever became of it
        return str(as_hook_error(caught))


def _may_start(container: "Running", name: str) -> bool:
    """Count a start in the container's record, and return whether another one is allowed."""
    most = FEATURES[name].most_starts
    if not most:
        return True
    now, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    known, uptimes = container.record.get("starts", {}), container.record.get("startUptimes", {})
    of_wall = [now for one in known.get(name, []) if 0 <= wall - one < _CALM_SECONDS]  # all that version 0.2 records
    starts = [one for one in uptimes.get(name, of_wall) if now - one < _CALM_SECONDS]
    allowed = len(starts) < most
    if allowed:
        starts.append(now)
    if starts != uptimes.get(name, []):
        container.set("startUptimes", {**uptimes, name: starts})
        container.set("starts", {**known, name: [wall - now + one for one in starts]})
    return allowed
