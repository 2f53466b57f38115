"""What CRI-O does as far as a hook can tell, without CRI-O: its hooks, its pods, its annotations, its prune.

It reads the real folders of hooks when it starts, and again at each change in those that were there then (containers/
common, pkg/hooks). What it writes of a container and of a sandbox is what was captured from CRI-O 1.37: tests/fixtures.
"""

import ctypes
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from conftest import fixture

from kernel.bundles import hooks_from
from kernel.groups import Resctrl
from kernel.pods import Pod
from kernel.runtimes import Failed, Runtime

FOLDERS = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
RDT = "rdt.resources.beta.kubernetes.io"
LABELS = "io.kubernetes.cri-o.Labels"
ANNOTATIONS = "io.kubernetes.cri-o.Annotations"
_OF_CRIO = ("io.container.", "io.kubernetes.")
_KUBELETS = "io.kubernetes.pod."
_USERDATA = "/run/containers/storage/overlay-containers"
_CHANGES = 0x2 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400
"""IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF: inotify(7), which Python lacks."""
_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Changes in folders, from now on. One that is removed and made again is another folder."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            if _libc.inotify_add_watch(self._fd, os.fsencode(folder), _CHANGES) < 0:
                raise OSError(ctypes.get_errno(), "can't be watched", folder)

    def changed(self) -> bool:
        """Return whether there was a change since it was asked last."""
        try:
            return bool(os.read(self._fd, 1 << 16))
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Look no more."""
        os.close(self._fd)


class Crio:
    """A CRI-O that runs.

    Args:
        runtime: what makes its containers.
        bundle: the fixture of that name.
        folder: for what it keeps of sandboxes.
    """

    def __init__(self, runtime: Runtime, bundle: Callable[..., str], folder: Path) -> None:
        self.runtime, self.bundle, self.folder = runtime, bundle, folder
        self._start()

    def _start(self) -> None:
        self._folders = [path for path in FOLDERS if os.path.isdir(path)]  # the others are skipped, with a warning
        self._watch = Watch(self._folders)
        self._read()

    def _read(self) -> None:
        self._hooks = hooks_from(*(path for path in self._folders if os.path.isdir(path)))

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """The hooks in the bundle of a container created now."""
        if self._watch.changed():
            self._read()
        return self._hooks

    def stop(self) -> None:
        """Containers run on."""
        self._watch.close()

    def restart(self, resctrl: Resctrl, classes: Collection[str]) -> None:
        """Comes back with an RDT configuration of these classes: other classes go, busy or not, and empty groups."""
        self.stop()
        for path in list(resctrl.groups()):
            folder = Path(path)
            if folder.parent.name != "mon_groups":
                if folder.name not in classes:
                    folder.rmdir()
            elif folder.exists() and not (folder / "tasks").read_text():
                folder.rmdir()
        self._start()


class CrioPod(Pod):
    """A pod under a CRI-O: its cgroup, the saved configuration of its sandbox, and its containers c0, c1, ….

    Args:
        annotations: the pod's, from any author.
    """

    def __init__(
        self,
        crio: Crio,
        uid: str,
        name: str = "web-0",
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(uid, crio.runtime, crio.bundle, lambda: crio.hooks)
        self.name, self.folder, self.notes = name, crio.folder, dict(annotations or {})
        self._sandbox = secrets.token_hex(32)
        self._ids: dict[str, str] = {}
        words = self._words("sandbox-config", self._sandbox)
        # CRI-O's own first, then the pod's annotations, then the kubelet's labels.
        kubelets = {key: value for key, value in words.items() if key.startswith(_KUBELETS)}
        stated = {LABELS: json.dumps(kubelets), ANNOTATIONS: json.dumps(self.notes)}
        saved = self.folder / self._sandbox / "userdata" / "config.json"
        saved.parent.mkdir(parents=True)
        saved.write_text(json.dumps({"annotations": {**words, **stated, **self.notes, **kubelets}}))

    def _words(self, name: str, id_: str) -> dict[str, str]:
        """Return CRI-O's own annotations of a capture, with this pod's names and ids."""
        captured = fixture(f"crio-{self.runtime.name}-{name}.json")["annotations"]
        instead = {
            captured["io.kubernetes.cri-o.ContainerID"]: id_,
            captured["io.kubernetes.cri-o.SandboxID"]: self._sandbox,
            captured["io.kubernetes.pod.uid"]: self.uid,
            captured["io.kubernetes.pod.name"]: self.name,
            _USERDATA: str(self.folder),
        }
        text = json.dumps({key: value for key, value in captured.items() if key.startswith(_OF_CRIO)})
        found: dict[str, str] = json.loads(re.sub("|".join(instead), lambda match: instead[match[0]], text))
        return found

    def id_of(self, name: str) -> str:
        """Return the id of a container's last attempt: each has its own."""
        return self._ids[name]

    def annotations(self, name: str) -> dict[str, str]:
        """Return the pod's annotations, over which CRI-O writes its own."""
        return {**self.notes, **self._words("config", self.id_of(name)), "io.kubernetes.container.name": name}

    def bundle(self, name: str, *command: str | list[str], **options: Any) -> str:
        """Return the bundle of a new attempt of a container, in the RDT class that the pod's annotations name."""
        self._ids[name] = secrets.token_hex(32)
        rdt_class = self.notes.get(f"{RDT}/container.{name}", self.notes.get(f"{RDT}/pod", ""))
        return super().bundle(name, *command, rdt_class=rdt_class, **options)

    def start(self, name: str, *command: str | list[str], **options: Any) -> int:
        """Create and start a container; its init process. One that can't be created is deleted, as CRI-O does it."""
        try:
            return super().start(name, *command, **options)
        except Failed:
            self.runtime.delete(self.id_of(name), force=True, check=False)
            raise
