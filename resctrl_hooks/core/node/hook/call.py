"""One call by a runtime, from reading its state to the exit code: 0 lets the container start, 79 refuses it."""

import time

from .. import errors
from ..container.oci import CREATE_RUNTIME, HOOK, POSTSTOP, STATE_LIMIT, parse_state, read_bundle
from ..context import Context
from ..host.files import read_beginning, read_to_end
from ..host.procfs import cgroups_of, in_initial_user_namespace
from ..ledger import IDLE
from ..log import ERROR, INFO, WARNING, Log
from ..settings import load
from .deadline import TIME_TO_TAKE_BACK, set_deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..container.oci import State
    from ..container.workload import Workload
    from ..settings import Settings

DONE = 0
REFUSED = 79  # the only other exit code; the guard in the hook's JSON turns all others into 0


def run(config: str, stage: str, find: "Callable[[str], tuple[Settings, str]]" = load) -> int:
    """Serve one call by a runtime: read the state from stdin, do its stage, log, and return the exit code.

    ``stage`` is ``createRuntime``, ``poststop``, or ``hook`` to follow the state's status. ``find`` returns the
    settings for ``config``: the operator's command can also use an unapplied file. An internal error is one line in the
    log, answered by the policy, and never a traceback.
    """
    call = _Call(stage)
    try:
        return _run(call, config, find)
    # A container's start must depend neither on our bugs nor on a Ctrl-C at a terminal.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        from ..fault_report import report  # only when something is broken

        names = call.names() if call.is_refusable() else None
        return REFUSED if report(config, call.stage, error, find, names) else DONE


def _run(call: "_Call", config: str, find: "Callable[[str], tuple[Settings, str]]") -> int:
    started = time.monotonic()
    if not in_initial_user_namespace():
        read_to_end(0)
        return DONE  # rootless Podman also runs the hook, and must not be affected
    try:
        settings, problem = find(config)
    except errors.SettingsError as error:
        read_to_end(0)
        Log()(ERROR, f"{error}; container skipped", stage=call.stage, reason=error.reason)
        return DONE
    context = Context(settings)
    if problem:
        context.log(WARNING, problem, stage=call.stage, reason=errors.SettingsError.reason)
    return _answer(call, context, started)


def _answer(call: "_Call", context: Context, started: float) -> int:
    """Serve a call within the deadline, count and log it, and return its exit code."""
    settings = context.settings
    try:
        set_deadline(settings.deadline)
        try:
            summary = call.serve(context)
        except OSError as error:
            raise errors.InputError.of_file(error, error.filename or "stdin") from error
        finally:
            set_deadline(0)
    except errors.HookError as error:
        from ..failure_policies import incomplete_refuses  # only when something went wrong
        from ..refusals import reasons_of, record_refusal

        refused = (error.refuses or incomplete_refuses(context)) and call.is_refusable()
        left = "reconcile will clean up" if call.stage == POSTSTOP else "container started without resctrl-hooks"
        outcome = "container rejected" if refused else left
        took = time.monotonic() - started
        if refused:
            record_refusal(settings.state_dir, call.names(), str(error))
        call.count(context, took, reasons_of(context.failures, error, refused=refused))
        message = f"{call.stage} of {call.subject}: {error}; {outcome}"
        context.log(ERROR, message, duration_usec=int(took * 1e6), **call.fields(), **error.fields())
        return REFUSED if refused else DONE
    took = time.monotonic() - started
    call.count(context, took, context.failures)
    if summary:
        context.log(INFO, f"{call.stage} of {call.subject}: {summary}", duration_usec=int(took * 1e6), **call.fields())
    return DONE


def stopped(container: str, context: Context) -> str:
    """Serve a container's end; many containers have no record. Return a short description."""
    key = context.ledger.key_of(container)
    if not key:
        return ""
    from .poststop import poststop  # createRuntime does not need it

    return poststop(container, key, context)


class _Call:
    """One call by a runtime, with the facts known so far, for the log."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.data: "bytes | None" = None
        self.state: "State | None" = None
        self.workload: "Workload | None" = None

    @property
    def subject(self) -> str:
        return str(self.workload or (f"container {self.state.id}" if self.state else "an unknown container"))

    def names(self) -> "dict[str, str]":
        """Return the container's names as far as known."""
        found = {"id": self.state.id} if self.state else {}
        if self.workload is not None:
            of = self.workload
            found.update(key=of.key, namespace=of.namespace, pod=of.pod, container=of.container)
        return found

    def fields(self) -> "dict[str, str]":
        """Return the structured part of a log line."""
        fields = {"stage": self.stage}
        if self.state is not None:
            fields["container"] = self.state.id
        if self.workload is not None:
            fields["key"] = self.workload.key
        return fields

    def _read(self) -> bytes:
        """Return the state; of an oversized one, the beginning."""
        data = self.data = read_beginning(0, STATE_LIMIT)
        if len(data) > STATE_LIMIT:
            read_to_end(0)
        return data

    def is_refusable(self) -> bool:
        """Return whether the call can be refused: a poststop, or a possible one, must never fail."""
        if self.state is None:
            if self.data is None:
                try:
                    set_deadline(TIME_TO_TAKE_BACK)
                    self._read()
                except (errors.HookError, OSError):
                    return self.stage == CREATE_RUNTIME
                finally:
                    set_deadline(0)
            if b'"stopped"' in (self.data or b""):
                self.stage = POSTSTOP  # even if the rest of it is invalid
        return self.stage != POSTSTOP

    def count(self, context: Context, seconds: float, reasons: "list[str]") -> None:
        """Count this call."""
        context.ledger.count_call(self.stage, seconds, reasons, self.workload.key if self.workload else "")

    def serve(self, context: Context) -> str:
        """Do the stage and return a short description of the result."""
        data = self._read()
        if len(data) > STATE_LIMIT:
            raise errors.InputError(f"the container state is larger than {STATE_LIMIT} bytes")
        state = self.state = parse_state(data)
        if self.stage == HOOK:
            self.stage = state.stage
        summary = stopped(state.id, context) if self.stage == POSTSTOP else self._create(state, context)
        try:
            if context.ledger.marked(IDLE):
                from ..lifecycle import reap_some  # an import that most calls do not need

                reap_some(context)
        except Exception as error:  # noqa: BLE001
            # This container's part is complete: leftovers of others are no reason to refuse it.
            context.log(WARNING, f"idle groups left to reconcile: {error}", stage=self.stage)
        return summary

    def _create(self, state: "State", context: Context) -> str:
        from ..container.workload import derive  # a poststop needs neither
        from .create_runtime import create_runtime

        if not state.pid:
            raise errors.InputError("the container state has no pid")
        bundle = read_bundle(state.bundle)
        cgroups = cgroups_of(context.proc, state.pid)
        workload = self.workload = derive(state, bundle, cgroups, context.settings.cgroup_path)
        return create_runtime(workload, context)
