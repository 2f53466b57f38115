"""The names of a runtime's events, and one event, decoded."""

from ...core.node.errors import HookError
from ...core.node.hook.call import Call
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


class Event(Call):
    """One event: its pod and container, the runtime's name and its version of NRI.

    An end needs the heads of pod and container only.
    """

    def __init__(self, name: str, payload: bytes, runtime: str, version: str) -> None:
        stage = name.partition(":")[0]
        super().__init__(stage, f"{'pod' if stage in POD_EVENTS else 'container'} not affected", b"")
        self.runtime = runtime
        self.version = version
        self._type = _type_of(name)
        self.read(payload)

    def read(self, payload: bytes) -> None:
        """Read its message.

        Raises:
            HookError: it cannot be parsed.
        """
        try:
            message = decode(self._type, payload, head=self.stage in ENDS)
        except WireError as error:
            raise HookError(f"cannot parse the runtime's {self.stage}: {error}") from error
        self.pod: "dict[str, Any]" = message.get("pod", {})
        self.container: "dict[str, Any]" = message.get("container", {})
        self.id = self.container.get("id", "")
        pod, name = self.pod, self.container.get("name")
        names = {"namespace": pod.get("namespace"), "pod": pod.get("name"), "container": name}
        self.names = {field: value for field, value in names.items() if value}

    def __str__(self) -> str:
        return "/".join(self.names.values()) or self.id[:12] or "an unknown pod"


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
