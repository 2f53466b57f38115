"""A recorded container as a workload again, for decisions after its start.

A container that NRI started is recorded without its bundle's path, and its bundle lacks the pod's labels and, with
containerd, its annotations. The record has these, and the runtime's state names the bundle.
"""

from ..host.procfs import cgroups_of
from .oci import Bundle, State, read_bundle
from .runtimes import bundle_of
from .workload import CONTAINERD, CRIO, derive, workload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..records import MemberRecord
    from ..settings import Settings
    from .workload import Workload

_DIALECTS = {dialect.name: dialect for dialect in (CRIO, CONTAINERD)}


def lacks_labels(record: "MemberRecord") -> bool:
    """Return whether reconcile made a record before the runtime passed the pod's labels and annotations."""
    return bool(record.get("late")) and "told" not in record


def with_labels(record: "MemberRecord", workload: "Workload", in_use: "Iterable[str]") -> "MemberRecord":
    """Return such a record with the pod's labels and annotations, which bundles of containerd lack. Pure.

    Those features ``in_use`` that have no step are planned again.
    """
    planned = {step["feature"] for step in record.get("steps", [])}
    unplanned = [name for name in in_use if name not in planned]
    return {**record, "told": workload.details()["told"], "unplanned": unplanned}


def recorded_workload(container: str, pid: int, record: "MemberRecord", settings: "Settings") -> "Workload":
    """Return the workload of a running container with its record.

    Raises:
        InputError: its bundle cannot be read.
        BadKeyError: as `derive`.
    """
    proc, cgroup_root, path = settings.proc_path, settings.cgroup_path, record.get("bundle", "")
    told = record.get("told")
    dialect = _DIALECTS.get(record.get("runtime", ""))
    if told is None or dialect is None:
        return workload_of(container, pid, path, proc, cgroup_root)
    path = path or bundle_of(container, settings)
    bundle = read_bundle(path) if path else Bundle({})
    annotations = {
        **bundle.annotations,
        **told["annotations"],
        dialect.uid: record["key"],
        dialect.namespace: record.get("namespace", ""),
        dialect.pod: record.get("pod", ""),
        dialect.container: record.get("container", ""),
        dialect.kind: "container",
    }
    state = State(container, "running", pid, path, annotations)
    workload = derive(state, bundle, cgroups_of(proc, pid), cgroup_root, dialect)
    workload.labels = told["labels"]
    return workload
