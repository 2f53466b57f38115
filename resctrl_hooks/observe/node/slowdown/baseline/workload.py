"""A pod's workload: what stays the same when the pod is restarted, and the key of its baseline.

The namespace is part of the key, and the parts are hashed as a JSON list, so no choice of names makes one workload
another's.
"""

import re
from typing import NamedTuple

from .....core.node import errors
from .....core.node.container.oci import read_bundle
from .....core.node.host.files import format_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .....core.node.context import Context
    from .....core.node.records import MemberRecord

_IMAGES = ("io.kubernetes.cri-o.ImageName", "io.kubernetes.cri.image-name")
_LETTERS = "[bcdfghjklmnpqrstvwxz2456789]"  # of generated names (Kubernetes, util/rand: no vowels, no 0, 1 and 3)
_SUFFIXES = (
    re.compile(rf"-{_LETTERS}{{6,10}}-{_LETTERS}{{5}}$"),  # a Deployment's: its ReplicaSet's hash, the pod
    re.compile(rf"-[0-9]{{8,10}}-{_LETTERS}{{5}}$"),  # a CronJob's: minutes since 1970, the pod
    re.compile(rf"-{_LETTERS}{{5}}$"),  # a Job's, a DaemonSet's
    re.compile(r"-[0-9]{1,5}$"),  # a StatefulSet's
)
_LONGEST = 253


def _found_sha256() -> "Callable[[bytes], Any]":
    """Return Python's own SHA-256, else the one of `hashlib`, which loads OpenSSL: 4 MiB of memory."""
    for name in ("_sha2", "_sha256"):  # of Python 3.12, and of earlier ones; some distributions have neither
        try:
            found: "Callable[[bytes], Any]" = __import__(name).sha256
        except ImportError:
            continue
        return found
    from hashlib import sha256

    return sha256


_sha256 = _found_sha256()


class Workload(NamedTuple):
    """A workload: its namespace and owner for people, and its key in the store."""

    namespace: str
    owner: str
    key: str


def owner_of(pod: str) -> str:
    """Return a pod's name without the part that its controller appended."""
    for suffix in _SUFFIXES:
        found = suffix.sub("", pod)
        if found != pod:
            return found
    return pod


def workload_of(namespace: str, pod: str, containers: "list[tuple[str, str]]") -> Workload:
    """Return the workload of a pod; ``containers`` are pairs of name and image."""
    owner = owner_of(pod[:_LONGEST])
    parts = [namespace, owner, *sorted({(name[:_LONGEST], image[: 2 * _LONGEST]) for name, image in containers})]
    return Workload(namespace, owner, _sha256(format_json(parts)).hexdigest()[:32])


def recorded_workload(context: "Context", key: str, ids: "list[str]") -> "Workload | None":
    """Return the workload of a recorded pod with these containers; None without a name, which a restart would keep.

    Raises:
        LedgerError: the state directory is unusable.
        InputError: the record or the image of a container is unreadable, so the workload is unknown.
    """
    record = context.ledger.read_pod(key) or {}
    members = [context.ledger.read_member(key, id_) for id_ in ids]
    if None in members:
        raise errors.InputError(
            f"pod {key}: the record of a container is missing or damaged", hint="reconcile writes it"
        )
    ours = [one for one in members if one is not None and one.get("boot") == context.monitor.boot]
    pod = record.get("pod", "") or next((one["pod"] for one in ours if one.get("pod")), "")
    namespace = record.get("namespace", "") or next((one["namespace"] for one in ours if one.get("namespace")), "")
    named = [(one.get("container", ""), _image(one)) for one in ours]
    pod = pod or next((name for name, _ in named if name), "")
    return workload_of(namespace, pod, named) if pod else None


def _image(record: "MemberRecord") -> str:
    """Return the image that the runtime names in the container's annotations; empty if it names none."""
    annotations = read_bundle(record["bundle"]).annotations if record.get("bundle") else {}
    return next((annotations[name] for name in _IMAGES if name in annotations), "")


class Workloads:
    """The workloads of a node's pods. A pod whose containers change has another workload from then on."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._known: "dict[str, tuple[list[str], Workload | None, float]]" = {}

    def update(self, keys: "Iterable[str]", time: float) -> None:
        """Read the workloads of these pods, whose containers have changed since the last call or are unknown."""
        before, self._known = self._known, {}
        for key in keys:
            ids = sorted(self._context.ledger.members(key))
            known = before.get(key)
            if known is None or known[0] != ids:
                try:
                    found = recorded_workload(self._context, key, ids)
                except errors.InputError:
                    continue  # unknown: the next call reads it again
                same = known if known is not None and known[1] == found else None  # of restarted containers
                known = ids, found, same[2] if same else time
            self._known[key] = known

    def of(self, key: str) -> "Workload | None":
        """Return a pod's workload; None without a name, or if it is unknown."""
        return self._known[key][1] if key in self._known else None

    def since(self, key: str) -> float:
        """Return the time of the call of `update` that found the present workload."""
        return self._known[key][2] if key in self._known else 0.0
