"""OCI bundles around busybox, as a container manager would write them, and hooks that a test can look into."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BUSYBOX = "/bin/busybox"
MOUNTS = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
)
NAMESPACES = ("pid", "mount", "ipc", "uts", "network")
OWN_PLACE = "cat /proc/self/cpu_resctrl_groups"
"""A container's command: says where its first instruction runs (a child of the shell, or the shell itself)."""
FIRST_INSTRUCTION = ["/bin/cat", "/proc/self/cpu_resctrl_groups"]  # the same, by the container's init itself
HOST_USR = {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}
"""A mount that gives a container this machine's programs and libraries."""
EVERYBODY = [
    *("/usr/bin/python3", "-I", "-S", "-W", "ignore", "-c"),
    """
import _thread, json, posix
places = {}
def note(who, done=None):
    with open("/proc/thread-self/cpu_resctrl_groups") as place:
        places[who] = place.read()
    if done:
        done.release()
def both(who):
    note(who)
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(note, (who + "'s thread", done))
    done.acquire()
    print(json.dumps(places), flush=True)
both("init")
places.clear()
child = posix.fork()
if not child:
    both("child")
    posix._exit(0)
posix.waitpid(child, 0)
""",
]
"""A container's command, with HOST_USR: init, a thread of it, a child and a thread of that say where they run."""

HEADLESS = [
    *("/usr/bin/python3", "-I", "-S", "-c"),
    """
import ctypes, _thread, time
_thread.start_new_thread(time.sleep, (1000,))
ctypes.CDLL(None).syscall(60, 0)
""",
]
"""A container's command, with HOST_USR: init's main thread ends by exit(2), and another thread goes on (x86-64)."""


def make_rootfs(folder: str) -> str:
    for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "usr"):
        os.makedirs(os.path.join(folder, name))
    for name in ("lib", "lib64"):  # for HOST_USR
        os.symlink(f"usr/{name}", os.path.join(folder, name))
    shutil.copy(BUSYBOX, os.path.join(folder, "bin"))
    subprocess.run(["chroot", folder, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    Path(folder, "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    return folder


def hooks_from(*folders: str) -> dict[str, list[dict[str, Any]]]:
    """Return the `hooks` of a bundle for hooks.d folders, files in the order of their names.

    For files of one name, the last folder's counts. Only the features of the project's own files are supported: version
    1.0.0 and `when.always`.
    """
    files = {name: Path(folder, name) for folder in folders for name in os.listdir(folder)}
    stages: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(name for name in files if name.endswith(".json")):
        hook = json.loads(files[name].read_text())
        assert (hook["version"], hook["when"].get("always")) == ("1.0.0", True), name
        for stage in hook["stages"]:
            stages.setdefault(stage, []).append(hook["hook"])
    return stages


def make_bundle(
    folder: str,
    rootfs: str,
    command: str | Sequence[str],
    *,
    hooks: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    annotations: Mapping[str, str] | None = None,
    linux: Mapping[str, Any] | None = None,
    mounts: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Write a bundle."""
    os.makedirs(folder, exist_ok=True)
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    configuration = {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": words, "env": ["PATH=/bin"], "cwd": "/"},
        "root": {"path": rootfs, "readonly": True},
        "hostname": "container",
        "mounts": [*MOUNTS, *mounts],
        "annotations": dict(annotations or {}),
        "hooks": dict(hooks or {}),
        "linux": {"namespaces": [{"type": name} for name in NAMESPACES], **(linux or {})},
    }
    Path(folder, "config.json").write_text(json.dumps(configuration, indent=1))
    return folder


def write_hook(path: str, hook: Mapping[str, Any], *stages: str) -> None:
    """Write a file of a hooks.d folder, which is created if it is missing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(json.dumps({"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": stages}))


class Recorder:
    """A hook that records its input: the state, and the init process's threads, cgroup and RDT place."""

    SCRIPT = """#!/bin/bash
# $1: the stage; one file for each call, in the order of the calls
umask > {folder}/umask
state=$(cat)
pid=$(jq -r '.pid // 0' <<<"$state")
[[ $pid == 0 ]] || { threads=$(ls /proc/$pid/task | wc -l); cgroup=$(cat /proc/$pid/cgroup)
    place=$(cat /proc/$pid/cpu_resctrl_groups); alone=$(wc -l <"/sys/fs/cgroup${cgroup#0::}/cgroup.procs"); }
jq -n --arg stage "$1" --argjson state "$state" --arg cgroup "${cgroup:-}" --arg place "${place:-}" \\
    --arg threads "${threads:-0}" --arg alone "${alone:-0}" --arg environment "$(env | cut -d= -f1 | sort | xargs)" \\
    '{stage: $stage, state: $state, cgroup: $cgroup, place: $place, threads: $threads|tonumber,
      processes: $alone|tonumber, environment: $environment}' >"{folder}/$(date +%s.%N)-$1"
"""

    def __init__(self, folder: Path) -> None:
        self.folder, self.script = folder / "calls", folder / "record.sh"
        self.folder.mkdir(parents=True)
        self.script.write_text(self.SCRIPT.replace("{folder}", str(self.folder)))
        self.script.chmod(0o755)

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        return {
            stage: [{"path": str(self.script), "args": ["record", stage], "env": ["PATH=/usr/bin:/bin"]}]
            for stage in ("createRuntime", "poststop")
        }

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*-*"))]
