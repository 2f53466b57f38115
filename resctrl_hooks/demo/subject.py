"""What the demo puts on its stage: something that is created, waits while the hook runs, is started, and removed."""

import subprocess
import tempfile
from typing import Protocol

NAME = "demo"
# Two processes, the second started by the first again and again: what is forked later is in the group as well.
COMMAND = ["sh", "-c", "while :; do sleep 1; done"]
POD_UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
# As CRI-O annotates the containers of a Kubernetes pod.
CRIO_ANNOTATIONS = {
    "io.container.manager": "cri-o",
    "io.kubernetes.cri-o.ContainerType": "container",
    "io.kubernetes.pod.uid": POD_UID,
    "io.kubernetes.pod.namespace": "shop",
    "io.kubernetes.pod.name": "web-0",
    "io.kubernetes.container.name": "server",
}
_SECONDS = 60


class RuntimeFailedError(Exception):
    """A runtime did not do what it was asked to; the text is what it said."""


class Subject(Protocol):
    """Something that is created, waits while the hook runs, is started, and removed."""

    name: str
    """Whose it is, in words."""
    hint: str
    """What of the stage tells the runtime to call the hook."""
    key: str
    """The key of its group, known once it is created."""

    def create(self) -> str:
        """Make it, its hook too, without letting it run; returns the command, shortened for people."""

    def start(self) -> str:
        """Let it run."""

    def remove(self) -> str:
        """End it, its hook too."""


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints.

    Raises:
        RuntimeFailedError: It failed, or did not end.
    """
    # Files, not pipes: a container that `create` leaves behind keeps what it was given open.
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as said,
    ):
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=said,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise RuntimeFailedError(f"{command[0]} did not answer in {_SECONDS} s") from None
        except FileNotFoundError:
            raise RuntimeFailedError(f"{command[0]} is not installed") from None
        output.seek(0)
        said.seek(0)
        if done.returncode:
            lines = said.read().strip() or f"{command[0]} ended with status {done.returncode}"
            raise RuntimeFailedError(lines)
        return output.read()
