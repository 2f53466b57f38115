"""Identity of a container under any runtime: its key, its pod, its place on the node.

Dialects are data: the place of each fact by runtime family. The cgroup's name or the bundle's folder identifies the
family, because no pod author chooses those; a container with annotations only is not `verified`, and gets no names and
no permissions.
"""

import time

from ..host.procfs import cgroups_of, maker_of, own_cgroup, pod_in_cgroup, threads_of
from ..names import LONGEST_ANNOTATION, canonical_pod_uid, pod_uid_validator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import HookError
    from ..host.cgroup import Leaf
    from ..host.procfs import Cgroup
    from ..records import MemberRecord
    from ..settings import Settings
    from .oci import Bundle, State


class Dialect:
    """Where a runtime family keeps its facts about a container's pod: names of annotations, empty for none."""

    __slots__ = ("container", "kind", "name", "namespace", "pod", "sandbox_file", "uid")

    def __init__(
        self, name: str, uid: str, namespace: str, pod: str, container: str, kind: str, sandbox_file: str
    ) -> None:
        self.name = name
        self.uid = uid
        self.namespace = namespace
        self.pod = pod
        self.container = container
        self.kind = kind
        self.sandbox_file = sandbox_file


CRIO = Dialect(
    "cri-o",
    uid="io.kubernetes.pod.uid",
    namespace="io.kubernetes.pod.namespace",
    pod="io.kubernetes.pod.name",
    container="io.kubernetes.container.name",
    kind="io.kubernetes.cri-o.ContainerType",
    sandbox_file="io.kubernetes.cri-o.ResolvPath",
)
CONTAINERD = Dialect(
    "containerd",
    uid="io.kubernetes.cri.sandbox-uid",
    namespace="io.kubernetes.cri.sandbox-namespace",
    pod="io.kubernetes.cri.sandbox-name",
    container="io.kubernetes.cri.container-name",
    kind="io.kubernetes.cri.container-type",
    sandbox_file="",
)
_PODMAN = Dialect("podman", uid="", namespace="", pod="", container="", kind="", sandbox_file="")
_PLAIN = Dialect("oci", uid="", namespace="", pod="", container="", kind="", sandbox_file="")

# The annotation by which a dialect is known, in the order in which to look; an empty value means "any".
_MARKS = (
    ("io.container.manager", "libpod", _PODMAN),
    ("io.container.manager", "cri-o", CRIO),
    ("io.kubernetes.cri-o.ContainerType", "", CRIO),
    ("io.kubernetes.cri.container-type", "", CONTAINERD),
)
# Prefixes of container ids in cgroup names that only one runtime family writes.
_MAKERS = {"crio": CRIO, "cri-containerd": CONTAINERD, "libpod": _PODMAN, "libpod-payload": _PODMAN}
# In the path of every bundle of containerd's (containerd, core/runtime), which may name a cgroup by the id alone.
_CONTAINERDS_BUNDLE = "/io.containerd.runtime.v"

_MOST_RECORDED, _LONGEST_RECORDED, _ALL_RECORDED = 256, 1024, 1 << 15
"""Of annotations, and of labels, in a record: their number, the characters of one, and of all.

A character takes up to 12 bytes of a record, which has a size limit.
"""


class Workload:
    """One container in the node half.

    ``key`` names its group: the canonical pod UID, a Podman pod's id, or the container's own id. ``cgroup`` is the
    folder of the container's own cgroup, ``pod_cgroup`` that of its pod's, whose end is the pod's end; both may be
    empty. ``sandbox`` is true for a pod's pause container in a CRI runtime. ``labels`` are the pod's if the runtime
    passed them, else None. ``leaf`` is its own cgroup after a feature's first request. ``dropped`` are the wishes
    that `author_input` dropped, with the reason until it is reported. ``mute``: its annotations request nothing.
    ``verified`` is false if only annotations, which a pod's author may have written, name its pod.
    """

    __slots__ = (
        "annotations",
        "bundle",
        "bundle_path",
        "cgroup",
        "container",
        "dropped",
        "id",
        "key",
        "labels",
        "leaf",
        "mute",
        "namespace",
        "pid",
        "pod",
        "pod_cgroup",
        "runtime",
        "sandbox",
        "sandbox_folder",
        "verified",
    )

    def __init__(self, state: "State", bundle: "Bundle", dialect: Dialect) -> None:
        notes = state.annotations
        self.id = state.id
        self.key = state.id
        self.pid = state.pid
        self.bundle = bundle
        self.bundle_path = state.bundle
        self.annotations = notes
        self.runtime = dialect.name
        self.namespace = notes.get(dialect.namespace, "") if dialect.namespace else ""
        self.pod = notes.get(dialect.pod, "") if dialect.pod else ""
        self.container = notes.get(dialect.container, "") if dialect.container else ""
        self.sandbox = bool(dialect.kind) and notes.get(dialect.kind) == "sandbox"
        sandbox_file = notes.get(dialect.sandbox_file, "") if dialect.sandbox_file else ""
        self.sandbox_folder = sandbox_file.rpartition("/")[0]
        self.labels: "dict[str, str] | None" = None
        self.leaf: "Leaf | None" = None
        self.mute = False
        self.dropped: "dict[str, str] | None" = None
        self.cgroup = ""
        self.pod_cgroup = ""
        self.verified = True

    born = None
    """As `Running.born`: it starts now."""

    @property
    def asks(self) -> bool:
        """Whether its bundle asks its runtime for a group (``linux.intelRdt.enableMonitoring``)."""
        return self.bundle.monitored

    def planned(self, settings: "Settings") -> "Workload":
        """Return the workload itself, as `Running.planned`."""
        return self

    @property
    def in_pod(self) -> bool:
        """Whether the key is a pod's rather than the container's own."""
        return self.key != self.id

    def annotation(self, *names: str) -> "tuple[str, str]":
        """Return the first of these annotations that exists and is acceptable: value and name; else empty strings."""
        for name in names if not self.mute else ():
            if name in self.annotations:
                value = self.annotations[name]
                if (len(value) <= LONGEST_ANNOTATION and value.isprintable()) or _accepts(self, name, value):
                    return value, name
        return "", ""

    def without_annotations(self) -> "Workload":
        """Return the workload as if its pod's author requested nothing."""
        other: Workload = Workload.__new__(Workload)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.mute = True
        return other

    def own_and_pods(self, name: str) -> "list[str]":
        """Return an annotation's names, the container's own before its pod's, in all forms that the field writes."""
        own = [f"{name}/container.{self.container}", f"{name}/{self.container}"] if self.container else []
        return [*own, f"{name}/pod", name]

    def threads(self, proc: str) -> "list[int]":
        """Return the ids of its threads: before it runs, all are its init process's."""
        return threads_of(proc, self.pid)

    def details(self) -> "MemberRecord":
        """Return the ledger's data on the container, besides its steps."""
        details: "MemberRecord" = {
            "runtime": self.runtime,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "bundle": self.bundle_path,
            "cgroup": self.cgroup,
            "podCgroup": self.pod_cgroup,
            "time": int(time.time()),
        }
        if self.bundle.has_rdt:
            details["intelRdt"] = True
        if self.bundle.monitored:
            details["runtimeGroup"] = True
        if self.labels is not None:
            notes = {name: value for name, value in self.annotations.items() if _is_read(name)}
            details["told"] = {"labels": _bounded(self.labels), "annotations": _bounded(notes)}
        return details

    def __str__(self) -> str:
        name = "/".join(part for part in (self.namespace, self.pod, self.container) if part)
        return f"{name or 'container'} ({self.runtime}, {self.key[:36]})"


def derive(
    state: "State", bundle: "Bundle", cgroups: "list[Cgroup]", cgroup_root: str, dialect: "Dialect | None" = None
) -> Workload:
    """Return the workload for a state, a bundle and the process's actual cgroups.

    ``dialect`` is the annotations' dialect if known from elsewhere.

    Raises:
        BadKeyError: the pod UID cannot name a group, or is not that of the pod in whose cgroup the process is.
    """
    owns = [own_cgroup(cgroup.path, state.id, bundle.cgroups_path) for cgroup in cgroups]
    verified = dialect or _verified_dialect(state, owns)
    dialect = verified or dialect_of(state.annotations)
    workload = Workload(state, bundle, dialect)
    uid = ""
    if dialect.uid:
        claimed = state.annotations.get(dialect.uid, "")
        if not pod_uid_validator(claimed):
            from .chosen_uid import chosen_uid  # only pods whose UID an administrator chose

            claimed = chosen_uid(workload, dialect.uid, claimed, verified=verified is not None)
        uid = workload.key = canonical_pod_uid(claimed)
    in_pod = False
    for cgroup, own in zip(cgroups, owns):
        # The container may have created and named the cgroups below its own, even like another pod's.
        found, path = pod_in_cgroup(own or cgroup.path, uid)
        if found and uid and found != uid:
            raise _bad_key(
                f"container {state.id[:64]} claims pod {uid} but runs in the cgroup of pod {found}",
                "the pod UID is forged; the container is not monitored",
            )
        if found:
            in_pod = True
            workload.key = uid or found
            workload.pod_cgroup = cgroup.folder(cgroup_root, path)
        if own:
            workload.cgroup = workload.cgroup or cgroup.folder(cgroup_root, own)
        # With version 1, runtimes leave a pod's empty cgroups of these two: a controller's shows the pod's end.
        if found and cgroup.hierarchy not in ("unified", "systemd"):
            break
    # An ended process has no cgroup, and gets no steps. A container without a mark belongs to no pod.
    if cgroups and verified is None and (dialect is not _PLAIN or in_pod):
        workload.verified = False
        workload.namespace = workload.pod = workload.container = ""
    return workload


def _accepts(workload: Workload, name: str, value: str) -> bool:
    from .author_input import accepts  # few values are long or have other characters

    return accepts(workload, name, value)


def _is_read(name: str) -> bool:
    """Return whether a feature may read an annotation; a record keeps these where the bundle lacks them."""
    return "resctrl-hooks.io" in name or "nri.io" in name or "rdt" in name or "blockio" in name


def _bounded(values: "dict[str, str]") -> "dict[str, str]":
    from .author_input import problem_of  # only NRI's containers have such values

    found: "dict[str, str]" = {}
    left = _ALL_RECORDED
    for name, value in values.items():
        size = len(name) + len(value)
        if size <= min(left, _LONGEST_RECORDED) and name.isprintable() and not problem_of(value):
            found[name] = value
            left -= size
            if len(found) == _MOST_RECORDED:
                break
    return found


def _verified_dialect(state: "State", owns: "list[str]") -> "Dialect | None":
    """Return the dialect of the container's runtime family, by its cgroups' names or its bundle's folder."""
    for own in filter(None, owns):
        dialect = _MAKERS.get(maker_of(own, state.id))
        if dialect is not None:
            return dialect
    if _CONTAINERDS_BUNDLE in f"{state.bundle}/":
        # containerd itself marks each container of a pod, after the author's annotations; ctr's have no mark.
        return CONTAINERD if CONTAINERD.kind in state.annotations else _PLAIN
    return None


def _bad_key(message: str, hint: str) -> "HookError":
    from ..errors import BadKeyError

    return BadKeyError(message, hint=hint)


def dialect_of(annotations: "dict[str, str]") -> Dialect:
    """Return the dialect of the runtime family that seems to have written these annotations."""
    for name, value, dialect in _MARKS:
        if name in annotations and (not value or annotations[name] == value):
            return dialect
    return _PLAIN


def workload_of(container: str, pid: int, path: str, proc: str, cgroup_root: str) -> Workload:
    """Return the workload of a running container, from its bundle and its process.

    Raises:
        InputError: its bundle cannot be read.
        BadKeyError: as `derive`.
    """
    from .oci import State, read_bundle  # a hook has its state and bundle already

    bundle = read_bundle(path)
    state = State(container, "running", pid, path, bundle.annotations)
    return derive(state, bundle, cgroups_of(proc, pid), cgroup_root)
