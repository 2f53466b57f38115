"""A container's first instruction is in its pod's group; containers start without RMIDs and on a broken host."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import crio_annotations
from core.install import breakages
from core.install.staged import call

from kernel.bundles import EVERYBODY, FIRST_INSTRUCTION, HOST_USR
from kernel.groups import Place, Resctrl, parse_place, parse_places, place_of
from kernel.installed import Staged, disk_full, interpreter_gone, unmounted
from kernel.pods import UID, UIDS, Containers, KubernetesPod
from kernel.runtimes import wait_until
from resctrl_hooks import Monitor
from resctrl_hooks.core.install.paths import LAUNCH

ONE_DRIVER = pytest.mark.only(driver="cgroupfs")  # for tests that do not depend on the cgroup driver


@pytest.fixture
def installed(tmp_path: Path) -> Staged:
    return Staged(str(tmp_path / "host"))


def test_init_children_and_threads_are_in_the_group_from_the_first_instruction(
    pod: KubernetesPod, resctrl: Resctrl
) -> None:
    places = parse_places(pod.run("c0", EVERYBODY, mounts=[HOST_USR]))
    who = ["init", "init's thread", "child", "child's thread"]
    assert places == dict.fromkeys(who, Place("", UID)), pod.installed.said()
    pod.remove()
    pod.installed.reconcile()
    assert (list(resctrl.groups()), pod.installed.records()) == ([], [])


@ONE_DRIVER
def test_nul_in_pod_uid_and_a_large_state_for_a_broken_hook_have_no_effect(pod: KubernetesPod, tmp_path: Path) -> None:
    # crun, a C program, ends the text there and hands the hook the pod's own UID.
    printed = pod.run("c0", FIRST_INSTRUCTION, annotations={"io.kubernetes.pod.uid": f"{UID}\0/../canary"})
    assert parse_place(printed) == Place("", UID if pod.runtime.name == "crun" else ""), pod.installed.said()
    # A pipe holds 64 KiB of a state, and SIGPIPE kills crun if the rest is not read.
    (tmp_path / "host" / LAUNCH.lstrip("/")).unlink()
    printed = pod.run("c1", FIRST_INSTRUCTION, annotations={"example": "x" * (1 << 20)})
    assert parse_place(printed) == Place("", "")


@ONE_DRIVER
def test_container_starts_without_rmid_and_gets_one_later(pod: KubernetesPod, resctrl: Resctrl) -> None:
    others = resctrl.use_up()
    pid = pod.start("c0", "sleep 1000 & wait")
    wait_until(lambda: len(pod.threads(pid)) == 2, "its child runs")
    assert place_of(pid) == Place("", "")
    assert f"waiting/{UID}" in pod.installed.records()
    assert "Out of RMIDs" in pod.installed.said()
    os.rmdir(others[0])
    wait_until(lambda: not pod.installed.reconcile(check=False).returncode, "reconcile finds an RMID out of limbo")
    assert {place_of(tid) for tid in pod.threads(pid)} == {Place("", UID)}
    assert f"waiting/{UID}" not in pod.installed.records()
    pod.end("c0")
    assert not {"c0", "c-c0"} & {os.path.basename(record) for record in pod.installed.records()}
    pod.remove()
    pod.installed.reconcile()
    assert pod.installed.records() == []
    assert sorted(resctrl.groups()) == sorted(others[1:])
    resctrl.clean()
    resctrl.settle()  # the next test's hooks do not wait for RMIDs in limbo


@contextlib.contextmanager
def broken(breakage: breakages.Breakage, host: Path) -> Iterator[None]:
    breakage(host)
    yield


FAULTS: dict[str, Callable[[Path], contextlib.AbstractContextManager[object]]] = {
    "interpreter_gone": lambda _host: interpreter_gone(),
    "disk_full": lambda host: disk_full(host / "state"),
    "unmounted": lambda _host: unmounted(),
    "code_gone": lambda host: broken(breakages.code_gone, host),
    "dead_loop": lambda host: broken(breakages.dead_loop, host),
    "settings_garbage": lambda host: broken(breakages.settings_garbage, host),
}


@ONE_DRIVER
@pytest.mark.parametrize("fault", FAULTS)
def test_containers_start_and_stop_on_broken_host(
    containers: Containers, tmp_path: Path, resctrl: Resctrl, fault: str
) -> None:
    def start(number: int) -> None:
        containers.start(f"c{number}", annotations=crio_annotations(UIDS[number]))

    start(1)
    assert Path(resctrl.folder("", UIDS[1])).is_dir()  # it works before
    with FAULTS[fault](tmp_path / "host"):
        start(2)
        for container in ("c1", "c2"):
            containers.end(container)
            assert container not in containers.runtime.command("list", "-q").split()


@ONE_DRIVER
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


KEY = "job-17"


@pytest.mark.parametrize("rdt_class", ["", "gold"])
@pytest.mark.parametrize(
    "home", [Place("", ""), Place("", "mine"), Place("silver", ""), Place("silver", "mine")], ids=str
)
def test_program_starts_in_its_group_and_the_caller_returns(
    resctrl: Resctrl, tmp_path: Path, rdt_class: str, home: Place
) -> None:
    resctrl.settle()
    monitor = Monitor(resctrl.root, state_dir=tmp_path / "state")
    resctrl.make("gold", "silver")
    tid = threading.get_native_id()
    resctrl.join(tid, home.rdt_class)
    if home.group:
        resctrl.make(resctrl.folder(home.rdt_class, home.group))
        resctrl.join(tid, home.rdt_class, home.group)
    try:
        for argv in (FIRST_INSTRUCTION, EVERYBODY):
            with monitor.start(KEY, argv, rdt_class=rdt_class, stdout=subprocess.PIPE, text=True) as job:
                printed, _ = job.communicate()
            places = parse_places(printed).values() if argv == EVERYBODY else [parse_place(printed)]
            assert set(places) == {Place(rdt_class, KEY)}
            assert place_of(tid) == home
        job = monitor.start(KEY, ["sleep", "60"], rdt_class=rdt_class)
        assert resctrl.tasks(resctrl.folder(rdt_class, KEY)) == {job.pid}
        job.kill()
        job.wait()
        assert [group.path for group in monitor.remove(KEY)] == [resctrl.folder(rdt_class, KEY)]
        with pytest.raises(FileNotFoundError):
            monitor.start(KEY, ["/no/such/program"], rdt_class=rdt_class)
        assert (monitor.list(), place_of(tid)) == ([], home)
    finally:
        resctrl.join(tid)
