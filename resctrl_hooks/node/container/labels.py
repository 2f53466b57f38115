"""A pod's Kubernetes labels: CRI-O keeps them in the bundle of the pod's sandbox only, NRI tells them.

CRI-O writes each label of a pod into the annotations of its sandbox's ``config.json``, after the pod's own annotations
(cri-o, server/sandbox_run_linux.go). So what stands there under a label's name is the label; or, if the pod has no such
label, an annotation that its author may have written in order to look like one. The pod's annotations are in each of
its containers too, where its labels aren't. That tells them apart: a label is what the sandbox says and the container
doesn't. ``io.kubernetes.cri-o.Labels``, which has them all, is no source: an annotation of that name replaces it.

A CRI-O that is restarted reads a pod's annotations from ``io.kubernetes.cri-o.Annotations`` of the sandbox, which an
annotation of that name replaces, too: containers made later then lack the pod's annotations. The kubelet's own
annotation ``kubernetes.io/config.seen``, a time in nanoseconds that no author knows, tells that.
"""

from ..errors import InputError
from ..host.files import parse_json, read_file
from .oci import BUNDLE_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .workload import Workload

# Labels that the kubelet gives to sandboxes and containers alike; being labels, they win over annotations in both.
_KUBELETS = frozenset(("io.kubernetes.pod.uid", "io.kubernetes.pod.namespace", "io.kubernetes.pod.name"))

# The kubelet's own annotation of each pod (kubernetes, pkg/kubelet/types, ConfigFirstSeenAnnotationKey).
_SEEN = "kubernetes.io/config.seen"


def pod_labels(workload: "Workload") -> "dict[str, str]":
    """Return a pod's labels; empty where its runtime tells none.

    One that an annotation of the pod's repeats, name and value, is left out: nothing tells whether it is a label too.
    So are all but the kubelet's of a container to which the runtime has not copied its pod's annotations.

    Raises:
        InputError: the sandbox's bundle can't be read.
    """
    if workload.labels is not None:
        return workload.labels
    folder = workload.sandbox_folder
    if not folder:
        return {}
    if folder[0] != "/" or "/../" in f"{folder}/":
        raise InputError(f"the pod's sandbox folder is not an absolute path: {folder[:200]!r}")
    try:
        notes = parse_json(read_file(f"{folder}/config.json", BUNDLE_LIMIT))["annotations"]
        copied = notes.get(_SEEN) == workload.annotations.get(_SEEN)
        return {
            name: value
            for name, value in notes.items()
            if isinstance(value, str) and (name in _KUBELETS or (copied and workload.annotations.get(name) != value))
        }
    except OSError as error:
        raise InputError.of_file(error, f"the sandbox's {folder}/config.json", "read") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the sandbox's {folder}/config.json holds no labels") from error
