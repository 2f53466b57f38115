"""runc, crun and Podman, driven as a container manager or a person drives them, and cgroups."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hosts.processes import is_alive

IMAGE = "localhost/busybox:test"
LIMIT = 300  # seconds for one command of a runtime: only so that a hang ends with a message
WAIT = 120
TRIES = 5


class Failed(Exception):  # noqa: N818  # reads as what happened
    """A runtime's command failed; the message contains its output."""


def run(words: Sequence[str], *, check: bool = True) -> str:
    """Run a command; return its output, both streams.

    The output goes through a file, not a pipe: a container inherits it and may outlive the command.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        done = subprocess.run([*words], **streams, timeout=LIMIT, check=False)
        output.seek(0)
        printed = output.read()
    if check and done.returncode:
        raise Failed(f"{' '.join(words)}: exit {done.returncode}\n{printed}")
    return printed


def wait_until(true: Any, what: str) -> None:
    """Wait for a condition (a function) to hold."""
    deadline = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.1)


class Runtime:
    """An OCI runtime under one of the two cgroup drivers."""

    def __init__(self, name: str, driver: str) -> None:
        self.name, self.driver = name, driver
        self._started: list[str] = []
        self._pids: dict[str, int] = {}

    def cgroups_path(self, container: str) -> str:
        """`linux.cgroupsPath` for a container that is in no pod."""
        return f"system.slice:test:{container}" if self.driver == "systemd" else f"/test/{container}"

    def command(self, *words: str, check: bool = True) -> str:
        systemd = ["--systemd-cgroup"] if self.driver == "systemd" else []
        return run([self.name, *systemd, *words], check=check)

    def note(self, container: str) -> None:
        """Has `clean` delete a container that is created otherwise."""
        self._started.append(container)

    def forget(self, container: str) -> None:
        """Spare `clean` a container that is gone: each deletion starts a process, slow when emulated."""
        self._started = [name for name in self._started if name != container]
        self._pids.pop(container, None)

    def create(self, container: str, bundle: str) -> None:
        """Create a container: createRuntime hooks run, its command does not yet."""
        self.note(container)
        self.command("create", "--bundle", bundle, "--pid-file", f"{bundle}/pid", container)
        self._pids[container] = int(Path(bundle, "pid").read_text())

    def start(self, container: str) -> None:
        self.command("start", container)

    def run(self, container: str, bundle: str, *, check: bool = True) -> str:
        """Run a container to its end, and delete it; return its output."""
        self.note(container)
        printed = self.command("run", "--bundle", bundle, container, check=check)
        if check:
            self.forget(container)
        return printed

    def pid(self, container: str) -> int:
        return self._pids.get(container) or int(json.loads(self.command("state", container))["pid"])

    def wait_stopped(self, container: str) -> None:
        pid = self.pid(container)
        wait_until(lambda: not is_alive(pid), f"{container} stops")

    def kill(self, container: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.command("kill", container, str(int(number)))
        self.wait_stopped(container)

    def delete(self, container: str, *, force: bool = False, check: bool = True) -> str:
        """Delete it: poststop hooks run."""
        printed = self.command("delete", *(["--force"] if force else []), container, check=check)
        if check:
            self.forget(container)
        return printed

    def clean(self) -> None:
        """Remove a test's leftovers; the second try is for processes that end slowly on a busy machine."""
        for container in self._started:
            for _ in range(TRIES):
                self.delete(container, force=True, check=False)
                if not os.path.exists(f"/run/{self.name}/{container}"):
                    break
                time.sleep(1)
        self._started, self._pids = [], {}


class Podman:
    """Podman with hooks from a folder, images from busybox, and no network."""

    def __init__(self, runtime: str, driver: str, hooks: str | None = None) -> None:
        self.runtime, self.driver = runtime, driver
        self.words = ["podman", f"--runtime={runtime}", f"--cgroup-manager={driver}", "--events-backend=file"]
        if hooks:
            self.words.append(f"--hooks-dir={hooks}")
        self._pods = False

    def command(self, *words: str, check: bool = True) -> str:
        self._pods |= words[0] in {"pod", "kube"}
        return run([*self.words, *words], check=check)

    def import_image(self, rootfs: str, name: str, *options: str) -> str:
        """Make an image of a root file system; its name."""
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            run(["tar", "-C", rootfs, "-cf", archive.name, "."])
            self.command("import", "--quiet", *options, archive.name, name)
        return name

    def run(self, image: str, command: str, *options: str, check: bool = True) -> str:
        """Run a shell line with `podman run`, without network; return its output, or the id with `-d`."""
        words = ["run", "--network=none", "--log-driver=k8s-file", *options, image, "/bin/sh", "-c", command]
        return self.command(*words, check=check).strip()

    def inspect(self, container: str, template: str) -> str:
        return self.command("inspect", "--format", template, container).strip()

    def pid(self, container: str) -> int:
        return int(self.inspect(container, "{{.State.Pid}}"))

    def clean(self) -> None:
        """Remove all containers, and all pods if there was one: each command takes a second or more."""
        if self._pods:
            self.command("pod", "rm", "--all", "--force", "--time=0", check=False)
        self.command("rm", "--all", "--force", "--time=0", check=False)


@contextlib.contextmanager
def quadlets(units: Mapping[str, str], *services: str) -> Iterator[None]:
    """Units of containers as an administrator writes them, by file; their services end with the context."""
    folder = Path("/etc/containers/systemd")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in units.items():
        (folder / name).write_text(text)
    run(["systemctl", "daemon-reload"])
    try:
        yield
    finally:
        run(["systemctl", "stop", *services], check=False)
        for name in units:
            (folder / name).unlink()
        run(["systemctl", "daemon-reload"])


CGROUPS = Path("/sys/fs/cgroup")


def cgroup_of(pid: int) -> Path:
    return CGROUPS / Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")


def file_of(pid: int, name: str) -> Path:
    """Return a file of a container's cgroup; under systemd crun's cgroup lacks some, which its scope has."""
    own = cgroup_of(pid) / name
    return own if own.exists() else cgroup_of(pid).parent / name


def value(pid: int, name: str) -> str:
    return file_of(pid, name).read_text().strip()
