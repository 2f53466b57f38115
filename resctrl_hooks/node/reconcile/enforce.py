"""Enforcement of each running container's features: its RDT class, then its group, then all other steps.

A recorded step that no longer holds is applied again, also after a killed hook. A container that no hook has seen gets
its planned steps, under one lock and with one record.
"""

import time

from ..errors import DeadlineError, LockTimeoutError
from ..fault_report import as_hook_error
from ..feature import Step
from ..feature_table import CLASS, CONTAINER, FEATURES, NODE
from ..ledger import WAITING
from ..log import INFO, WARNING
from ..registry import features_in_use, kind_of
from ..steps import apply_steps
from .adopt import can_join, join, record_late, record_running, stray_threads, tell_of_bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from ..errors import HookError
    from ..feature import Feature
    from ..resctrl.locked_key import LockedKey
    from .report import Options, Report

_CALM_SECONDS = 3600.0  # seconds without a restart after which earlier ones are forgotten
_NOT_AGAIN = "not restarted: {} exits within an hour"


def enforce(
    context: "Context",
    containers: "list[Running]",
    options: "Options",
    report: "Report",
    marked: "Iterable[str] | None" = None,
) -> "list[Running]":
    """Apply what each container should have, under one lock each; return those that wait for an RMID.

    ``marked`` are the keys marked as waiting, where they were listed a moment ago.
    """
    pass_ = _Pass(context, containers, report, context.ledger.marked(WAITING) if marked is None else marked)
    waiting = []
    for container in containers:
        if options.live is None or container.key in options.live:
            with report.catching(context, container.id):
                if not pass_.enforce(container):
                    waiting.append(container)
    return waiting


class _Pass:
    """One pass over containers: apply their steps that do not hold, the RDT class first."""

    def __init__(
        self, context: "Context", containers: "list[Running]", report: "Report", marked: "Iterable[str]"
    ) -> None:
        self._context = context
        self._report = report
        self._features = {one.name: one for one in features_in_use(context.settings)}
        self._can_join = can_join(context, containers, report)
        self._marked = set(marked)

    def enforce(self, container: "Running") -> bool:
        """Apply one container's missing steps; return false if it has to wait for an RMID.

        Its record is written before any effect, so that a kill leaves nothing unknown.
        """
        context, report = self._context, self._report
        classes, others = self._left(container, CLASS), self._left(container, CONTAINER)
        stray = self._stray(container)
        if report.dry_run:
            for _, step in classes + others:
                report.apply(step.feature, container.id)
            report.moved += stray
            report.adopted += [container.id] if stray else []
            if not container.recorded:
                report.placed += self._of_node(container)
            return True
        late = bool(container.record["steps"]) and not container.recorded
        joins = self._can_join and container.monitored
        joins = joins and bool(stray or late or classes or container.key in self._marked)
        joined = True
        if classes or others or joins or late or container.unsaid or container.changed:
            with context.monitor.hold(container.key) as locked:
                if container.revalidate(context.proc):
                    first, then = self._ready(container, classes), self._ready(container, others)
                    if late:
                        record_late(container, locked)
                        report.placed += self._of_node(container)
                    elif container.recorded and container.changed:
                        record_running(container, locked)  # planned again, or to be restarted
                    self._tell(container)
                    self._apply(container, first, locked)
                    if joins:
                        joined = self._join(container, locked)
                    container.recorded = container.recorded or late
                    if late or first:
                        container.note_class()  # the class's step may have failed
                    if not container.revalidate(context.proc):
                        return joined  # it ended while a handover released the lock
                    self._apply(container, then, locked)
                    if container.recorded and container.changed:
                        record_running(container, locked)
        unmet = container.record.get("unmet", {})
        reported = unmet if container.record.get("late") else container.record.get("unplanned", [])
        report.unmet.update({f"{container.id[:12]} {name}": unmet[name] for name in reported})
        return joined

    def _stray(self, container: "Running") -> int:
        """Return how many threads are outside the container's group, if it should have one."""
        if not (self._can_join and container.monitored):
            return 0
        with self._report.catching(self._context, container.key):
            tell_of_bound(self._context, container)
            return stray_threads(self._context, container)
        return 0

    def _left(self, container: "Running", kind: str) -> "list[tuple[Feature, Step]]":
        """Return the recorded or planned steps of a kind that do not hold."""
        found = []
        for record in container.record["steps"]:
            feature = self._features.get(record["feature"])
            if feature is not None and kind_of(feature.name) == kind:
                step = Step.of_record(record)
                if not _holds(feature, step, container, self._context):
                    found.append((feature, step))
        return found

    def _of_node(self, container: "Running") -> "list[str]":
        """Return the container's id if a step of it concerns the whole node."""
        return [container.id] if any(kind_of(step["feature"]) == NODE for step in container.record["steps"]) else []

    def _tell(self, container: "Running") -> None:
        """Log once what the container lacks because its plan failed."""
        for name in sorted(container.unsaid):
            self._say(container, name)
        container.unsaid.clear()

    def _join(self, container: "Running", locked: "LockedKey") -> bool:
        """Let a container join its group, in its present class."""
        try:
            container.revalidate(self._context.proc)
            return join(locked, self._context, container, self._report)
        except (DeadlineError, LockTimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # no feature's trouble is another's
            self._report.fail(self._context, container.key, error)
            return True

    def _ready(self, container: "Running", steps: "list[tuple[Feature, Step]]") -> "list[tuple[Feature, Step, str]]":
        """Return those of these steps that must be applied now, with the reason for each repetition."""
        ready = []
        for feature, step in steps:
            lost = self._start_again(container, feature, step)
            if lost is not None:
                ready.append((feature, step, lost))
        return ready

    def _start_again(self, container: "Running", feature: "Feature", step: Step) -> "str | None":
        """Return why a step is applied again, empty if unknown; None if it is not to be applied.

        A process that a step starts may end at once each time.
        """
        name = step.feature
        most = FEATURES[name].most_starts
        if not most:
            return ""
        if _holds(feature, step, container, self._context):
            return None  # checked without the lock while it was just being started
        allowed, why = _may_start(container, name, most), container.record.get("unmet", {}).get(name, "")
        not_again = _NOT_AGAIN.format(most)
        lost = ""
        if allowed or not why.startswith(not_again):
            lost = _lost(feature, step, container, self._context)  # applying it removes the evidence
            why = f"{not_again}; {lost}" if lost else not_again
        if allowed:
            return lost
        self._report.reasons.append(name)
        self._not_had(container, name, why)
        return None

    def _apply(self, container: "Running", ready: "list[tuple[Feature, Step, str]]", locked: "LockedKey") -> None:
        def on_step(number: int, error: "HookError | None") -> None:
            _, step, lost = ready[number]
            if isinstance(error, LockTimeoutError):
                raise error
            if error is not None:
                self._report.reasons.append(error.reason)
                self._not_had(container, step.feature, str(error))
                return
            container.lacks(step.feature, "")
            self._report.apply(step.feature, container.id)
            if lost:
                self._log(WARNING, container, f"{step.feature} of {container} exited and was restarted; {lost}")
            else:
                self._log(INFO, container, f"{step.feature} of {container} applied: {step.action}")

        apply_steps([(feature, step) for feature, step, _ in ready], container, locked, self._context, on_step)

    def _not_had(self, container: "Running", name: str, why: str) -> None:
        """Report an inapplicable feature: once in the log, and in each report.

        A container adopted late never had it, and nothing can repair that; for any other it is a problem.
        """
        if container.lacks(name, why):
            self._say(container, name)
        if not container.record.get("late"):
            self._report.failures[f"{container.id[:12]} {name}"] = why

    def _say(self, container: "Running", name: str) -> None:
        self._log(WARNING, container, f"{container} runs without {name}: {container.record['unmet'][name]}")

    def _log(self, priority: int, container: "Running", what: str) -> None:
        self._context.log(priority, what, stage="reconcile", key=container.key, container=container.id)


def _holds(feature: "Feature", step: Step, container: "Running", context: "Context") -> bool:
    try:
        return feature.holds(step, container, context)
    except DeadlineError:
        raise
    except Exception:  # noqa: BLE001  # applying it says what is wrong
        return False


def _lost(feature: "Feature", step: Step, container: "Running", context: "Context") -> str:
    """Return why a process that a feature had started has ended, if known."""
    try:
        return feature.lost(step, container, context)
    except DeadlineError:
        raise
    except Exception as caught:  # noqa: BLE001  # it is started again, whatever became of it
        return str(as_hook_error(caught))


def _may_start(container: "Running", name: str, most: int) -> bool:
    """Count a restart in the container's record, and return whether another one is allowed."""
    now = time.time()
    known = container.record.get("starts", {})
    starts = [one for one in known.get(name, []) if 0 <= now - one < _CALM_SECONDS]
    allowed = len(starts) < most
    container.set("starts", {**known, name: [*starts, now] if allowed else starts})
    return allowed
