"""A plain process in place of a container, for machines without a runtime and users without root."""

import json
import os
import signal
import subprocess

from .stage import Stage
from .subject import COMMAND, CRIO_ANNOTATIONS, NAME, POD_UID, Captions, RuntimeFailedError


class PlainProcess:
    """A process that waits, and a hook called on it as a runtime would call it."""

    name = "a plain process"
    hint = "state.json"
    captions = Captions(
        "A process starts in place of a container, and waits",
        "the demo calls the hook with it, as a runtime calls it for a container",
        "the process waits while the demo calls the hook",
        "the process continues in its group",
        "the demo calls the hook again",
    )

    def __init__(self, stage: Stage) -> None:
        self.key = POD_UID
        self._stage = stage
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> str:
        """Create the process (see `Subject`): the shell waits at `read` as a container's init waits for its runtime."""
        os.makedirs(f"{self._stage.folder}/bundle", exist_ok=True)
        with open(f"{self._stage.folder}/bundle/config.json", "w", encoding="utf-8") as file:
            json.dump({"ociVersion": "1.0.2", "annotations": CRIO_ANNOTATIONS}, file)
        script = f"read _; {COMMAND[-1]}"
        self._process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, start_new_session=True)
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
            "id": NAME,
            "status": status,
            "pid": pid,
            "bundle": f"{self._stage.folder}/bundle",
            "annotations": CRIO_ANNOTATIONS,
        }
        done = subprocess.run(
            self._stage.hook, input=json.dumps(state).encode(), capture_output=True, check=False, env={}, cwd="/"
        )
        if done.returncode or done.stderr:
            raise RuntimeFailedError(done.stderr.decode(errors="replace").strip() or f"status {done.returncode}")
