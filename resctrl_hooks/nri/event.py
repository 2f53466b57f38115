"""One event of a runtime's, decoded."""

from ..node.errors import HookError
from .protobuf import WireError, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POD_EVENTS = ("RemovePodSandbox",)


class Event:
    """One event, read: its name, the pod and container that it tells of, the runtime's name and its version of NRI."""

    def __init__(self, name: str, payload: bytes, runtime: str, version: str) -> None:
        self.name, _, dialect = name.partition(":")
        self.runtime = runtime
        self.version = version
        kind = "StateChangeEvent" if dialect else "PodEvent" if self.name in POD_EVENTS else "ContainerEvent"
        try:
            message = decode(kind, payload)
        except WireError as error:
            raise HookError(f"the runtime's {self.name} can't be read: {error}") from error
        self.pod: "dict[str, Any]" = message.get("pod", {})
        self.container: "dict[str, Any]" = message.get("container", {})
        self.key = ""

    @property
    def id(self) -> str:
        """The container's id."""
        found: str = self.container.get("id", "")
        return found

    def names(self) -> "dict[str, str]":
        """What the container is called, as far as that is known."""
        of = {"namespace": self.pod.get("namespace"), "pod": self.pod.get("name")}
        found = {"id": self.id, "key": self.key, **of, "container": self.container.get("name")}
        return {name: value for name, value in found.items() if value}

    def __str__(self) -> str:
        words = (self.pod.get("namespace"), self.pod.get("name"), self.container.get("name"))
        return "/".join(word for word in words if word) or self.id[:12] or "an unknown pod"


def container_of(name: str, payload: bytes) -> "tuple[str, int]":
    """Return the container's id and pid of a message, as far as they can be read; ``name`` is as `Event` takes it."""
    kind = "StateChangeEventHead" if name.partition(":")[2] else "ContainerEventHead"
    try:
        found = decode(kind, payload).get("container", {})
    except WireError:
        return "", 0  # whoever serves the event says so
    return found.get("id", ""), found.get("pid", 0)
