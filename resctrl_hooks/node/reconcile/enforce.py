"""Puts in force what each living container is to have: the steps of every feature but the group, which `adopt` sees to.

What was recorded and holds no more is applied again, whoever undid it, and so is what a killed hook recorded and did
not come to do. A container that no hook has seen gets what was planned for it just now.
"""

import time

from ..cgroup_settings.told import collect
from ..errors import DeadlineError, LockTimeoutError
from ..fault_report import as_hook_error
from ..feature import Step, describe
from ..feature_table import CLASS, CONTAINER, FEATURES
from ..host.files import format_json
from ..log import INFO, WARNING
from ..registry import features_in_use
from .adopt import born_at, record_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from ..feature import Feature
    from ..resctrl.locked_key import LockedKey
    from .report import Options, Report

_CALM_SECONDS = 3600.0  # after so long without a new start all is forgotten
_NOT_AGAIN = "it ended {} times and is not started again before an hour has passed"


def enforce_classes(context: "Context", containers: "list[Running]", options: "Options", report: "Report") -> None:
    """The RDT classes, before the groups: a group lives in its container's class."""
    _enforce_all(context, containers, options, report, classes=True)


def enforce(context: "Context", containers: "list[Running]", options: "Options", report: "Report") -> None:
    """All other features of each container, each apart from the others."""
    _enforce_all(context, containers, options, report, classes=False)


def _enforce_all(
    context: "Context", containers: "list[Running]", options: "Options", report: "Report", *, classes: bool
) -> None:
    kind = CLASS if classes else CONTAINER
    features = {
        feature.name: feature for feature in features_in_use(context.settings) if FEATURES[feature.name].kind == kind
    }
    for container in containers:
        if options.live is None or container.key in options.live:
            try:
                _enforce(context, container, features, report, classes=classes)
            except Exception as error:  # noqa: BLE001  # one container's trouble is no other's
                report.fail(context, container.id, error)


def _enforce(
    context: "Context", container: "Running", features: "dict[str, Feature]", report: "Report", *, classes: bool
) -> None:
    steps = [Step.of_record(record) for record in container.steps if record["feature"] in features]
    left = [step for step in steps if not _holds(features[step.feature], step, container, context)]
    if report.dry_run:
        for step in left:
            report.apply(step.feature, container.id)
        return
    new = not classes and (bool(container.unsaid) or bool(container.steps and not container.recorded))
    if left or new or container.changed:
        with context.monitor.hold(container.key) as locked:
            if container.look_again(context.proc):
                before = format_json(container.details())
                if container.changed:
                    record_running(container, locked)  # what was planned again, before it is done
                    container.changed = False
                if new and not container.recorded:
                    describe(container, locked, born_at(container))
                    locked.save()
                    record_running(container, locked)  # first, so that who is killed now leaves what can be ended
                    container.recorded = True
                for name in () if classes else sorted(container.unsaid):
                    _say(context, container, name)
                    container.unsaid.discard(name)
                if container.leaf is not None and container.leaf.own_scope:
                    collect([(features[step.feature], step) for step in left], container, container.leaf, context)
                for step in left:
                    _apply(context, container, features[step.feature], step, locked, report)
                if container.recorded and format_json(container.details()) != before:
                    record_running(container, locked)
    if not classes:
        told = container.unmet if container.late else container.unplanned
        report.unmet.update({f"{container.id[:12]} {name}": container.unmet[name] for name in told})


def _holds(feature: "Feature", step: Step, container: "Running", context: "Context") -> bool:
    try:
        return feature.holds(step, container, context)
    except DeadlineError:
        raise
    except Exception:  # noqa: BLE001  # applying it says what is wrong
        return False


def _apply(
    context: "Context", container: "Running", feature: "Feature", step: Step, locked: "LockedKey", report: "Report"
) -> None:
    name = step.feature
    lost = ""
    try:
        most = FEATURES[name].most_starts
        if most:  # what it starts may end at once each time
            if _holds(feature, step, container, context):
                return  # asked without the lock, it was just being started
            allowed, why = _may_start(container, name, most), container.unmet.get(name, "")
            not_again = _NOT_AGAIN.format(most)
            if allowed or not why.startswith(not_again):
                lost = _lost(feature, step, container, context)  # applying it removes what says so
                why = f"{not_again}; {lost}" if lost else not_again
            if not allowed:
                report.reasons.append(name)
                _not_had(context, container, name, why, report)
                return
        feature.apply(step, container, locked, context)
    except (DeadlineError, LockTimeoutError):
        raise
    except Exception as caught:  # noqa: BLE001  # no feature's trouble is another's
        error = as_hook_error(caught)
        report.reasons.append(error.reason)
        _not_had(context, container, name, str(error), report)
        return
    container.unmet.pop(name, None)
    report.apply(name, container.id)
    what = f"{name} of {container} is in force: {step.action}"
    if lost:
        what = f"{name} of {container} had ended and is started again; {lost}"
    context.log(WARNING if lost else INFO, what, stage="reconcile", key=container.key, container=container.id)


def _lost(feature: "Feature", step: Step, container: "Running", context: "Context") -> str:
    """Why what a feature had started runs no more, where it can tell."""
    try:
        return feature.lost(step, container, context)
    except DeadlineError:
        raise
    except Exception as caught:  # noqa: BLE001  # it is started again, whatever became of it
        return str(as_hook_error(caught))


def _may_start(container: "Running", name: str, most: int) -> bool:
    """Counts a start in the container's record, and says whether there may be one more."""
    now = time.time()
    starts = [one for one in container.starts.get(name, []) if 0 <= now - one < _CALM_SECONDS]
    allowed = len(starts) < most
    container.starts[name] = [*starts, now] if allowed else starts
    return allowed


def _not_had(context: "Context", container: "Running", name: str, why: str, report: "Report") -> None:
    """What a container can't have: said in the log once, and in each report.

    One that was taken in late never had it, which nothing here can repair; of any other something is wrong.
    """
    if container.unmet.get(name) != why:
        container.unmet[name] = why
        _say(context, container, name)
    if not container.late:
        report.failures[f"{container.id[:12]} {name}"] = why


def _say(context: "Context", container: "Running", name: str) -> None:
    what = f"{container} runs without {name}: {container.unmet[name]}"
    context.log(WARNING, what, stage="reconcile", key=container.key, container=container.id)
