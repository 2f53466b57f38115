"""What runs on this node, and what of it is ours: read without any lock, so it may be out of date a moment later."""

import posix

from ..container.oci import State, read_bundle
from ..container.runtimes import Found, living_containers
from ..container.workload import derive, pod_in_cgroup
from ..errors import LedgerError
from ..fault_report import as_hook_error
from ..features.monitoring import NAME as MONITORING
from ..features.monitoring import plan
from ..features.step import SKIP
from ..host.files import is_folder, list_folder
from ..host.procfs import cgroups_of, resctrl_groups_of, start_time
from ..names import workload_key_validator
from ..resctrl.locked_key import record_is_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..container.workload import Workload
    from ..context import Context
    from ..ledger import Record
    from ..resctrl.locked_key import LockedKey

_MOST_DEPTH = 8


class Seen:
    """A living container: what the ledger recorded of it, or else what its bundle says.

    ``wanted`` is false for one that the filters leave out; ``recorded`` says whether the ledger has it as it runs now.
    """

    def __init__(self, key: str, found: Found, record: "Record", *, recorded: bool) -> None:
        self.key = key
        self.id = found.id
        self.pid = found.pid
        self.start = found.start
        self.bundle = found.bundle or record.get("bundle", "")
        self.recorded = recorded
        self.wanted = True
        self.cgroup: str = record.get("cgroup", "")
        self.pod_cgroup: str = record.get("podCgroup", "")
        self.namespace: str = record.get("namespace", "")
        self.pod: str = record.get("pod", "")
        self.recorded_class: "str | None" = None
        self.rdt_class = ""
        self._record = record

    def look_again(self, context: "Context") -> bool:
        """Whether it is still the same process; if so, finds out in which class it is now."""
        if start_time(context.proc, self.pid) != self.start:
            return False
        try:
            where = resctrl_groups_of(context.proc, self.pid)
        except ProcessLookupError:
            return False
        if where is not None:
            self.rdt_class = where[0]
        return True

    def details(self) -> "Record":
        """What the ledger is to record, with the class that the container is in now."""
        steps = [step for step in self._record.get("steps", []) if step["feature"] != MONITORING]
        steps.append({"feature": MONITORING, "action": "join", "needs": {"class": self.rdt_class}})
        return {**self._record, "steps": steps}

    def describe(self, locked: "LockedKey") -> None:
        """Says whose the key is, if nobody has recorded that yet."""
        if not locked.tracked:
            locked.record.update(cgroup=self.pod_cgroup, namespace=self.namespace, pod=self.pod)
            locked.record.setdefault("born", self.start / posix.sysconf("SC_CLK_TCK"))


class Observation:
    """The containers that live, and whatever could not be read of them."""

    def __init__(self, containers: "list[Seen]", problems: "list[str]") -> None:
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
        """Whether a group has tasks, or its key a container or a pod's cgroup anywhere on this node."""
        if self._pods is None:
            self._pods = set(_pods_in_cgroups(context.settings.cgroup_path, "", 0))
        if key in self._pods or any(key in (container.key, container.id) for container in self.containers):
            return True
        return bool(context.monitor.resctrl.tasks(rdt_class, context.monitor.group_prefix + key))


def observe(context: "Context") -> Observation:
    """Finds every living container, from the runtimes' folders and from the ledger (one may be just starting)."""
    containers: "list[Seen]" = []
    problems: "list[str]" = []
    found = {container.id: container for container in living_containers(context.settings, context.proc)}
    for container in found.values():
        try:
            key = context.ledger.key_of(container.id)
            record = context.ledger.read_member(key, container.id) if key else None
            if record is not None and (record.get("pid"), record.get("start")) == (container.pid, container.start):
                seen = _recorded(key, container, record)
            else:
                seen = _unrecorded(container, context)
        except ProcessLookupError:
            continue
        except Exception as error:  # noqa: BLE001  # see faults.as_hook_error
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
                    containers.append(_recorded(key, starting, record))
            except Exception as error:  # noqa: BLE001  # see faults.as_hook_error
                problems.append(f"container {id_}: {as_hook_error(error)}")
    return Observation(containers, problems)


def living_with(feature: str, context: "Context", known: "Iterable[str]") -> "Iterator[tuple[str, Record, Record]]":
    """Of these containers the living ones that have a step of a feature: id, record, and what the step needs.

    One whose record can't be read is passed over; `observe` says so.
    """
    for container in sorted(known):
        try:
            key = context.ledger.key_of(container)
            record = context.ledger.read_member(key, container) if key else None
        except LedgerError:
            continue
        if record is not None and record.get("pid") and not record_is_dead(record, context.monitor.boot, context.proc):
            for step in record.get("steps", []):
                if step["feature"] == feature:
                    yield container, record, step["needs"]


def _recorded(key: str, found: Found, record: "Record") -> Seen:
    seen = Seen(key, found, record, recorded=True)
    join = next((step for step in record.get("steps", []) if step["feature"] == MONITORING), None)
    seen.wanted = join is not None
    if join is not None:
        seen.recorded_class = seen.rdt_class = join["needs"]["class"]
    return seen


def workload_of(container: str, pid: int, path: str, context: "Context") -> "Workload":
    """What a running container is, from its bundle and its process.

    Raises:
        InputError: its bundle can't be read.
        BadKeyError: as `workload.derive`.
    """
    bundle = read_bundle(path)
    state = State(container, "running", pid, path, bundle.annotations)
    return derive(state, bundle, cgroups_of(context.proc, pid), context.settings.cgroup_path)


def _unrecorded(found: Found, context: "Context") -> Seen:
    workload = workload_of(found.id, found.pid, found.bundle, context)
    seen = Seen(workload.key, found, workload.details(), recorded=False)
    if not context.settings.monitoring.get("enabled", True):
        seen.wanted = False
        return seen
    steps = [step for step in plan(workload, context) if step.action != SKIP]
    seen.wanted = bool(steps)
    seen.rdt_class = steps[0].parameters["class"] if steps else ""
    return seen


def _pods_in_cgroups(root: str, path: str, depth: int) -> "Iterator[str]":
    """The pods that have a cgroup below ``root``, wherever the kubelet or Podman put them."""
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
