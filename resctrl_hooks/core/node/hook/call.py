"""One call by a runtime, from reading its state to the exit code: 0 lets the container start, 79 refuses it."""

import time

from .. import errors
from ..container.oci import CREATE_RUNTIME, HOOK, POSTSTOP, STATE_LIMIT, parse_state, read_bundle
from ..context import TIME_TO_TAKE_BACK, Context, set_deadline
from ..host.files import read_beginning, read_to_end
from ..host.procfs import cgroups_of, in_initial_user_namespace
from ..ledger import IDLE
from ..log import ERROR, INFO, WARNING, Log
from ..settings import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
    call = Call(stage, "container started without resctrl-hooks")
    try:
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
        return REFUSED if answer(call, call.serve, context) else DONE
    # A container's start must depend neither on our bugs nor on a Ctrl-C at a terminal.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        from ..fault_report import report  # only when something is broken

        names = call.known() if call.is_refusable() else None
        return REFUSED if report(config, call.stage, error, find, names) else DONE


def stopped(container: str, context: Context) -> str:
    """Serve a container's end; many containers have no record. Return a short description."""
    key = context.ledger.key_of(container)
    if not key:
        return ""
    from .poststop import poststop  # createRuntime does not need it

    return poststop(container, key, context)


def answer(
    call: "Call", work: "Callable[[Context], str]", context: Context, reply: "Callable[[str], None] | None" = None
) -> str:
    """Do a call's work within the deadline, reply, count and log it; return why it is refused, empty if it is not.

    ``work`` completes the call's facts and returns a short description of the result; its expected errors are
    HookErrors. ``reply`` receives the return value first.
    """
    priority, refusal, call.reasons = INFO, "", context.failures
    fields: "dict[str, str | int]" = {}
    try:
        set_deadline(context.settings.deadline)
        try:
            outcome = work(context)
        finally:
            set_deadline(0)
    except errors.HookError as error:
        if isinstance(error, errors.DeadlineError):
            set_deadline(0)  # one that passes while it is cancelled would pass again
        from ..failure_policies import incomplete_refuses  # only when something went wrong
        from ..refusals import reasons_of, record_refusal

        refused = (error.refuses or incomplete_refuses(context)) and call.is_refusable()
        if refused:
            refusal = str(error)
            record_refusal(context.settings.state_dir, call.known(), refusal)
        call.reasons = reasons_of(context.failures, error, refused=refused)
        left = "reconcile will clean up" if call.stage == POSTSTOP else call.left
        outcome = f"{error}; {'container rejected' if refused else left}"
        priority, fields = ERROR, error.fields()
    took = time.monotonic() - call.begun
    if reply is not None:
        reply(refusal)
    context.ledger.count_call(call.stage, took, call.reasons, call.key)
    if outcome:
        names = {field: value for field, value in (("container", call.id), ("key", call.key)) if value}
        message = f"{call.stage} of {call}: {outcome}"
        context.log(priority, message, duration_usec=int(took * 1e6), stage=call.stage, **names, **fields)
    return refusal


class Call:
    """One call by a runtime, with the facts known so far: the hook's, and the base of others that `answer` serves.

    ``left`` states what a failure leaves that does not refuse. ``data`` is the state on stdin, None until it is read.
    """

    def __init__(self, stage: str, left: str, data: "bytes | None" = None) -> None:
        self.begun = time.monotonic()
        self.stage, self.left, self.data = stage, left, data
        self.id = self.key = ""
        self.names: "dict[str, str]" = {}  # namespace, pod and container
        self.reasons: "list[str]" = []  # of its failures, for the call metrics
        self.workload: "Workload | None" = None

    def __str__(self) -> str:
        return str(self.workload or (f"container {self.id}" if self.id else "an unknown container"))

    def known(self) -> "dict[str, str]":
        """Return the known names and ids."""
        return {name: value for name, value in (("id", self.id), ("key", self.key)) if value} | self.names

    def _read(self) -> bytes:
        """Return the state; of an oversized one, the beginning."""
        data = self.data = read_beginning(0, STATE_LIMIT)
        if len(data) > STATE_LIMIT:
            read_to_end(0)
        return data

    def is_refusable(self) -> bool:
        """Return whether the call can be refused: a poststop, or a possible one, must never fail."""
        if not self.id:
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

    def serve(self, context: Context) -> str:
        """Do the stage and return a short description of the result."""
        try:
            data = self._read()
            if len(data) > STATE_LIMIT:
                raise errors.InputError(f"the container state is larger than {STATE_LIMIT} bytes")
            state = parse_state(data)
            self.id = state.id
            if self.stage == HOOK:
                self.stage = state.stage
            if self.stage == POSTSTOP:
                summary = stopped(state.id, context)
            else:
                from ..container.workload import derive  # a poststop needs neither
                from .create_runtime import create_runtime

                if not state.pid:
                    raise errors.InputError("the container state has no pid")
                cgroups = cgroups_of(context.proc, state.pid)
                workload = derive(state, read_bundle(state.bundle), cgroups, context.settings.cgroup_path)
                self.workload, self.key = workload, workload.key
                self.names = {"namespace": workload.namespace, "pod": workload.pod, "container": workload.container}
                summary = create_runtime(workload, context)
        except OSError as error:
            raise errors.InputError.of_file(error, error.filename or "stdin") from error
        try:
            if context.ledger.marked(IDLE):
                from ..lifecycle import reap_some  # an import that most calls do not need

                reap_some(context)
        except Exception as error:  # noqa: BLE001
            # This container's part is complete: leftovers of others are no reason to refuse it.
            context.log(WARNING, f"groups of ended pods left to reconcile: {error}", stage=self.stage)
        return summary
