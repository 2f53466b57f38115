"""Pod UIDs that an administrator chose: those of crictl's pods, and of static pods whose manifest has a UID.

The API server's UIDs are UUIDs, and the kubelet's for static pods 32 hexadecimal digits (kubernetes,
pkg/kubelet/config/common.go). CRI-O and containerd accept any text.
"""

from ..errors import BadKeyError
from ..names import KERNELS_GROUP, KEY_RULE, default_key_validator, is_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Workload(Protocol):
        """The part of `workload.Workload` that a UID concerns."""

        id: str
        annotations: "dict[str, str]"
        runtime: str
        namespace: str
        pod: str
        container: str


_CRIOS_NAME = "io.kubernetes.cri-o.Name"  # k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT
_PARTS = 6
_ID_LENGTH = 64
_SHOWN = 80


def chosen_uid(workload: "Workload", source: str, claimed: str, *, verified: bool) -> str:
    """Return a pod's UID that is no UUID; it can name a group.

    ``source`` is the annotation in which it is. CRI-O passes the UID as a label of the kubelet, and crictl's
    containers have no such labels. CRI-O's own name of the container has the UID then, and names that the workload
    lacks.

    Raises:
        BadKeyError: it cannot name a group.
    """
    label, by_label = source, not claimed and workload.runtime == "cri-o"
    if by_label:
        found = workload.annotations.get(_CRIOS_NAME, "").split("_")
        if len(found) == _PARTS:
            _, container, pod, namespace, claimed, _ = found
            source = _CRIOS_NAME
            workload.container = workload.container or container
            workload.pod = workload.pod or pod
            workload.namespace = workload.namespace or namespace
    reason = _why_not(claimed, verified=verified)
    if reason:
        remedy = "the container is not monitored; in a file for crictl, correct metadata.uid"
        if by_label:
            remedy += f", and set the label {label}, in which CRI-O passes it"
        whose = f"container {workload.id[:_ID_LENGTH]} of {workload.runtime}"
        raise BadKeyError(f"{whose} has no pod UID in {source} that can name a group: {reason}", hint=remedy)
    return claimed


def _why_not(uid: str, *, verified: bool) -> str:
    """Return why a UID cannot name a group; empty if it can."""
    if not uid:
        return "it is missing or empty"
    shown = repr(uid[:_SHOWN])
    if uid == KERNELS_GROUP:
        return f"{shown} is a name of the kernel's"
    if not default_key_validator(uid):
        return f"{shown} has {len(uid)} characters; {KEY_RULE}"
    if not verified and is_hex(uid, _ID_LENGTH):
        return f"{shown} has the form of a container's id, and only annotations name the pod"
    return ""
