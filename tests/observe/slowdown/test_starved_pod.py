"""A starved pod on this machine's kernel, without RDT: the hook records it, and one command names its cause."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import crio_annotations

PODS = {"batch": ("reports", 3), "shop": ("cart", 1)}
"""By namespace: the pod's name, and how many of its processes burn the same CPU."""


@pytest.fixture
def processes() -> list[subprocess.Popen[bytes]]:
    """Return the processes in the cgroup, which end with it."""
    return []


@pytest.fixture
def cgroup(processes: list[subprocess.Popen[bytes]]) -> Iterator[Path]:
    """Return a cgroup of this test below this process's own one."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    there = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    own = [line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    if not there or not own or "resctrl" in Path("/proc/filesystems").read_text():
        pytest.skip("needs cgroup v2 on a kernel without resctrl")
    folder = there[0] / own[0][len("0::/") :] / f"resctrl-hooks-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"needs permission to create a cgroup: {error}")
    yield folder
    for below in [*(Path(path) for path, *_ in os.walk(folder, topdown=False))]:
        for pid in (below / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        until = time.monotonic() + 20
        while (below / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.05)  # until init has taken the children
        below.rmdir()
    for process in processes:
        process.wait()


def command(config: Path, *words: str, state: Any = None) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "resctrl_hooks", "--config", str(config), *words)
    return subprocess.run(words, input=json.dumps(state), capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.ci
def test_starved_pod_has_its_cause(cgroup: Path, tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    config, log = tmp_path / "config.json", tmp_path / "log"
    settings = {"stateDir": str(tmp_path / "state"), "slowdown": {"directory": str(tmp_path)}}
    settings |= {"log": {"target": "file", "file": str(log)}, "runtimeRoots": {"none": str(tmp_path / "none")}}
    config.write_text(json.dumps({"format": 1, **settings}))
    for namespace, (pod, loops) in PODS.items():
        uid, id_ = str(uuid.uuid4()), uuid.uuid4().hex * 2
        own = cgroup / f"kubepods-pod{uid.replace('-', '_')}.slice" / f"crio-{id_}.scope"
        own.mkdir(parents=True)
        names = {"io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.name": pod}
        annotations = crio_annotations(uid) | names
        bundle = tmp_path / pod
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.2.1", "annotations": annotations}))
        script = "read go; " + "while :; do :; done & " * loops + "wait"
        process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
        processes.append(process)
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        (own / "cgroup.procs").write_text(str(process.pid))
        about = {"ociVersion": "1.2.1", "id": id_, "status": "created", "pid": process.pid}
        done = command(config, "createRuntime", state={**about, "bundle": str(bundle), "annotations": annotations})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
    done = command(config, "diagnose", "shop/cart", "--for", "6s", "-o", "json")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    (found,) = json.loads(done.stdout)["items"]
    (cause,) = [one for one in found["causes"] if one["cause"] == "cpu-contention"]
    assert (found["verdict"], cause["state"]) == ("slowed", "supported")
    assert "waited for a CPU" in cause["text"]
    assert not log.exists() or not log.read_text()
