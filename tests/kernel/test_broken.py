"""A node survives us: real runtimes with our hook broken in one way at a time, for containers from before and after."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from install.staged import call, command, impatient, put

from kernel.groups import Resctrl
from kernel.runtimes import Runtime, run
from resctrl_hooks.install.guard import TIMEOUT
from resctrl_hooks.install.paths import CODE

POD = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c0"
SLEEP = ["/bin/sleep", "1000"]


@pytest.fixture(params=["cgroupfs"])
def driver() -> str:
    return "cgroupfs"


class Host:
    """Our hook, staged below a folder, with the guest's own resctrl."""

    def __init__(self, root: Path) -> None:
        self.root = root
        put(root)
        self.code = root / CODE.lstrip("/")
        self.settings = root / "etc/resctrl-hooks/config.json"
        self.state = root / "state"
        self.configure()
        self.command = impatient(command(root), 5)

    def configure(self, **settings: object) -> None:
        paths = {"resctrlPath": os.environ["RESCTRL_ROOT"], "stateDir": str(self.state), "deadlineSeconds": 4.5}
        self.settings.write_text(json.dumps({"format": 1, **paths, "log": {"target": "none"}, **settings}))

    @property
    def modules(self) -> Path:
        (found,) = self.code.glob("node-*")
        return found

    @property
    def hooks(self) -> dict[str, list[dict[str, object]]]:
        hook = {"path": self.command[0], "args": self.command, "timeout": TIMEOUT}
        return {stage: [hook] for stage in ("createRuntime", "poststop")}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


Breakage = Callable[[Host], object]


@contextlib.contextmanager
def interpreter_gone(host: Host) -> Iterator[None]:
    del host
    python = os.path.realpath("/usr/bin/python3")
    os.rename(python, f"{python}.away")
    try:
        yield
    finally:
        os.rename(f"{python}.away", python)


@contextlib.contextmanager
def disk_full(host: Host) -> Iterator[None]:
    shutil.rmtree(host.state, ignore_errors=True)
    host.state.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=4", "full", str(host.state)])
    with contextlib.suppress(OSError):
        (host.state / "filler").write_bytes(b"x" * 65536)
    try:
        yield
    finally:
        run(["umount", str(host.state)])


@contextlib.contextmanager
def unmounted(host: Host) -> Iterator[None]:
    del host
    root = os.environ["RESCTRL_ROOT"]
    run(["umount", root])
    try:
        yield
    finally:
        run(["mount", "-t", "resctrl", "resctrl", root])


def code_gone(host: Host) -> None:
    shutil.rmtree(host.code)


def modules_gone(host: Host) -> None:
    shutil.rmtree(host.modules)


def half_of_them(host: Host) -> None:
    for path in host.modules.glob("*.cpython-*"):
        path.unlink()
    for path in sorted(host.modules.glob("*.py"))[::2]:
        path.unlink()


def script_fifo(host: Host) -> None:
    (host.code / "launch.py").unlink()
    os.mkfifo(host.code / "launch.py")


def script_loops(host: Host) -> None:
    (host.code / "launch.py").write_text("while True: pass\n")


def settings_garbage(host: Host) -> None:
    for path in host.settings.parent.glob("*.json"):
        path.write_bytes(b"\xff{")


def settings_gone(host: Host) -> None:
    shutil.rmtree(host.settings.parent)


BREAKAGES = [
    *(interpreter_gone, disk_full, unmounted),
    *(code_gone, modules_gone, half_of_them, script_fifo, script_loops, settings_garbage, settings_gone),
]


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_containers_start_and_stop_on_broken_host(
    runtime: Runtime, bundle: Callable[..., str], host: Host, resctrl: Resctrl, breakage: Breakage
) -> None:
    def make(number: int) -> str:
        pod = {"io.container.manager": "cri-o", "io.kubernetes.cri-o.ContainerType": "container"}
        pod |= {"io.kubernetes.pod.uid": f"{POD}{number}", "io.kubernetes.pod.namespace": "shop"}
        linux = {"cgroupsPath": runtime.cgroups_path(f"c{number}")}
        return bundle(f"b{number}", SLEEP, hooks=host.hooks, annotations=pod, linux=linux)

    runtime.create("c1", make(1))
    assert os.path.isdir(resctrl.path("", f"{POD}1"))  # it works before
    runtime.start("c1")
    broken = breakage(host)
    with broken if isinstance(broken, contextlib.AbstractContextManager) else contextlib.nullcontext():
        runtime.create("c2", make(2))
        runtime.start("c2")
        for container in ("c1", "c2"):
            runtime.kill(container)
            runtime.delete(container)
            assert container not in runtime.command("list", "-q").split()


def test_refusal_refuses_container(runtime: Runtime, bundle: Callable[..., str], host: Host, resctrl: Resctrl) -> None:
    del resctrl
    host.configure(failurePolicy="fail", resctrlPath="/nonexistent")
    linux = {"cgroupsPath": runtime.cgroups_path("c1")}
    printed = runtime.run("c1", bundle("b", SLEEP, hooks=host.hooks, linux=linux), check=False)
    assert "79" in printed


def test_shell_without_processes_is_not_a_failure(host: Host) -> None:
    folder = Path("/sys/fs/cgroup/no-process")
    folder.mkdir()
    try:
        (folder / "pids.max").write_text("1")
        words = ["/bin/sh", "-c", 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"', "sh", str(folder), *host.command]
        done = call(words)
        assert done.returncode == 0, done.stderr
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
