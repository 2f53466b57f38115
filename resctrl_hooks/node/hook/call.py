"""The hook stages: createRuntime does a workload's steps before it runs, poststop takes them back.

Whatever goes wrong, the answer is one of two exit codes: 0 lets the container go on, 79 refuses it.
"""

import time
from _signal import ITIMER_REAL, SIG_UNBLOCK, SIGALRM, pthread_sigmask, setitimer, signal

from ..container.oci import STATE_LIMIT, parse_state, read_bundle
from ..container.workload import derive
from ..context import Context
from ..errors import DeadlineError, HookError, InputError, LockTimeoutError, SettingsError
from ..features.registry import features_in_use
from ..features.step import SKIP
from ..host.files import read_beginning, read_file, read_to_end
from ..host.procfs import cgroups_of, in_initial_user_namespace
from ..log import ERROR, INFO, WARNING, Log
from ..resctrl.locked_key import AGAIN
from ..settings import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..container.oci import State
    from ..container.workload import Workload
    from ..features.step import Feature, Step
    from ..resctrl.locked_key import LockedKey
    from ..settings import Settings

CREATE_RUNTIME = "createRuntime"
POSTSTOP = "poststop"
HOOK = "hook"
DONE = 0
REFUSED = 79  # the only other exit code; whatever else a broken hook answers, the guard in the hook's JSON makes it 0

_TIME_TO_TAKE_BACK = 1.0  # seconds, after the deadline and well before the runtime's own timeout
_ALARM_AGAIN = 0.25  # a deadline that somebody swallowed comes back
_LONGEST_STARVED = 60.0  # seconds that a processor is waited for; more is a hang of its own
_SCHEDSTAT = "/proc/self/schedstat"
_PAGE = 4096


class RefusedError(HookError):
    """A step failed whose feature's policy is ``fail``: the container must not start."""

    reason = "refused"


def run(config: str, stage: str, find: "Callable[[str], tuple[Settings, str]]" = load) -> int:
    """Serves one call by a runtime: reads the state from stdin, does its stage, logs, and returns the exit code.

    ``stage`` is ``createRuntime``, ``poststop``, or ``hook`` for what the state's status says. ``find`` gives the
    settings for ``config``: the command that people type can also go by a file that was never applied. A fault of our
    own is one line in the log, answered as the policy says, and never a traceback.
    """
    call = _Call(stage)
    try:
        return _run(call, config, find)
    # A container's start must not depend on our having no bugs, nor on somebody's Ctrl-C at a terminal.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        from ..fault_report import report  # only when something is broken

        names = call.names() if call.is_refusable() else None
        return REFUSED if report(config, call.stage, error, find, names) else DONE


def _run(call: "_Call", config: str, find: "Callable[[str], tuple[Settings, str]]") -> int:
    started = time.monotonic()
    if not in_initial_user_namespace():
        read_to_end(0)
        return DONE  # rootless Podman runs our hook too, and must not notice
    try:
        settings, problem = find(config)
    except SettingsError as error:
        read_to_end(0)
        Log()(ERROR, f"{error}; this container is left alone", stage=call.stage, reason=error.reason)
        return DONE
    context = Context(settings)
    if problem:
        context.log(WARNING, problem, stage=call.stage, reason=SettingsError.reason)
    return _answer(call, context, started)


def _answer(call: "_Call", context: Context, started: float) -> int:
    """Serves a call within the deadline, counts and logs it, and returns its exit code."""
    settings = context.settings
    try:
        _deadline(settings.deadline)
        try:
            summary = call.serve(context)
        except OSError as error:
            what = f"{error.filename or 'stdin'}: {error.strerror or 'can not be read'}"
            raise InputError(what, errno=error.errno or 0) from error
        finally:
            _deadline(0)
    except HookError as error:
        refused = (isinstance(error, RefusedError) or _refuses(context)) and call.is_refusable()
        outcome = "the container is refused" if refused else "the container goes on without"
        took = time.monotonic() - started
        reasons = context.failures or [error.reason]
        if refused:
            from ..refusals import REASON, record_refusal  # few refuse anything

            record_refusal(settings.state_dir, call.names(), str(error))
            reasons = [*dict.fromkeys([*reasons, REASON])]
        call.tally(context, took, reasons)
        message = f"{call.stage} of {call.subject}: {error}; {outcome}"
        context.log(ERROR, message, duration_usec=int(took * 1e6), **call.fields(error))
        return REFUSED if refused else DONE
    took = time.monotonic() - started
    call.tally(context, took, context.failures)
    if summary:
        context.log(INFO, f"{call.stage} of {call.subject}: {summary}", duration_usec=int(took * 1e6), **call.fields())
    return DONE


class _Call:
    """One call by a runtime, and as much as is known of it by now, for the log."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.data: "bytes | None" = None
        self.state: "State | None" = None
        self.workload: "Workload | None" = None

    @property
    def subject(self) -> str:
        return str(self.workload or (f"container {self.state.id}" if self.state else "an unknown container"))

    def names(self) -> "dict[str, str]":
        """What the container is called, as far as that is known."""
        found = {"id": self.state.id} if self.state else {}
        if self.workload is not None:
            of = self.workload
            found.update(key=of.key, namespace=of.namespace, pod=of.pod, container=of.container)
        return found

    def fields(self, error: "HookError | None" = None) -> "dict[str, str | int]":
        """The structured part of a log line."""
        fields: "dict[str, str | int]" = {"stage": self.stage}
        if self.state is not None:
            fields["container"] = self.state.id
        if self.workload is not None:
            fields["key"] = self.workload.key
        if error is not None:
            fields.update(reason=error.reason, errno=error.errno, kernel=error.kernel)
        return fields

    def _read(self) -> bytes:
        """The state, or of one that is too large the beginning."""
        data = self.data = read_beginning(0, STATE_LIMIT)
        if len(data) > STATE_LIMIT:
            read_to_end(0)
        return data

    def is_refusable(self) -> bool:
        """Whether refusing is an answer: not to a poststop, which must never fail, nor to what may be one."""
        if self.state is None:
            if self.data is None:
                try:
                    _deadline(_TIME_TO_TAKE_BACK)
                    self._read()
                except (HookError, OSError):
                    return self.stage == CREATE_RUNTIME
                finally:
                    _deadline(0)
            if b'"stopped"' in (self.data or b""):
                self.stage = POSTSTOP  # whatever the rest of it is worth
        return self.stage != POSTSTOP

    def tally(self, context: Context, seconds: float, reasons: "list[str]") -> None:
        """Counts this call."""
        context.ledger.tally(self.stage, seconds, reasons, self.workload.key if self.workload else "")

    def serve(self, context: Context) -> str:
        """Does the stage and says what was done in a few words."""
        data = self._read()
        if len(data) > STATE_LIMIT:
            raise InputError(f"the container state is larger than {STATE_LIMIT} bytes")
        state = self.state = parse_state(data)
        if self.stage == HOOK:
            self.stage = state.stage
        if self.stage == POSTSTOP:
            from ..lifecycle import poststop  # createRuntime, which starts containers, doesn't need it

            summary = poststop(state, context)
        else:
            if not state.pid:
                raise InputError("the container state names no process")
            bundle = read_bundle(state.bundle)
            cgroups = cgroups_of(context.proc, state.pid)
            workload = self.workload = derive(state, bundle, cgroups, context.settings.cgroup_path)
            try:
                summary = create_runtime(workload, context)
            except RefusedError:
                raise
            except Exception as error:
                _give_up(error, workload, context)
                raise
        try:
            idle = context.ledger.marked("idle")
            if idle:
                from ..lifecycle import reap  # an import that most calls don't need

                reap(context, idle)
        except Exception as error:  # noqa: BLE001
            # This container's part is done: what others left behind, or too much of it, is no reason to refuse it.
            context.log(WARNING, f"idle groups are left to reconcile: {error}", stage=self.stage)
        return summary


def create_runtime(workload: "Workload", context: Context) -> str:
    """Does the steps of every feature for a workload whose process waits to be started.

    Raises:
        RefusedError: a step failed whose feature's policy is ``fail``; everything done here is undone.
        HookError: the ledger can't be used, or the deadline passed.
    """
    steps = planned(workload, context, features_in_use(context.settings, workload))
    todo = [(feature, step) for feature, step in steps if step.action != SKIP]
    if not todo:
        return "; ".join(step.why for _, step in steps) or "no feature concerns it"
    context.strict = _strict(todo, context)
    earlier = context.ledger.key_of(workload.id)
    if earlier and earlier != workload.key:
        _forget(workload.id, earlier, context)
    with context.monitor.hold(workload.key) as locked:
        new, had = not locked.tracked, set(locked.how)
        if earlier == workload.key:
            _release_in(locked, workload.id, context)  # a restart under the same id whose poststop has not come
        details = {**workload.details(), "steps": [step.as_record() for _, step in todo]}
        if earlier:
            details[AGAIN] = True
        locked.add_member(workload.id, details, workload.pid)
        problems: "list[HookError | None]" = []
        for number, (feature, step) in enumerate(todo):
            problems.append(_do(feature, step, workload, locked, context))
            context.strict = _strict(todo[number + 1 :], context)
        refusal = next((problem for problem in problems if isinstance(problem, RefusedError)), None)
        if refusal is not None:
            _release_in(locked, workload.id, context)
            if new and not locked.members():
                locked.release()
            else:
                locked.release_but(had)
            raise refusal
    return "; ".join(str(problem or step.why) for problem, (_, step) in zip(problems, todo))


def _strict(todo: "list[tuple[Feature, Step]]", context: Context) -> bool:
    return any(feature.failure_policy(context.settings) == "fail" for feature, _ in todo)


def _refuses(context: Context) -> bool:
    """Whether a container is refused for which time has run out, or the ledger can't be used."""
    return context.strict or context.settings.failure_policy == "fail"


def planned(
    workload: "Workload", context: Context, features: "list[tuple[str, Feature]] | None" = None
) -> "list[tuple[Feature, Step]]":
    """The steps of features, all that are in use unless said, in order; one that can't plan has none, or refuses.

    Raises:
        RefusedError: a feature whose policy is ``fail`` can't plan.
    """
    found = []
    for name, feature in features_in_use(context.settings) if features is None else features:
        try:
            found += [(feature, step) for step in feature.plan(workload, context)]
        except DeadlineError:
            raise
        except Exception as caught:  # no feature's trouble is another's
            trouble = _trouble(name, feature, caught, workload, context)
            if isinstance(trouble, RefusedError):
                raise trouble from caught
    return found


def _do(
    feature: "Feature", step: "Step", workload: "Workload", locked: "LockedKey", context: Context
) -> "HookError | None":
    """Does a step, and returns what went wrong, as `_trouble` has it."""
    try:
        feature.apply(step, workload, locked, context)
    except DeadlineError:
        raise
    except Exception as caught:  # noqa: BLE001  # no feature's trouble is another's
        return _trouble(step.feature, feature, caught, workload, context)
    return None


def _trouble(name: str, feature: "Feature", caught: Exception, workload: "Workload", context: Context) -> HookError:
    """What went wrong with a feature: a RefusedError if its policy is to refuse, else it is in the log by now."""
    if isinstance(caught, HookError):
        error = caught
    else:
        from ..fault_report import as_hook_error  # only when something is broken

        error = as_hook_error(caught)
    context.failures.append(error.reason)
    if feature.failure_policy(context.settings) == "fail":
        return RefusedError(f"{name}: {error.message}", hint=error.hint, errno=error.errno, kernel=error.kernel)
    context.log(
        WARNING,
        f"{name} of {workload}: {error}",
        stage=CREATE_RUNTIME,
        key=workload.key,
        container=workload.id,
        reason=error.reason,
        errno=error.errno,
        kernel=error.kernel,
    )
    return error


def _give_up(error: Exception, workload: "Workload", context: Context) -> None:
    """Leaves what is missing to reconcile, or under ``fail`` takes back what was done: poststop may never come."""
    late = isinstance(error, (DeadlineError, LockTimeoutError))
    _deadline(0)
    if not _refuses(context):
        if late:
            context.ledger.mark("waiting", workload.key)  # needs no lock; reconcile finds the container itself
            context.ledger.wake()
    elif not isinstance(error, LockTimeoutError):  # without the lock nothing was done
        try:
            _deadline(_TIME_TO_TAKE_BACK)
            _forget(workload.id, workload.key, context)
        except (HookError, OSError):
            pass  # what can't be taken back now is found dead by reconcile
        finally:
            _deadline(0)


def _forget(container: str, key: str, context: Context) -> None:
    from ..lifecycle import forget  # as below

    forget(container, key, context)


def _release_in(locked: "LockedKey", container: str, context: Context) -> None:
    from ..lifecycle import release_container  # only where something ends

    release_container(locked, container, context)


def _deadline(seconds: float) -> None:
    """Makes DeadlineError rise here after so many seconds, again and again; 0 takes that back.

    Seconds in which we only waited for a processor don't count: a node with too much to do is slow, and what is slow
    gets done; what hangs waits for something else, or keeps a processor busy.
    """
    until = time.monotonic() + seconds
    starved = _starved() if seconds else 0.0

    def rise(*_: object) -> None:
        left = until + min(_starved() - starved, _LONGEST_STARVED) - time.monotonic()
        if left <= 0:
            raise DeadlineError("the hook's deadline passed")
        setitimer(ITIMER_REAL, left, _ALARM_AGAIN)

    signal(SIGALRM, rise)
    pthread_sigmask(SIG_UNBLOCK, (SIGALRM,))  # crun calls hooks with every signal blocked
    setitimer(ITIMER_REAL, seconds, _ALARM_AGAIN if seconds else 0)


def _starved() -> float:
    """For how many seconds this process was ready to run, and there was no processor for it or its cgroup.

    Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    try:
        return int(read_file(_SCHEDSTAT, _PAGE).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # a kernel that doesn't count it
