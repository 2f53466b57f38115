"""What runs on this node, and what of it is ours: read without any lock, so it may be out of date a moment later."""

from ..container.running import Running
from ..container.runtimes import Found, living_containers
from ..container.workload import workload_of
from ..fault_report import as_hook_error
from ..feature import INTO_CLASS, SKIP, Step
from ..feature_table import FEATURES, GROUP, NODE
from ..host.cgroup_names import pod_in_cgroup
from ..host.files import is_folder, list_folder
from ..host.procfs import start_time
from ..names import workload_key_validator
from ..registry import features_in_use, kind_of, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..container.workload import Workload
    from ..context import Context
    from ..records import MemberRecord, StepRecord

_MOST_DEPTH = 8


class Observation:
    """The containers that live, and whatever could not be read of them."""

    def __init__(self, containers: "list[Running]", problems: "list[str]") -> None:
        self.containers = containers
        self.problems = problems
        self._pods: "set[str] | None" = None

    def unrecorded(self, context: "Context") -> "Iterator[tuple[str, str]]":
        """Groups of our shape (prefix and a workload's key) that the ledger doesn't know as ours: class and key."""
        prefix = context.monitor.group_prefix
        for rdt_class in ["", *context.monitor.resctrl.classes()]:
            for name in context.monitor.resctrl.groups(rdt_class):
                key = name[len(prefix) :]
                if name.startswith(prefix) and workload_key_validator(key):
                    record = context.ledger.read_pod(key) or {}
                    if record.get("groups", {}).get(rdt_class) not in ("created", "adopted"):
                        yield rdt_class, key

    def in_use(self, context: "Context", rdt_class: str, key: str) -> bool:
        """Return whether a group has tasks, or its key a container or a pod's cgroup anywhere on this node."""
        if self._pods is None:
            self._pods = set(_pods_in_cgroups(context.settings.cgroup_path, "", 0))
        if key in self._pods or any(key in (container.key, container.id) for container in self.containers):
            return True
        return bool(context.monitor.resctrl.tasks(rdt_class, context.monitor.group_prefix + key))


def observe(context: "Context") -> Observation:
    """Find every living container, from the runtimes' folders and from the ledger (one may be just starting)."""
    containers: "list[Running]" = []
    problems: "list[str]" = []
    found = {container.id: container for container in living_containers(context.settings, context.proc)}
    for container in found.values():
        try:
            key = context.ledger.key_of(container.id)
            record = context.ledger.read_member(key, container.id) if key else None
            if record is not None and (record.get("pid"), record.get("start")) == (container.pid, container.start):
                seen = _recorded(key, container, record, context)
            else:
                seen = _unrecorded(container, context)
        except ProcessLookupError:
            continue
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            if start_time(context.proc, container.pid) == container.start:
                problems.append(f"container {container.id}: {as_hook_error(error)}")
            continue
        containers.append(seen)
    for id_ in context.ledger.containers():
        if id_ not in found:
            try:
                key = context.ledger.key_of(id_)
                record = context.ledger.read_member(key, id_) if key else None
                if record is not None and record.get("pid") and not context.monitor.member_is_dead(key, id_):
                    starting = Found(id_, record["pid"], record["start"], record.get("bundle", ""))
                    containers.append(_recorded(key, starting, record, context))
            except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
                problems.append(f"container {id_}: {as_hook_error(error)}")
    return Observation(containers, problems)


def _recorded(key: str, found: Found, record: "MemberRecord", context: "Context") -> Running:
    container = Running(key, found, record, recorded=True)
    planned: "list[Step]" = []
    if container.unplanned:
        workload = workload_of(found.id, found.pid, container.bundle, context.proc, context.settings.cgroup_path)
        planned = _plan(container, workload, context, container.unplanned)
    container.joins(group_step(container))
    for step in planned:
        if step.action == INTO_CLASS:
            container.rdt_class = step.parameters["class"]  # the group was recorded without this step
    return container


def _unrecorded(found: Found, context: "Context") -> Running:
    """Return a container that no hook has seen, or only one that was killed: every feature in use plans for it."""
    workload = workload_of(found.id, found.pid, found.bundle, context.proc, context.settings.cgroup_path)
    container = Running(workload.key, found, workload.details(), recorded=False)
    _plan(container, workload, context)
    container.joins(group_step(container))
    return container


def _plan(
    container: Running, workload: "Workload", context: "Context", only: "list[str] | None" = None
) -> "list[Step]":
    """Add the steps of every feature in use to a container, or of those in ``only``, whose plan has failed before.

    Return the added steps.

    What can't be planned is among its `Running.unmet`. The group's own trouble is everybody's if nobody has planned for
    the container: we don't know then whether it is ours at all.
    """
    before = (list(container.steps), dict(container.unmet))
    container.unplanned = []
    recorded = [Step.of_record(step) for step in container.steps]
    added: "list[Step]" = []
    for feature in features_in_use(context.settings, workload):
        name, kind = feature.name, kind_of(feature.name)
        if only is not None and name not in only:
            continue
        try:
            steps = [step for step in plan(feature, workload, context, recorded + added) if step.action != SKIP]
        except Exception as error:
            if kind == NODE:
                continue  # its `adopt` plans again, and says what is wrong
            if kind == GROUP and only is None:
                raise
            why = str(as_hook_error(error))
            container.unplanned.append(name)
            if container.unmet.get(name) != why:
                container.unmet[name] = why
                container.unsaid.add(name)
            continue
        added += steps
    container.steps += [step.as_record() for step in added]
    for name in set(only or ()) - set(container.unplanned):
        container.unmet.pop(name, None)  # planned by now, or not in use any more
    order = list(FEATURES)
    container.steps.sort(key=lambda step: order.index(step["feature"]) if step["feature"] in order else len(order))
    container.changed = container.recorded and (container.steps, container.unmet) != before
    return added


def group_step(container: Running) -> "StepRecord | None":
    """Return the step of a container's record that joins its pod's group."""
    return next((step for step in container.steps if kind_of(step["feature"]) == GROUP), None)


def _pods_in_cgroups(root: str, path: str, depth: int) -> "Iterator[str]":
    """Yield the pods that have a cgroup below ``root``, wherever the kubelet or Podman put them."""
    for name in list_folder(root + path):
        below = f"{path}/{name}"
        if is_folder(root + below):
            # A Podman pod is known by what is in it, so look one level further than the name.
            inside = [
                below,
                *(f"{below}/{child}" for child in list_folder(root + below) if child.startswith("libpod-")),
            ]
            pod = next((found for found, _ in map(pod_in_cgroup, inside) if found), "")
            if pod:
                yield pod
            elif depth < _MOST_DEPTH:
                yield from _pods_in_cgroups(root, below, depth + 1)
