"""A pod's Kubernetes labels, which CRI-O stores only in the bundle of the pod's sandbox, and NRI passes directly.

CRI-O writes labels into the annotations of the sandbox's ``config.json`` after the pod's own annotations (cri-o,
server/sandbox_run_linux.go). An annotation is also in each container's bundle, a label is not: so an entry that only
the sandbox has is a label. ``io.kubernetes.cri-o.Labels`` is not used, because a pod's annotation can replace it.

A restarted CRI-O reads a pod's annotations from ``io.kubernetes.cri-o.Annotations``, which an annotation can replace
too; later containers then lack the pod's annotations. The kubelet's annotation ``kubernetes.io/config.seen``, a time in
nanoseconds that no author knows, shows whether they are complete.
"""

from ..errors import InputError
from ..host.files import parse_json, read_file
from .author_input import acceptable
from .oci import BUNDLE_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .workload import Workload

# Labels that the kubelet gives to sandboxes and containers alike; being labels, they win over annotations in both.
_KUBELETS = frozenset(("io.kubernetes.pod.uid", "io.kubernetes.pod.namespace", "io.kubernetes.pod.name"))

# The kubelet's own annotation of each pod (kubernetes, pkg/kubelet/types, ConfigFirstSeenAnnotationKey).
_SEEN = "kubernetes.io/config.seen"


def pod_labels(workload: "Workload") -> "dict[str, str]":
    """Return a pod's labels; empty where its runtime passes none.

    One that an annotation of the pod's repeats, name and value, is left out: it may be no label.
    So are all but the kubelet's of a container to which the runtime has not copied its pod's annotations.

    Raises:
        InputError: the sandbox's bundle can't be read.
    """
    if workload.labels is not None:
        return acceptable(workload.labels)
    folder = workload.sandbox_folder
    if not folder:
        return {}
    if folder[0] != "/" or "/../" in f"{folder}/":
        raise InputError(f"the pod's sandbox directory is not an absolute path: {folder[:200]!r}")
    try:
        notes = parse_json(read_file(f"{folder}/config.json", BUNDLE_LIMIT))["annotations"]
        copied = notes.get(_SEEN) == workload.annotations.get(_SEEN)
        labels = {
            name: value
            for name, value in notes.items()
            if isinstance(value, str) and (name in _KUBELETS or (copied and workload.annotations.get(name) != value))
        }
        return acceptable(labels)
    except OSError as error:
        raise InputError.of_file(error, f"the sandbox's {folder}/config.json", "read") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the sandbox's {folder}/config.json holds no labels") from error
