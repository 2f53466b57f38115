"""A runc or crun container with the hook in its bundle, annotated as CRI-O annotates a pod's container."""

import json
import os

from .rootfs import make_rootfs
from .stage import Stage
from .subject import COMMAND, CONTAINER, CRIO_ANNOTATIONS, NAME, run


class Bundle:
    """A runc or crun container whose bundle names the hook, annotated as CRI-O annotates a pod's container.

    Args:
        stage: The folder of the bundle, the hook and the runtime's files.
        runtime: ``runc`` or ``crun``.
    """

    hint = '"hooks" in the bundle\'s config.json'
    captions = CONTAINER

    def __init__(self, stage: Stage, runtime: str, id_: str = NAME, annotations: dict[str, str] | None = None) -> None:
        self.id = id_
        self.name = runtime
        self.annotations = CRIO_ANNOTATIONS if annotations is None else annotations
        self.key = self.annotations.get("io.kubernetes.pod.uid", id_)
        self._stage = stage
        self._command = [runtime, "--root", f"{stage.folder}/runtimes"]
        self._folder = f"{stage.bundles}/{id_}"

    def call(self, *arguments: str) -> str:
        """Call the runtime on this stage and return its output.

        Raises:
            RuntimeFailedError: It failed.
        """
        return run([*self._command, *arguments])

    def create(self) -> str:
        """Create the container (see `Subject`)."""
        binds = make_rootfs(f"{self._folder}/rootfs")
        with open(f"{self._folder}/config.json", "w", encoding="utf-8") as file:
            json.dump(self._configuration(binds), file, indent=1)
        self.call("create", "--bundle", self._folder, self.id)
        return f"{self.name} create --bundle bundle {self.id}"

    def start(self) -> str:
        """Start the container (see `Subject`)."""
        self.call("start", self.id)
        return f"{self.name} start {self.id}"

    def remove(self) -> str:
        """Remove the container (see `Subject`)."""
        self.call("delete", "--force", self.id)
        return f"{self.name} delete --force {self.id}"

    def _configuration(self, binds: list[str]) -> dict[str, object]:
        hook = self._stage.hook_entry()
        mounts: list[dict[str, object]] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
        mounts += [_bind(path) for path in binds]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": COMMAND,
                "cwd": "/",
                "env": ["PATH=/usr/bin:/bin"],
                "noNewPrivileges": True,
            },
            "root": {"path": "rootfs"},
            "mounts": mounts,
            "hooks": {"createRuntime": [hook], "poststop": [hook]},
            "annotations": self.annotations,
            "linux": {
                "cgroupsPath": f"/resctrl-hooks-{self.id}-{os.getpid()}",
                "namespaces": [{"type": name} for name in ("pid", "mount", "ipc", "uts", "network")],
            },
        }


def _bind(path: str) -> dict[str, object]:
    return {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]}
