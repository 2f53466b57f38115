"""A pod's Kubernetes labels: CRI-O keeps them in the bundle of the pod's sandbox only, NRI tells them."""

from ..errors import InputError
from ..host.files import parse_json, read_file
from .oci import BUNDLE_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .workload import Workload

_LABELS = "io.kubernetes.cri-o.Labels"  # an annotation of the sandbox


def pod_labels(workload: "Workload") -> "dict[str, str]":
    """A pod's labels; empty where its runtime tells none.

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
        config = parse_json(read_file(f"{folder}/config.json", BUNDLE_LIMIT))
        labels = parse_json(config["annotations"][_LABELS].encode())
        return {name: value for name, value in labels.items() if isinstance(value, str)}
    except OSError as error:
        raise InputError(f"the sandbox's {folder}/config.json can't be read", errno=error.errno or 0) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the sandbox's {folder}/config.json holds no labels") from error
