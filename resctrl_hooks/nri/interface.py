"""The interface of a plugin to its connection and to its process. Only type checkers import this module."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from .worker import Reply

    class Plugin(Protocol):
        """The plugin of a service: its work and its notifications."""

        name: str
        index: str

        def configure(self, request: "dict[str, Any]") -> None:
            """Accept the runtime's data, and the configuration in it."""

        def subscription(self) -> int:
            """Return the events that the settings need now, for Configure's answer; may read the settings again."""

        def generation(self) -> int:
            """Return a number that changes with the settings: processes of an earlier one serve by the old settings."""

        def serves(self, event: str, payload: bytes) -> bool:
            """Return whether there is anything to do on an event; ``event`` is its name as `serve` takes it."""

        def serve(self, event: str, payload: bytes, reply: "Reply") -> bool:
            """Serve one event in a separate process; reply with the result of `pack`."""

        def synchronize(self, parts: "list[bytes]", reply: "Reply") -> None:
            """Make the node agree with the runtime's list in a separate process; reply as `serve` does."""

        def limit(self, timeout: float) -> float:
            """Return how long an event that the runtime gives so many seconds may take before its process is killed."""

        def served(self, event: str, payload: bytes, seconds: float, code: "int | None") -> None:
            """Count an event: 0 is success, None a failure of its process."""

        def refusal(self, event: str, payload: bytes) -> str:
            """Return why a container is refused of whose event no process made anything; empty where it goes on."""

        def updated(self, why: str) -> None:
            """Handle the runtime's answer to UpdateContainers: the error, or nothing."""

        def connected(self) -> None:
            """Handle the runtime's registration and configuration of this plugin."""

    class ResidentPlugin(Plugin, Protocol):
        """The plugin that is served, and its notifications about connections."""

        def dropped(self, why: str) -> None:
            """Handle the end, or the failure, of a connection."""

        def adopt(self, reply: "Reply") -> None:
            """Adopt running containers in a separate process, without the runtime; reply as `serve` does."""
