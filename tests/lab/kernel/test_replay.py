"""Captured inputs of hooks replayed: processes in the same cgroups and classes, the same state on stdin.

Only the pid and the bundle's path are changed. The captures are the cgroupfs driver's; systemd's form of the same
cgroups is derived from them.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, fixture
from core.install.staged import call
from core.node.hook.test_captured import CASES

from kernel.cgroups import CGROUPS
from kernel.groups import Place, Resctrl, parse_places, place_of
from kernel.installed import Staged

pytestmark = pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
"""Whose form the cgroups have: they are folders in the one and in the other, so no systemd is needed."""
THREADS = {"runc": 6, "crun": 1}
"""How many the init process has at createRuntime: runc's is a Go program."""
INIT = """
import _thread, json, os, sys, time
def note(who, lock=None):
    with open("/proc/thread-self/cpu_resctrl_groups") as place:
        print(json.dumps({who: place.read()}), flush=True)
    if lock:
        lock.release()
for _ in range(int(sys.argv[1]) - 1):
    _thread.start_new_thread(time.sleep, (1000,))
print("ready", flush=True)
sys.stdin.readline()
note("itself")
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(note, ("a new thread", lock))
lock.acquire()
if not (child := os.fork()):
    note("a child")
    os._exit(0)
os.waitpid(child, 0)
print("end", flush=True)
sys.stdin.readline()
"""
"""Replaces a container's init: waits with its threads, then prints its own place and its children's."""


class Capture:
    """A captured container, on this host.

    Args:
        name: of the capture: `<manager>-<runtime>-…`.
        driver: whose form the cgroups have.
        folder: for the bundle.
    """

    def __init__(self, name: str, driver: str, folder: Path) -> None:
        self.key, self.rdt_class = CASES[name]
        self.state: dict[str, Any] = fixture(f"{name}-createRuntime-state.json")
        self.id: str = self.state["id"]
        self.runtime = name.split("-")[1] if name.startswith("podman") else name.removesuffix("-c1").split("-")[-1]
        stopped = FIXTURES / f"{name}-poststop-state.json"
        # Container c1's poststop was not captured; it has the shape of c0's.
        self.stopped: dict[str, Any] = fixture(
            stopped.name if stopped.exists() else f"{name.removesuffix('-c1')}-poststop-state.json"
        )
        config = fixture(f"{name}-config.json")
        path: str = config["linux"]["cgroupsPath"]
        if driver == "systemd":
            config["linux"]["cgroupsPath"], path = as_systemd_has_it(path, self.runtime)
        self.cgroup = CGROUPS / path.lstrip("/")
        self.bundle = folder / name
        self.bundle.mkdir()
        (self.bundle / "config.json").write_text(json.dumps(config))

    @contextlib.contextmanager
    def process(self, resctrl: Resctrl) -> Iterator[subprocess.Popen[str]]:
        """Its init in its cgroup and class, as the runtime leaves it for createRuntime."""
        self.cgroup.mkdir(parents=True)
        words = [sys.executable, "-W", "ignore", "-c", INIT, str(THREADS[self.runtime])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as init:
            try:
                assert init.stdout
                assert init.stdout.readline() == "ready\n"
                (self.cgroup / "cgroup.procs").write_text(str(init.pid))
                for task in tasks_of(init.pid):
                    resctrl.join(task, self.rdt_class)
                yield init
            finally:
                init.kill()

    def created(self, pid: int) -> dict[str, Any]:
        """Return the state at createRuntime."""
        return self.state | {"pid": pid, "bundle": str(self.bundle)}

    def ended(self) -> dict[str, Any]:
        """Return the state at poststop."""
        return self.stopped | {"id": self.id, "bundle": str(self.bundle)}

    def remove_cgroup(self) -> None:
        """The container's own, as the runtime does it before poststop; its pod's stays."""
        self.cgroup.rmdir()
        if self.cgroup.name == "container":
            self.cgroup.parent.rmdir()


def as_systemd_has_it(path: str, runtime: str) -> tuple[str, str]:
    """Return `linux.cgroupsPath` and the cgroup's path of the systemd driver for cgroupfs' ``path``."""
    top, *middle, last = path.strip("/").split("/")
    prefix, _, name = last.partition("-")
    if top == "kubepods":
        pod = middle.pop().replace("-", "_")
        names = ["kubepods", *middle, pod]
    else:
        names = ["machine", *(f"libpod_pod_{pod}" for pod in middle)]
    slices = ["-".join(names[: depth + 1]) + ".slice" for depth in range(len(names))]
    scope = f"{prefix}-{name}.scope" + ("/container" if runtime == "crun" else "")
    return f"{slices[-1]}:{prefix}:{name}", "/".join(["", *slices, scope])


def tasks_of(pid: int) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{pid}/task")}


def remove_cgroups() -> None:
    """All that were made here; systemd isn't there to mind."""
    for top in ("kubepods", "kubepods.slice", "libpod_parent", "machine.slice"):
        for folder, _, _ in os.walk(CGROUPS / top, topdown=False):
            os.rmdir(folder)


@pytest.fixture
def staged(tmp_path: Path, resctrl: Resctrl) -> Iterator[Staged]:
    for rdt_class in ("gold", "silver"):
        resctrl.make(rdt_class)
    yield Staged(str(tmp_path / "host"))
    remove_cgroups()


def replay(staged: Staged, state: dict[str, Any]) -> None:
    done = call(staged.hook["args"], state, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), staged.said()


@pytest.mark.parametrize("name", CASES)
def test_capture_is_replayed(staged: Staged, resctrl: Resctrl, tmp_path: Path, name: str, driver: str) -> None:
    capture = Capture(name, driver, tmp_path)
    home = Place(capture.rdt_class, capture.key)
    with capture.process(resctrl) as init:
        threads = tasks_of(init.pid)
        assert len(threads) == THREADS[capture.runtime]
        replay(staged, capture.created(init.pid))
        assert {place_of(task) for task in threads} == {home}, staged.said()
        assert resctrl.tasks(home.rdt_class, home.group) == threads
        assert f"pods/{capture.key}/c-{capture.id}" in staged.records()
        printed, _ = init.communicate("go\nend\n")
        assert parse_places(printed.removesuffix("end\n")) == dict.fromkeys(("itself", "a new thread", "a child"), home)
    capture.remove_cgroup()
    replay(staged, capture.ended())
    group = resctrl.path(home.rdt_class, home.group)
    if capture.key == capture.id:
        assert not os.path.exists(group)
    else:  # the pod's cgroup is there: its next container finds its counters
        assert os.path.isdir(group)
        assert staged.records() == [f"idle/{capture.key}", f"pods/{capture.key}/pod"]
        remove_cgroups()
        staged.reconcile()
    assert resctrl.names() == ["gold", "silver"]
    assert staged.records() == []


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_containers_of_pod_join_two_classes(
    staged: Staged, resctrl: Resctrl, tmp_path: Path, runtime: str, driver: str
) -> None:
    first, second = (Capture(f"crio-rdt-{runtime}{end}", driver, tmp_path) for end in ("", "-c1"))
    assert first.key == second.key
    with first.process(resctrl) as one, second.process(resctrl) as two:
        for capture, init in ((first, one), (second, two)):
            replay(staged, capture.created(init.pid))
        for capture, init in ((first, one), (second, two)):
            assert {place_of(task) for task in tasks_of(init.pid)} == {Place(capture.rdt_class, capture.key)}
        one.kill()
        one.wait()
        first.remove_cgroup()
        replay(staged, first.ended())
        assert place_of(two.pid) == Place("silver", second.key)
        two.kill()
        two.wait()
    second.remove_cgroup()
    replay(staged, second.ended())
    remove_cgroups()
    staged.reconcile()
    assert resctrl.names() == ["gold", "silver"]


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_forged_uid_is_detected_by_cgroup(
    staged: Staged, resctrl: Resctrl, tmp_path: Path, runtime: str, driver: str
) -> None:
    capture = Capture(f"crio-{runtime}", driver, tmp_path)
    other = CASES["crio-rdt-runc"][0]
    with capture.process(resctrl) as init:
        state = capture.created(init.pid)
        state["annotations"]["io.kubernetes.pod.uid"] = other
        done = call(staged.hook["args"], state, timeout=60)
        assert done.returncode == 0
        assert f"claims pod {other} but runs in the cgroup of pod {capture.key}" in done.stderr.decode()
        assert place_of(init.pid) == Place("", "")
    capture.remove_cgroup()
    assert resctrl.names() == ["gold", "silver"]
