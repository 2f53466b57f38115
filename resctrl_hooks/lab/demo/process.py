"""A plain process in place of a container, for machines without a runtime and users without root."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .stage import Stage
from .subject import COMMAND, CRIO_ANNOTATIONS, NAME, POD_UID, Captions, RuntimeFailedError


class PlainProcess:
    """A process that waits, and a hook called on it as a runtime would call it.

    Args:
        stage: The folder of its bundle, and the hook.
        id_: The id of the container that it stands for.
        annotations: Those of the container; None for those of a Kubernetes pod's.
        script: What it runs.
        begun: Called with its process id before the hook.
        resources: ``linux.resources`` of its bundle.
    """

    name = "a plain process"
    hint = "state.json"
    captions = Captions(
        "A process starts in place of a container, and waits",
        "the demo calls the hook with it, as a runtime calls it for a container",
        "the process waits while the demo calls the hook",
        "the process continues in its group",
        "the demo calls the hook again",
    )

    def __init__(
        self,
        stage: Stage,
        id_: str = NAME,
        annotations: dict[str, str] | None = None,
        script: str = COMMAND[-1],
        begun: Callable[[int], None] = lambda _: None,
        resources: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.key = POD_UID
        self._stage = stage
        self._id = id_
        self._annotations = CRIO_ANNOTATIONS if annotations is None else annotations
        self._script = script
        self._begun = begun
        self._resources = resources
        self._bundle = f"{stage.bundles}/{id_}"
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> str:
        """Create the process (see `Subject`): the shell waits at `read` as a container's init waits for its runtime."""
        os.makedirs(self._bundle, exist_ok=True)
        with open(f"{self._bundle}/config.json", "w", encoding="utf-8") as file:
            linux = {"resources": dict(self._resources)}
            json.dump({"ociVersion": "1.0.2", "annotations": self._annotations, "linux": linux}, file)
        script = f"read _; {self._script}"
        null = subprocess.DEVNULL  # it may outlive this process, whose output others read to its end
        self._process = subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
        )
        self._begun(self._process.pid)
        self._call("creating", self._process.pid)
        return "resctrl-hook hook < state.json"

    def start(self) -> str:
        """Start the process (see `Subject`)."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        return "echo > its stdin"

    def remove(self) -> str:
        """Remove the process (see `Subject`)."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None
        self._call("stopped", 0)
        return "resctrl-hook hook < stopped.json"

    def _call(self, status: str, pid: int) -> None:
        state = {
            "ociVersion": "1.0.2",
            "id": self._id,
            "status": status,
            "pid": pid,
            "bundle": self._bundle,
            "annotations": self._annotations,
        }
        done = subprocess.run(
            self._stage.hook,
            input=json.dumps(state).encode(),
            capture_output=True,
            check=False,
            env=self._stage.environment,
            cwd="/",
            start_new_session=True,
        )
        if done.returncode or done.stderr:
            raise RuntimeFailedError(done.stderr.decode(errors="replace").strip() or f"status {done.returncode}")
