"""Events as Kubernetes' API has them: one for each pod, reason and cause, whose series counts repetitions. Pure.

The name of an Event follows from pod, reason and cause, so a process that was restarted finds its own. Source of the
fields and limits: Kubernetes' ``events.k8s.io/v1`` and its validation; of the series: client-go's ``tools/events``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

EVERY = 600.0
"""The least number of seconds between two reports of one cause on one pod."""
CONTROLLER = "resctrl-hooks"
_API = "events.k8s.io/v1"
_LONGEST_NAME, _HASH = 253, 16
_LONGEST_NOTE = 1024
_LONGEST_INSTANCE = 128
_VERSION_DIGIT, _RANDOM = 14, "4"  # of a UUID: the API server's UIDs are random, the kubelet's hashes are not


class Pod(NamedTuple):
    """A pod, by its names and its UID in the API."""

    namespace: str
    name: str
    uid: str


class Condition(NamedTuple):
    """A condition of a pod now. ``cause`` distinguishes conditions with one reason; ``note`` is for people."""

    pod: Pod
    reason: str
    cause: str
    action: str
    note: str

    @property
    def name(self) -> str:
        """The name of its Event."""
        digest = sha256(f"{self.pod.uid} {self.reason} {self.cause}".encode()).hexdigest()[:_HASH]
        return f"{self.pod.name[: _LONGEST_NAME - _HASH - 1].rstrip('-.')}.{digest}"


class Reported(NamedTuple):
    """How often an Event was reported, and when last: of an Event of the API, in seconds since 1970."""

    times: int
    last: float


def uid_of(key: str) -> str:
    """Return the UID in the API of a pod's key: a static pod's is the kubelet's hash, which has no dashes."""
    return key if key[_VERSION_DIGIT : _VERSION_DIGIT + 1] == _RANDOM else key.replace("-", "")


def event_of(condition: Condition, instance: str, now: float) -> dict[str, Any]:
    """Return a new Event.

    Args:
        condition: what it reports.
        instance: the node.
        now: seconds since 1970.
    """
    pod = condition.pod
    return {
        "apiVersion": _API,
        "kind": "Event",
        "metadata": {"name": condition.name, "namespace": pod.namespace},
        "eventTime": written(now),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:_LONGEST_INSTANCE],
        "action": condition.action,
        "reason": condition.reason,
        "type": "Warning",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "note": condition.note.encode()[:_LONGEST_NOTE].decode(errors="ignore"),
    }


def repeated(times: int, now: float) -> dict[str, Any]:
    """Return the change of an Event that was reported ``times``; the API permits a change of nothing but the series."""
    return {"series": {"count": times + 1, "lastObservedTime": written(now)}}


def reported_of(event: Mapping[str, Any]) -> Reported:
    """Return how often an Event of the API was reported.

    Raises:
        ValueError, KeyError, TypeError: not an Event.
    """
    series = event.get("series") or {"count": 1, "lastObservedTime": event["eventTime"]}
    return Reported(int(series["count"]), datetime.fromisoformat(series["lastObservedTime"]).timestamp())


def written(when: float) -> str:
    """Return a time as a ``MicroTime``."""
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
