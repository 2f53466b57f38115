"""The demo's subject: a container or process that is created, waits during the hook, is started, and removed."""

import subprocess
import tempfile
from typing import Final, NamedTuple, Protocol

NAME = "demo"
# Two processes, the second started repeatedly by the first: later forks are in the group too.
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


class Captions(NamedTuple):
    """The explanations of a subject's steps, which depend on the program that calls the hook."""

    created: str
    registered: str
    """The line of `Subject.hint`."""
    waits: str
    runs: str
    removed: str


CONTAINER: Final = Captions(
    "A container is created, but not started yet",
    "registers the hook for createRuntime and poststop",
    "its process exists and waits while the runtime calls the hook",
    "every instruction of the container runs in its group",
    "the runtime calls the hook again",
)


class RuntimeFailedError(Exception):
    """A runtime's command failed; the text is its output."""


class Subject(Protocol):
    """A container or process that is created, waits during the hook, is started, and removed."""

    name: str
    """The subject in words, for example its runtime."""
    hint: str
    """The file of the stage that makes the runtime call the hook."""
    captions: Captions
    key: str
    """The group's key, known after `create`."""

    def create(self) -> str:
        """Create the subject and run its hook, without starting it; return the command, shortened for people."""

    def start(self) -> str:
        """Start the subject."""

    def remove(self) -> str:
        """Stop and remove the subject; its hook runs too."""


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeFailedError: It failed or timed out.
    """
    # Files, not pipes: a container that `create` leaves running keeps inherited pipes open.
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as error_output,
    ):
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error_output,
                check=False,
                timeout=_SECONDS,
                start_new_session=True,  # Ctrl-C is the demo's alone
            )
        except subprocess.TimeoutExpired:
            raise RuntimeFailedError(f"{command[0]} did not answer in {_SECONDS} s") from None
        except FileNotFoundError:
            raise RuntimeFailedError(f"{command[0]} is not installed") from None
        output.seek(0)
        error_output.seek(0)
        if done.returncode:
            lines = error_output.read().strip() or f"{command[0]} ended with status {done.returncode}"
            raise RuntimeFailedError(lines)
        return output.read()
