"""Dry run of a hook call for a container state, with the hook's own functions.

A captured state can be explained after its process has ended; unknown facts are marked.
"""

from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.config import Effective
from resctrl_hooks.core.inventory.feature_display.model import Found
from resctrl_hooks.core.inventory.feature_display.table import display
from resctrl_hooks.core.node.container.oci import BUNDLE_LIMIT, POSTSTOP, Bundle, State, parse_state, read_bundle
from resctrl_hooks.core.node.container.unread_annotations import unread_annotations
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, InputError
from resctrl_hooks.core.node.failure_policies import incomplete_refuses, refuses
from resctrl_hooks.core.node.feature import SKIP, Step
from resctrl_hooks.core.node.hook.call import DONE, REFUSED
from resctrl_hooks.core.node.hook.create_runtime import planned
from resctrl_hooks.core.node.host.files import is_folder, parse_json, read_file
from resctrl_hooks.core.node.host.procfs import cgroups_of, in_initial_user_namespace, start_time
from resctrl_hooks.core.node.lifecycle import ENDS, LIVES, WAITS, fate, is_of_earlier_run
from resctrl_hooks.core.node.log import WARNING, Log
from resctrl_hooks.core.node.resctrl.group import name_of

from .model import Explanation, StepModel

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord

_FATES = {
    LIVES: "stays: other containers of the key are running",
    WAITS: "stays until the pod ends (while its cgroup {} exists)",
    ENDS: "is removed and its RMID freed",
}


class _Notes(Log):
    """A log that keeps the hook's warnings."""

    def __init__(self) -> None:
        super().__init__(stderr=False)
        self.lines: list[str] = []

    def __call__(self, priority: int, message: str, **_: str | int) -> None:
        if priority <= WARNING:
            self.lines.append(message)


def explain(data: bytes, found: Effective, *, stage: str = "", bundle: str = "") -> Explanation:
    """Explain what the hook would do for the state in ``data``.

    Without ``stage``, it is the one that follows from the state's status. ``bundle`` is a config.json, or its folder,
    in the place of the state's own bundle.

    Raises:
        InputError: ``data`` is not a container state, or ``bundle`` not a configuration.
    """
    log = _Notes()
    context = Context(found.settings, log)
    # a runtime never passes this; the output of a runtime that does not know the container is empty
    if not data.strip():
        raise InputError("the container state on stdin is empty; check the command before the pipe")
    state = parse_state(data)
    given = _read_config(bundle) if bundle else None
    process = _process(state, context)
    source = found.path or "the built-in defaults"
    report = Explanation(stage or state.stage, state.id, state.status, state.pid, process, source)
    if found.problem:
        report.notes.append(found.problem)
    if not in_initial_user_namespace():
        report.outcome = (
            "not in the host's initial user namespace (rootless Podman): the hook exits immediately without output"
        )
        return report
    try:
        if report.stage == POSTSTOP:
            _poststop(state, context, report)
        else:
            _create_runtime(state, given or _own_bundle(state, report), context, report)
    except HookError as error:
        _fails(report, error, refused=error.refuses or incomplete_refuses(context))
    report.notes += log.lines
    return report


def _process(state: State, context: Context) -> str:
    if not state.pid:
        return "none"
    return "lives" if start_time(context.proc, state.pid) else "gone"


def _read_config(path: str) -> Bundle:
    path = f"{path}/config.json" if is_folder(path) else path
    try:
        config = parse_json(read_file(path, BUNDLE_LIMIT, follow=True))
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot use {path}: {what}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a JSON object")
    return Bundle(config)


def _own_bundle(state: State, report: Explanation) -> Bundle:
    try:
        return read_bundle(state.bundle)
    except InputError as error:
        what = "the hook would fail; the explanation assumes an empty config.json; name another file with --bundle"
        report.notes.append(f"{error}: {what}")
        report.blocked = str(error)
        return Bundle({})


def _create_runtime(state: State, bundle: Bundle, context: Context, report: Explanation) -> None:
    cgroups = cgroups_of(context.proc, state.pid)
    workload = derive(state, bundle, cgroups, context.settings.cgroup_path)
    key_of = "pod" if workload.in_pod else "container"
    report.workload = {"key": workload.key, "keyOf": key_of, **_recorded(workload.details())}
    gone = f"process {state.pid} has ended" if state.pid else "the state has no pid"
    if report.process != "lives":
        report.notes.append(
            f"{gone}, so its cgroup and RDT class are unknown: the hook would fail; the explanation uses only the "
            "state and the bundle (a Podman pod is identified only by its cgroup)"
        )
        workload.pid = 0
        if not state.pid:
            report.blocked = gone
    elif not workload.cgroup:
        where = ", ".join(dict.fromkeys(cgroup.path for cgroup in cgroups)) or "none"
        report.notes.append(f"process {state.pid} may not be the container's: it is in the cgroup {where}")
    steps = planned(workload, context)
    report.steps = [_explained_step(step, workload, context) for _, step in steps]
    _look_back(workload, context, report)
    names = unread_annotations(workload.annotations)
    if names:
        report.notes.append(f"annotations of NRI plugins that are not read: {', '.join(names)}")
    lost = report.process == "gone"  # it includes all steps for the container
    impossible = [step for step in report.steps if not step.skipped and (lost or not step.possible)]
    why = f": {gone}" if lost else ""
    refusing = any(refuses(step.feature, context) for step in impossible)
    if report.blocked:
        _fails(report, report.blocked, refused=incomplete_refuses(context))
    elif refusing:
        report.outcome = f"the container is rejected (exit code {REFUSED}){why}"
        report.exit_code = REFUSED
    elif impossible:
        report.outcome = f"the container starts without {', '.join(step.feature for step in impossible)}{why}"
    elif not report.steps:
        report.outcome = "the container starts; its steps are unknown, see the notes"
    elif all(step.skipped for step in report.steps):
        report.outcome = "the container starts; no feature applies"
    else:
        report.outcome = "the container starts after these steps"


def _explained_step(step: Step, workload: Workload, context: Context) -> StepModel:
    """Return a step with the current state of its target. Read-only."""
    found = Found() if step.action == SKIP else display(step.feature).probe(step, workload, context)
    foreign = f"; left unchanged: {', '.join(step.foreign)}" if step.foreign else ""
    return StepModel(step.feature, step.action, step.parameters, step.why + foreign, *found)


def _recorded(record: "MemberRecord") -> dict[str, Any]:
    """Return the names and places of a container as its record has them."""
    names = ("runtime", "namespace", "pod", "container", "cgroup", "podCgroup", "bundle")
    return {name: record.get(name, "") for name in names}


def _look_back(workload: Workload, context: Context, report: Explanation) -> None:
    """Return the ledger's data on this container."""
    earlier = context.ledger.key_of(workload.id)
    if earlier == workload.key:
        report.notes.append("this container is already recorded; its earlier run is released first")
    elif earlier:
        report.notes.append(f"this container is recorded under {earlier}, which is released first")


def _poststop(state: State, context: Context, report: Explanation) -> None:
    key = context.ledger.key_of(state.id)
    pod = context.ledger.read_pod(key) if key else None
    record = context.ledger.read_member(key, state.id) if key else None
    if record is None or pod is None:
        report.outcome = "no record of this container; no action"
        return
    report.workload = {"key": key, **_recorded(record)}
    if is_of_earlier_run(record, context):
        report.outcome = "ignored: late poststop of an earlier run; the container is running again"
        return
    report.steps = [
        StepModel(step["feature"], f"revert: {step['action']}", step["needs"], "recorded")
        for step in reversed(record.get("steps", []))
    ]
    others = [context.ledger.read_member(key, other) for other in context.ledger.members(key) if other != state.id]
    names = {rdt_class: name_of(pod, rdt_class, context.monitor.group_prefix + key) for rdt_class in pod["groups"]}
    paths = [context.monitor.resctrl.group_folder(*group) for group in sorted(names.items())]
    report.outcome = f"{', '.join(paths) or 'no group'}: {_FATES[fate(pod, others, context)].format(pod.get('cgroup'))}"


def _fails(report: Explanation, error: HookError | str, *, refused: bool) -> None:
    refused = refused and report.stage != POSTSTOP
    report.exit_code = REFUSED if refused else DONE
    end = f"the container is rejected (exit code {REFUSED})" if refused else "the container starts without this feature"
    report.outcome = f"{error}; {end}"
