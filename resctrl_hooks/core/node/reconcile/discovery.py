"""The running containers of this node, their records, and groups without a record.

Everything is read without locks, so it may be outdated a moment later.
"""

from ..container.recorded import lacks_labels, with_labels
from ..container.running import Running
from ..container.runtimes import Found, living_containers
from ..container.workload import workload_of
from ..errors import HookError
from ..failure_policies import report_dropped
from ..fault_report import as_hook_error
from ..feature import INTO_CLASS, SKIP, Step
from ..feature_table import FEATURES, MONITORING
from ..host.cgroup_tasks import CgroupThreads
from ..host.files import is_folder, list_folder
from ..host.procfs import lives, pod_in_cgroup, start_time
from ..log import WARNING
from ..pointers import has_member
from ..registry import features_in_use, plan
from ..resctrl.locked_key import record_is_dead
from ..set_aside import SetAsideError, bounded, resting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..container.workload import Workload
    from ..context import Context
    from ..records import MemberRecord

_MOST_DEPTH = 8


class Observation:
    """The live containers, the errors of unreadable ones, and all ids that the ledger had before."""

    def __init__(self, containers: "list[Running]", problems: "list[str]", pointed: "Iterable[str]" = ()) -> None:
        self.containers = containers
        self.pointed = pointed
        self.problems = problems
        self._pods: "set[str] | None" = None

    def in_use(self, context: "Context", rdt_class: str, key: str, name: str = "") -> bool:
        """Return whether a group has tasks, or its key a container or a pod's cgroup anywhere on this node.

        The group's name is that of a new one by default.
        """
        if self._pods is None:
            self._pods = set(_pods_in_cgroups(context.settings.cgroup_path, "", 0))
        if key in self._pods or any(key in (container.key, container.id) for container in self.containers):
            return True
        return bool(context.monitor.resctrl.tasks(rdt_class, name or context.monitor.group_prefix + key))


def observe(context: "Context", listed: "Mapping[str, Workload] | None" = None) -> Observation:
    """Return all live containers, from the ledger, the runtimes' state directories, and ``listed`` by the runtime.

    A container that is just starting may only be in the ledger. ``listed`` are the workloads by container id that the
    runtime passed with the pods' labels, which bundles lack.
    """
    listed = listed or {}
    pointed = context.ledger.containers()
    rests = resting(context)
    containers, broken = _recorded_containers(context, pointed, listed, rests)
    known = {container.id for container in containers}
    from_runtime = (Found(one.id, one.pid, start_time(context.proc, one.pid), "") for one in listed.values())
    others = [one for one in from_runtime if one.start and one.id not in known]
    known.update(rests, (one.id for one in others))
    for found in (*others, *living_containers(context.settings, context.proc, known)):
        broken.pop(found.id, None)
        try:
            containers.append(_from_runtime(found, context, listed.get(found.id)))
        except ProcessLookupError:
            continue
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            if lives(context.proc, found.pid, found.start):
                broken[found.id] = error
    problems = [f"container {id_}: {as_hook_error(error)}" for id_, error in broken.items()]
    return Observation(containers, problems, pointed)


def _recorded_containers(
    context: "Context", pointed: "Iterable[str]", listed: "Mapping[str, Workload]", rests: "set[str]"
) -> "tuple[list[Running], dict[str, Exception]]":
    """Return the live containers with a current record, and errors by container.

    The runtimes' state adds nothing for them: a container keeps its init process as long as it lives.
    """
    containers: "list[Running]" = []
    broken: "dict[str, Exception]" = {}
    for id_ in pointed:
        try:
            key = context.ledger.key_of(id_)
            record = context.ledger.read_member(key, id_) if key else None
            if record is None and has_member(context.ledger, key, id_):
                what = f"ignored the damaged record of container {id_[:12]} in {context.ledger.folder}/pods/{key}"
                context.log(WARNING, f"{what}; a running container is recorded again", stage="reconcile", key=key)
            if record is None or not record.get("pid"):
                continue
            in_cgroup = _threads_in_own_cgroup(record, id_)
            if not _is_init_among(in_cgroup, record, context) and record_is_dead(
                record, context.monitor.boot, context.proc
            ):
                continue
            starting = Found(id_, record["pid"], record["start"], record.get("bundle", ""))
            seen = recorded(key, starting, record, context, listed.get(id_), rests=id_ in rests)
            seen.in_cgroup = in_cgroup
            containers.append(seen)
        except ProcessLookupError:
            continue
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            broken[id_] = error
    return containers, broken


def _threads_in_own_cgroup(record: "MemberRecord", id_: str) -> "CgroupThreads | None":
    """Return the threads of a container's own cgroup, which is named after it; None without such a cgroup."""
    cgroup = record.get("cgroup", "")
    if id_ not in cgroup:
        return None
    try:
        return CgroupThreads(cgroup)
    except HookError:
        return None  # the search for threads outside the group reads it again, and reports why


def _is_init_among(found: "CgroupThreads | None", record: "MemberRecord", context: "Context") -> bool:
    """Return whether a container's init process is in its own cgroup, so that it certainly lives.

    This saves a read of the process's start time: only a process of the same container could have its id there.
    """
    return found is not None and record.get("boot") == context.monitor.boot and record.get("pid") in found.tids


def _from_runtime(found: Found, context: "Context", workload: "Workload | None") -> Running:
    """Return a container from a runtime's state, with its current record, else with a new plan."""
    key = context.ledger.key_of(found.id)
    record = context.ledger.read_member(key, found.id) if key else None
    if record is not None and (record.get("pid"), record.get("start")) == (found.pid, found.start):
        return recorded(key, found, record, context, workload)
    return _unrecorded(found, context, workload)


def recorded(
    key: str,
    found: Found,
    record: "MemberRecord",
    context: "Context",
    listed: "Workload | None" = None,
    *,
    rests: bool = False,
) -> Running:
    """Return a running container with its record, in which features are planned that have no plan, unless it rests.

    ``listed`` is the container as its runtime passed it: it completes a record whose writer saw less.
    """
    container = Running(key, found, record, recorded=True)
    if listed is not None and lacks_labels(record):
        names = [one.name for one in features_in_use(context.settings, listed)]
        for name, value in with_labels(container.record, listed, names).items():
            container.set(name, value)
    unplanned = container.record.get("unplanned")
    if unplanned and (listed is not None or not rests):
        workload = container.planned(context.settings)
        try:
            steps = bounded(context, container.id, lambda: _plan(container, workload, context, unplanned))
        except SetAsideError:
            steps = []  # its features stay unplanned
        for step in steps:
            if step.action == INTO_CLASS:
                container.rdt_class = step.parameters["class"]  # the group was recorded without this step
    return container


def _unrecorded(found: Found, context: "Context", workload: "Workload | None" = None) -> Running:
    """Return a container that no hook has recorded (a hook may have been killed); every feature in use plans for it."""
    if workload is None:
        root = context.settings.cgroup_path
        workload = workload_of(found.id, found.pid, found.bundle, context.proc, root)
    container = Running(workload.key, found, workload.details(), recorded=False)
    bounded(context, container.id, lambda: _plan(container, workload, context))
    return container


def _plan(
    container: Running, workload: "Workload", context: "Context", only: "list[str] | None" = None
) -> "list[Step]":
    """Add the steps of every feature in use to a container's record, or of those in ``only``; return the added steps.

    A new step of a feature replaces the recorded one.

    Features that cannot be planned are in the record's ``unmet``. Without ``only``, an error of monitoring is
    raised, because it is unknown then whether the container is ours.
    """
    recorded = [Step.of_record(step) for step in container.record["steps"]]
    added: "list[Step]" = []
    unplanned: "list[str]" = []
    for feature in features_in_use(context.settings, workload):
        name = feature.name
        if only is not None and name not in only:
            continue
        try:
            steps = plan(feature, workload, context, recorded + added)
        except Exception as error:
            if FEATURES[name].adopts:
                continue  # its `adopt` plans again, and reports the problem
            if name == MONITORING and only is None:
                raise
            unplanned.append(name)
            if container.lacks(name, str(as_hook_error(error))):
                container.unlogged.add(name)
            continue
        container.noted = container.noted or any(step.noted for step in steps)
        added += [step for step in steps if step.action != SKIP and not _is_planned(step, container.record)]
        foreign = {step.feature: step.foreign for step in steps if step.foreign}
        container.set("kept", {**container.record.get("kept", {}), **foreign})
    for name in set(only or ()) - set(unplanned):
        container.lacks(name, "")  # planned by now, or not in use any more
    container.set("unplanned", unplanned)
    order = list(FEATURES)
    container.replanned = {step.feature for step in added} if container.recorded else set()
    left = [step for step in container.record["steps"] if step["feature"] not in container.replanned]
    container.set(
        "steps",
        sorted(
            [*left, *(step.as_record() for step in added)],
            key=lambda step: order.index(step["feature"]) if step["feature"] in order else len(order),
        ),
    )
    container.joins()
    if added:  # a container that no feature serves is planned in each pass
        report_dropped(", ".join({step.feature: None for step in added}), workload, context)
    return added


def _is_planned(step: "Step", record: "MemberRecord") -> bool:
    """Return whether a container's record has such a step already, possibly with a decision."""
    same = [one for one in record["steps"] if (one["feature"], one["action"]) == (step.feature, step.action)]
    return any(step.parameters.items() <= one["needs"].items() for one in same)


def _pods_in_cgroups(root: str, path: str, depth: int) -> "Iterator[str]":
    """Yield the pods that have a cgroup below ``root``, wherever the kubelet or Podman put them."""
    for name in list_folder(root + path):
        below = f"{path}/{name}"
        if is_folder(root + below):
            # A Podman pod is identified by its content, so search one level below the name.
            inside = [
                below,
                *(f"{below}/{child}" for child in list_folder(root + below) if child.startswith("libpod-")),
            ]
            pod = next((found for found, _ in map(pod_in_cgroup, inside) if found), "")
            if pod:
                yield pod
            elif depth < _MOST_DEPTH:
                yield from _pods_in_cgroups(root, below, depth + 1)
