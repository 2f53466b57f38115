"""A recorded container as a workload again, for decisions after its start.

A container that NRI started is recorded without its bundle's path, and its bundle lacks the pod's labels and, with
containerd, its annotations. The record has these, and the runtime's state names the bundle.
"""

from ..feature_table import FEATURES, MONITORING
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
    """Return whether the pod's labels and annotations were unknown to the writer of a record.

    Only NRI passes them with containerd, so a hook or reconcile planned without them. With CRI-O they are on disk, but
    those of a running container may be gone.
    """
    return "told" not in record and (bool(record.get("late")) or record.get("runtime") == CONTAINERD.name)


def with_labels(record: "MemberRecord", workload: "Workload", in_use: "Iterable[str]") -> "MemberRecord":
    """Return such a record with the pod's labels and annotations. Pure.

    Those features ``in_use`` are planned again that have no step, or one that the annotations can change.
    """
    planned = {step["feature"] for step in record.get("steps", [])}
    found = [name for name in in_use if (_may_differ(name, workload) if name in planned else _is_due(name, record))]
    return {**record, "told": workload.details()["told"], "unplanned": found}


def _is_due(name: str, record: "MemberRecord") -> bool:
    """Return whether a feature without a step is planned; some adopt late containers themselves."""
    return not (FEATURES[name].adopts and record.get("late"))


def _may_differ(name: str, workload: "Workload") -> bool:
    """Return whether a pod's labels and annotations can change a feature's step; a group follows the RDT class."""
    marks = FEATURES[name].marks
    if not marks:
        return name != MONITORING  # requested by any of many annotations
    return any(mark in annotation for annotation in workload.annotations for mark in marks)


def recorded_workload(container: str, pid: int, record: "MemberRecord", settings: "Settings") -> "Workload":
    """Return the workload of a running container with its record.

    Raises:
        InputError: its bundle cannot be read.
        BadKeyError: as `derive`.
    """
    proc, cgroup_root, path = settings.proc_path, settings.cgroup_path, record.get("bundle", "")
    from_nri = record.get("told")
    dialect = _DIALECTS.get(record.get("runtime", ""))
    if from_nri is None or dialect is None:
        return workload_of(container, pid, path, proc, cgroup_root)
    path = path or bundle_of(container, settings)
    bundle = read_bundle(path) if path else Bundle({})
    annotations = {
        **bundle.annotations,
        **from_nri["annotations"],
        dialect.uid: record["key"],
        dialect.namespace: record.get("namespace", ""),
        dialect.pod: record.get("pod", ""),
        dialect.container: record.get("container", ""),
        dialect.kind: "container",
    }
    state = State(container, "running", pid, path, annotations)
    workload = derive(state, bundle, cgroups_of(proc, pid), cgroup_root, dialect)
    workload.labels = from_nri["labels"]
    return workload
