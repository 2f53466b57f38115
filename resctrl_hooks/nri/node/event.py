"""The names of a runtime's events, and one event, decoded."""

from ...core.node.errors import HookError
from ...core.node.host.files import is_there
from ...core.node.names import pod_key, valid_container_id
from .protobuf import WireError, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# The events by the number that StateChange gives them; direct calls have these names.
EVENTS = (
    "",
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
)
SYNCHRONIZE = "Synchronize"
POD_EVENTS = ("RemovePodSandbox",)
CREATE_CONTAINER = "CreateContainer"
START, LATE_START = "StartContainer", "PostStartContainer"
STARTS = (START, LATE_START)
ENDS = ("StopContainer", "RemoveContainer", *POD_EVENTS)


class Event:
    """One event, read: its name, its pod and container, the runtime's name and its version of NRI.

    An end needs the heads of pod and container only.
    """

    def __init__(self, name: str, payload: bytes, runtime: str, version: str) -> None:
        self.name = name.partition(":")[0]
        self.runtime = runtime
        self.version = version
        try:
            message = decode(_type_of(name), payload, head=self.name in ENDS)
        except WireError as error:
            raise HookError(f"cannot parse the runtime's {self.name}: {error}") from error
        self.pod: "dict[str, Any]" = message.get("pod", {})
        self.container: "dict[str, Any]" = message.get("container", {})
        self.key = ""

    @property
    def id(self) -> str:
        """The container's id."""
        found: str = self.container.get("id", "")
        return found

    def names(self) -> "dict[str, str]":
        """Return the container's names as far as known."""
        of = {"namespace": self.pod.get("namespace"), "pod": self.pod.get("name")}
        found = {"id": self.id, "key": self.key, **of, "container": self.container.get("name")}
        return {name: value for name, value in found.items() if value}

    def __str__(self) -> str:
        words = (self.pod.get("namespace"), self.pod.get("name"), self.container.get("name"))
        return "/".join(word for word in words if word) or self.id[:12] or "an unknown pod"


def mask_of(events: "Iterable[str]") -> int:
    """Return the events' bits, as Configure's answer has them."""
    return sum(1 << EVENTS.index(event) - 1 for event in events)


def container_of(name: str, payload: bytes) -> str:
    """Return the container's id in a message, empty if it cannot be read; ``name`` is as `Event` takes it."""
    found: str = _head_of(name, payload).get("container", {}).get("id", "")
    return found


def has_record(name: str, payload: bytes, state_dir: str) -> bool:
    """Return whether anything is recorded of the container of a message, or of its pod where it names no container.

    One that cannot be read counts as recorded, so that the error is reported where the event is served.
    """
    head = _head_of(name, payload)
    container, uid = head.get("container", {}).get("id", ""), head.get("pod", {}).get("uid", "")
    if name.partition(":")[0] in POD_EVENTS:
        key = pod_key(uid)
        return not head or (bool(key) and is_there(f"{state_dir}/pods/{key}"))
    return not head or (valid_container_id(container) and is_there(f"{state_dir}/containers/{container}"))


def _head_of(name: str, payload: bytes) -> "dict[str, Any]":
    try:
        return decode(_type_of(name), payload, head=True)
    except WireError:
        return {}


def _type_of(name: str) -> str:
    """Return an event's type in `messages`."""
    event, _, dialect = name.partition(":")
    return "StateChangeEvent" if dialect else "PodEvent" if event in POD_EVENTS else "ContainerEvent"
