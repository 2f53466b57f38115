"""A Podman container, with the hook in a hooks folder.

All files of Podman and of the OCI runtime are below the stage's folder, separate from the containers, images and locks
of this machine's own Podman: commands for this machine find no container of the demo.
"""

import contextlib
import json
import os
import resource
import shlex
import shutil
import time
from typing import Final

import psutil

from .rootfs import make_rootfs
from .stage import Stage
from .subject import COMMAND, CONTAINER, NAME, run

_CGROUPS = "/sys/fs/cgroup"
_UNIFIED = f"{_CGROUPS}/cgroup.controllers"  # hosts with cgroup v2 only
OF_VERSION_1: Final = "runc"
"""The runtime for all other hosts: crun refuses those whose controllers are divided between both versions."""
_SYSTEMD = "/run/systemd/system"
_LARGEST_LIMIT = 1024
_SECONDS_TO_SETTLE = 10
_NAP = 0.02
_HELPERS = ("conmon", "podman")
# Locks in shared memory would be shared with this machine's own Podman, and be reset by the first call here. The limits
# are ours: Podman requests more than a nested container may set.
_CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile={limit}:{limit}", "nproc={limit}:{limit}"]
[engine]
lock_type = "file"
events_logger = "file"
"""


class Podman:
    """A Podman container, which finds the hook in a hooks folder as on every host.

    Args:
        stage: The folder of the hook and of Podman's files.
        runtime: The OCI runtime; empty for the usual one of this host.
    """

    name = "Podman"
    hint = "hooks.d/resctrl-hooks.json"
    captions = CONTAINER

    def __init__(self, stage: Stage, runtime: str = "") -> None:
        self.key = ""
        self._stage = stage
        unified = has_only_version_2()
        manager = "systemd" if unified and os.path.isdir(_SYSTEMD) else "cgroupfs"
        runtime = runtime or _usual_runtime(unified=unified)
        folder = stage.folder
        self.hooks = f"{folder}/hooks.d"
        # fmt: off
        self.command = [
            "podman", "--root", f"{folder}/podman", "--runroot", f"{folder}/podman-run",
            "--tmpdir", f"{folder}/podman-tmp", "--storage-driver", "vfs", "--cgroup-manager", manager,
            "--hooks-dir", self.hooks, *(["--runtime", _with_root(runtime, folder)] if runtime else []),
        ]
        # fmt: on
        self.environment = {**os.environ, "CONTAINERS_CONF": f"{folder}/containers.conf"}
        with open(f"{folder}/containers.conf", "w", encoding="utf-8") as file:
            file.write(_CONTAINERS_CONF.format(limit=_limit()))
        write_hook_json(stage, self.hooks)

    def call(self, *arguments: str) -> str:
        """Call Podman on this stage and return its output.

        Raises:
            RuntimeFailedError: It failed.
        """
        return run([*self.command, *arguments], self.environment)

    def rootfs(self, name: str) -> list[str]:
        """Return the options for a container with the host's files, in a folder of its own."""
        folder = f"{self._stage.folder}/{name}"
        binds = make_rootfs(folder)
        return [word for path in binds for word in ("-v", f"{path}:{path}:ro")] + [
            "--security-opt",
            "label=disable",
            "--rootfs",
            folder,
        ]

    def release_key(self, *pods: str) -> None:
        """Wait until all of Podman's processes have ended, and remove cgroups that it leaves, also of these pods.

        A container's monitor, conmon, ends after `podman rm` and runs `podman container cleanup` before: late enough to
        write into a folder that is being removed.
        """
        end = time.monotonic() + _SECONDS_TO_SETTLE
        while _is_named_by_a_process(f"{self._stage.folder}/") and time.monotonic() < end:
            time.sleep(_NAP)
        for cgroup in (*(f"libpod_parent/{pod}" for pod in pods), "libpod_parent/conmon", "libpod_parent"):
            _remove_empty_cgroup(cgroup)

    def create(self) -> str:
        """Create the container (see `Subject`); `podman init` runs createRuntime hooks without starting it."""
        self.key = self.call("create", "--name", NAME, "--network", "none", *self.rootfs("r"), *COMMAND).strip()
        self.call("init", NAME)
        return "podman … create; podman … init"

    def start(self) -> str:
        """Start the container (see `Subject`)."""
        self.call("start", NAME)
        return "podman … start"

    def remove(self) -> str:
        """Remove the container (see `Subject`)."""
        try:
            self.call("rm", "-f", "-t", "0", NAME)
        finally:
            self.release_key()
        return "podman … rm --force"


def _usual_runtime(*, unified: bool) -> str:
    """Return the runtime that Podman uses on this host, or one that can run here; empty for none."""
    names = ("crun", OF_VERSION_1) if unified else (OF_VERSION_1, "crun")
    return next((name for name in names if shutil.which(name)), "")


def _with_root(runtime: str, folder: str) -> str:
    """Return a program that calls the runtime with its state below the folder.

    Podman passes ``--runtime`` to the cleanup that conmon runs, but not ``--runtime-flag``.
    """
    program = f"{folder}/bin/{runtime}"
    os.makedirs(f"{folder}/bin", exist_ok=True)
    with open(program, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shutil.which(runtime)} --root {shlex.quote(f"{folder}/oci")} "$@"\n')
    os.chmod(program, 0o755)  # noqa: S103  # a program
    return program


def has_only_version_2() -> bool:
    """Return whether this host has the cgroups of version 2 and no hierarchy of version 1."""
    return os.path.exists(_UNIFIED)


def write_hook_json(stage: Stage, folder: str) -> None:
    """Write the hook's JSON into a hooks folder (oci-hooks(5), version 1.0.0)."""
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/resctrl-hooks.json", "w", encoding="utf-8") as file:
        json.dump(
            {
                "version": "1.0.0",
                "hook": stage.hook_entry(),
                "when": {"always": True},
                "stages": ["createRuntime", "poststop"],
            },
            file,
            indent=1,
        )


def _is_named_by_a_process(folder: str) -> bool:
    """Return whether another process has this folder on its command line, as conmon and Podman do."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if os.path.basename(words[0]) in _HELPERS and any(folder in word for word in words):
            return True
    return False


def _remove_empty_cgroup(path: str) -> None:
    """Remove an unused cgroup in every hierarchy."""
    for hierarchy in (_CGROUPS, *(f"{_CGROUPS}/{name}" for name in os.listdir(_CGROUPS))):
        with contextlib.suppress(OSError):
            os.rmdir(f"{hierarchy}/{path}")


def _limit() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _LARGEST_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _LARGEST_LIMIT)
