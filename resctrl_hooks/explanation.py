"""What the hook would do for a container state, and why, found with the hook's own functions and without doing it.

A captured state can be explained long after its process has gone: what can't be known any more is said.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from resctrl_hooks.config import InForce
from resctrl_hooks.memory_explained import FEATURES as MEMORY_FEATURES
from resctrl_hooks.memory_explained import found as memory_found
from resctrl_hooks.node.cpusets import format_list
from resctrl_hooks.node.errors import HookError, InputError
from resctrl_hooks.node.files import is_folder, parse_json, read_file
from resctrl_hooks.node.held import record_is_dead
from resctrl_hooks.node.hook import DONE, POSTSTOP, REFUSED, RefusedError, planned
from resctrl_hooks.node.lifetimes import ENDS, LIVES, WAITS, fate
from resctrl_hooks.node.log import WARNING, Log
from resctrl_hooks.node.monitoring import NAME as MONITORING
from resctrl_hooks.node.oci import BUNDLE_LIMIT, Bundle, State, parse_state, read_bundle
from resctrl_hooks.node.process import cgroups_of, in_initial_user_namespace, start_time
from resctrl_hooks.node.resctrl import MON_GROUPS
from resctrl_hooks.node.steps import SKIP, Node, Step
from resctrl_hooks.node.workload import Workload, derive

_FATES = {
    LIVES: "stays, other containers of the key live",
    WAITS: "stays until the pod ends, that is until {} is gone",
    ENDS: "is removed, and its RMID freed",
}
PLACEMENT = "placement"


@dataclass(frozen=True)
class SaidStep:
    """One step: what would be done or undone, why, what is found where it would be done, and whether it can be."""

    feature: str
    action: str
    needs: dict[str, Any]
    why: str
    where: str = ""
    finds: str = ""
    possible: bool = True

    @property
    def skipped(self) -> bool:
        """Whether it is there only to say why nothing is done."""
        return self.action == SKIP


@dataclass
class Explanation:
    """Everything that can be said of one call of the hook before it is made.

    ``blocked`` says why it would end before any step; the steps are then those of a call that isn't.
    """

    stage: str
    container: str
    status: str
    pid: int
    process: str
    settings: str
    workload: dict[str, Any] = field(default_factory=dict)
    steps: list[SaidStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocked: str = ""
    outcome: str = ""
    exit_code: int = DONE

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        values = asdict(self)
        values["exitCode"] = values.pop("exit_code")
        return values


class _Notes(Log):
    """A log that keeps what the hook would have warned of."""

    def __init__(self) -> None:
        super().__init__(stderr=False)
        self.lines: list[str] = []

    def __call__(self, priority: int, message: str, **_: str | int) -> None:
        if priority <= WARNING:
            self.lines.append(message)


def explain(data: bytes, found: InForce, *, stage: str = "", bundle: str = "") -> Explanation:
    """Explains what the hook would do for the state in ``data``.

    Args:
        data: an OCI state, as a runtime writes it to its hooks.
        found: the settings to go by.
        stage: the hook stage, or empty for the one that the state's status says.
        bundle: another config.json, or the folder of one, in the place of the state's own bundle.

    Raises:
        InputError: ``data`` is no container state, or ``bundle`` no configuration.
    """
    log = _Notes()
    node = Node(found.settings, log)
    state = parse_state(data)
    given = _read_config(bundle) if bundle else None
    process = _process(state, node)
    source = found.path or "the built-in defaults"
    said = Explanation(stage or state.stage, state.id, state.status, state.pid, process, source)
    if found.problem:
        said.notes.append(found.problem)
    if not in_initial_user_namespace():
        said.outcome = "not in the host's own user namespace (rootless Podman): the hook exits at once, without a word"
        return said
    try:
        if said.stage == POSTSTOP:
            _poststop(state, node, said)
        else:
            _create_runtime(state, given or _own_bundle(state, said), node, said)
    except HookError as error:
        _fails(said, error, refused=isinstance(error, RefusedError) or found.settings.failure_policy == "fail")
    said.notes += log.lines
    return said


def _process(state: State, node: Node) -> str:
    if not state.pid:
        return "none"
    return "lives" if start_time(node.proc, state.pid) else "gone"


def _read_config(path: str) -> Bundle:
    path = f"{path}/config.json" if is_folder(path) else path
    try:
        config = parse_json(read_file(path, BUNDLE_LIMIT, follow=True))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be used: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a JSON object")
    return Bundle(config)


def _own_bundle(state: State, said: Explanation) -> Bundle:
    try:
        return read_bundle(state.bundle)
    except InputError as error:
        what = "the hook would stop there; the rest supposes an empty one, unless --bundle names another"
        said.notes.append(f"{error}: {what}")
        said.blocked = str(error)
        return Bundle({})


def _create_runtime(state: State, bundle: Bundle, node: Node, said: Explanation) -> None:
    cgroups = cgroups_of(node.proc, state.pid)
    workload = derive(state, bundle, cgroups, node.settings.cgroup_path)
    said.workload = _described(workload)
    gone = f"process {state.pid} is not there any more" if state.pid else "the state names no process"
    if said.process != "lives":
        said.notes.append(
            f"{gone}, so its cgroup and its RDT class can't be seen: the hook would fail, the rest goes by the state "
            "and the bundle alone (a Podman pod is known only by the cgroup)"
        )
        workload.pid = 0
        if not state.pid:
            said.blocked = gone
    elif not workload.cgroup:
        where = ", ".join(dict.fromkeys(cgroup.path for cgroup in cgroups)) or "none"
        said.notes.append(f"is process {state.pid} the container's? Its cgroup is not the container's own: {where}")
    steps = planned(workload, node)
    said.steps = [_said(step, workload, node) for _, step in steps]
    _look_back(workload, node, said)
    lost = said.process == "gone"  # with it everything that is to be done for it
    impossible = [
        (feature, step)
        for (feature, _), step in zip(steps, said.steps, strict=True)
        if not step.skipped and (lost or not step.possible)
    ]
    why = f": {gone}" if lost else ""
    refusing = any(feature.failure_policy(node.settings) == "fail" for feature, _ in impossible)
    if said.blocked:
        _fails(said, said.blocked, refused=node.settings.failure_policy == "fail")
    elif refusing:
        said.outcome = f"the container is refused (exit code {REFUSED}){why}"
        said.exit_code = REFUSED
    elif impossible:
        said.outcome = f"the container goes on without {', '.join(step.feature for _, step in impossible)}{why}"
    elif not said.steps:
        said.outcome = "the container goes on; what could be done for it can't be told, see the notes"
    elif all(step.skipped for step in said.steps):
        said.outcome = "the container goes on; there is nothing to do for it"
    else:
        said.outcome = "the container goes on once this is done"


def _described(workload: Workload) -> dict[str, Any]:
    return {
        "key": workload.key,
        "keyOf": "pod" if workload.in_pod else "container",
        "runtime": workload.runtime,
        "namespace": workload.namespace,
        "pod": workload.pod,
        "container": workload.container,
        "cgroup": workload.cgroup,
        "podCgroup": workload.pod_cgroup,
        "bundle": workload.bundle_path,
    }


def _said(step: Step, workload: Workload, node: Node) -> SaidStep:
    """A step with the place where it is done, for those whose place is a group."""
    if step.feature == PLACEMENT and step.action != SKIP:
        return _said_place(step, workload, node)
    if step.feature in MEMORY_FEATURES and step.action != SKIP:
        return SaidStep(step.feature, step.action, step.needs, step.why, *memory_found(step, workload, node))
    if step.feature != MONITORING or step.action == SKIP:
        return SaidStep(step.feature, step.action, step.needs, step.why)
    resctrl, name = node.monitor.resctrl, node.monitor.group_prefix + workload.key
    rdt_class = step.needs["class"]
    where = resctrl.group_folder(rdt_class, name)
    possible = False
    if not is_folder(f"{resctrl.root}/{MON_GROUPS}"):
        missing = "no monitoring in the resctrl" if is_folder(f"{resctrl.root}/info") else "no resctrl"
        finds = f"this would fail: there is {missing} at {resctrl.root}"
    elif not is_folder(resctrl.class_folder(rdt_class)):
        finds = f"this would fail: there is no RDT class {rdt_class}, and classes are never made here"
    else:
        finds = "it is there" if resctrl.exists(rdt_class, name) else "it would be made, which takes an RMID"
        possible = True
    return SaidStep(step.feature, step.action, step.needs, step.why, where, finds, possible)


def _said_place(step: Step, workload: Workload, node: Node) -> SaidStep:
    """A placement with the pool that would be chosen now, why, and which others came next."""
    from resctrl_hooks.node.placement import preview  # noqa: PLC0415  # only where that feature is in use

    try:
        decision, cpus = preview(step, workload, node)
    except HookError as error:
        finds = f"this would fail: {error}"
        return SaidStep(step.feature, step.action, step.needs, step.why, "", finds, possible=False)
    others = f"; next best: {', '.join(decision.runners_up)}" if decision.runners_up else ""
    where = f"{decision.kind} in {decision.pool}, CPUs {cpus}"
    where += f", memory nodes {format_list(decision.mems)}" if decision.mems else ""
    return SaidStep(step.feature, step.action, step.needs, step.why, where, f"{decision.why}{others}")


def _look_back(workload: Workload, node: Node, said: Explanation) -> None:
    """What the ledger has of this container already."""
    earlier = node.ledger.key_of(workload.id)
    if earlier == workload.key:
        said.notes.append("this container is recorded already, so its earlier run is taken back first")
    elif earlier:
        said.notes.append(f"this container is recorded under {earlier}, which is taken back first")


def _poststop(state: State, node: Node, said: Explanation) -> None:
    key = node.ledger.key_of(state.id)
    pod = node.ledger.read_pod(key) if key else None
    record = node.ledger.read_member(key, state.id) if key else None
    if record is None or pod is None:
        said.outcome = "nothing is recorded of this container, so nothing is done"
        return
    names = ("runtime", "namespace", "pod", "container", "cgroup", "podCgroup", "bundle")
    said.workload = {"key": key, **{name: record.get(name, "") for name in names}}
    if record.get("pid") and not record_is_dead(record, node.monitor.boot, node.proc):
        said.outcome = "its process lives, so this poststop is an earlier run's and nothing is done"
        return
    said.steps = [
        SaidStep(kept["feature"], f"undo {kept['action']}", kept["needs"], "the ledger has it")
        for kept in reversed(record.get("steps", []))
    ]
    others = [node.ledger.read_member(key, other) for other in node.ledger.members(key) if other != state.id]
    name = node.monitor.group_prefix + key
    groups = [node.monitor.resctrl.group_folder(rdt_class, name) for rdt_class in sorted(pod["groups"])]
    said.outcome = f"{', '.join(groups) or 'no group'}: {_FATES[fate(pod, others, node)].format(pod.get('cgroup'))}"


def _fails(said: Explanation, error: HookError | str, *, refused: bool) -> None:
    refused = refused and said.stage != POSTSTOP
    said.exit_code = REFUSED if refused else DONE
    end = f"the container is refused (exit code {REFUSED})" if refused else "the container goes on without"
    said.outcome = f"{error}; {end}"
