"""A node survives us: real runtimes with our hook broken in one way at a time, for containers from before and after.

tests/core/install/test_guard.py has more ways, and test_starved.py the hooks that hang.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import crio_annotations
from core.install import breakages
from core.install.staged import call

from kernel.breakages import disk_full, interpreter_gone, unmounted
from kernel.containers import Containers
from kernel.groups import Resctrl
from kernel.installed import Staged
from kernel.pods import UIDS
from kernel.runtimes import Failed

pytestmark = pytest.mark.only(driver="cgroupfs")


@pytest.fixture
def installed(tmp_path: Path) -> Staged:
    return Staged(str(tmp_path / "host"))


@contextlib.contextmanager
def broken(breakage: breakages.Breakage, host: Path) -> Iterator[None]:
    """Break the hook for good."""
    breakage(host)
    yield


Fault = Callable[[Path], contextlib.AbstractContextManager[None]]
FAULTS: dict[str, Fault] = {
    "interpreter_gone": lambda _host: interpreter_gone(),
    "disk_full": lambda host: disk_full(host / "state"),
    "unmounted": lambda _host: unmounted(),
    **{
        breakage.__name__: partial(broken, breakage)
        for breakage in (breakages.code_gone, breakages.dead_loop, breakages.settings_garbage)
    },
}


@pytest.mark.parametrize("fault", FAULTS)
def test_containers_start_and_stop_on_broken_host(
    containers: Containers, tmp_path: Path, resctrl: Resctrl, fault: str
) -> None:
    def start(number: int) -> None:
        containers.start(f"c{number}", annotations=crio_annotations(UIDS[number]))

    start(1)
    assert Path(resctrl.path("", UIDS[1])).is_dir()  # it works before
    with FAULTS[fault](tmp_path / "host"):
        start(2)
        for container in ("c1", "c2"):
            containers.end(container)
            assert container not in containers.runtime.command("list", "-q").split()


def test_refusal_refuses_container(containers: Containers, installed: Staged, resctrl: Resctrl) -> None:
    del resctrl
    installed.configure(failurePolicy="fail", resctrlPath="/nonexistent")
    with pytest.raises(Failed, match="79"):
        containers.run("c1")


def test_shell_without_processes_is_not_a_failure(installed: Staged) -> None:
    folder = Path("/sys/fs/cgroup/no-process")
    folder.mkdir()
    try:
        (folder / "pids.max").write_text("1")
        enter = 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"'
        done = call(["/bin/sh", "-c", enter, "sh", str(folder), *installed.hook["args"]])
        assert done.returncode == 0, done.stderr
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
