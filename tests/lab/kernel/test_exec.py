"""Processes that enter running containers, with the exec watcher: no reconcile runs in these tests."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.cgroups import cgroup_of
from kernel.containers import SLEEP, Containers
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import Installed, Staged
from kernel.runtimes import Podman, wait_until
from kernel.watching import Watcher

IN_TIME = "sleep 1; cat /proc/self/cpu_resctrl_groups"
"""A shell line that says where its children are born once it has been moved."""


@pytest.fixture
def watcher(installed: Installed, resctrl: Resctrl) -> Iterator[Watcher]:
    del resctrl  # there before
    found = Watcher(installed).start()
    yield found
    found.stop()


def test_exec_joins_the_group_of_its_container(containers: Containers, watcher: Watcher, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    init = containers.start("entered", rdt_class="gold")
    own = place_of(init)
    assert own.rdt_class == "gold"
    assert own.group
    assert parse_place(containers.runtime.command("exec", "entered", "/bin/sh", "-c", IN_TIME)) == own
    containers.runtime.delete("entered", force=True)


@pytest.mark.only(driver="cgroupfs")
def test_podman_exec_and_healthcheck_join_the_group(
    podman: Callable[..., Podman], image: str, tmp_path: Path, resctrl: Resctrl
) -> None:
    staged = Staged(str(tmp_path / "host"), runtime="podman")
    watcher = Watcher(staged).start()
    try:
        engine = podman(staged.write_hooks_d())
        check = f"--health-cmd={IN_TIME} >/dev/said"
        engine.run(
            image, "sleep 1000", "-d", "--name", "m", check, "--health-interval=disable", "--health-start-period=0s"
        )
        own = place_of(engine.pid("m"))
        assert own.group
        assert parse_place(engine.command("exec", "m", "/bin/sh", "-c", IN_TIME)) == own
        engine.command("healthcheck", "run", "m")
        assert parse_place(engine.command("exec", "m", "cat", "/dev/said")) == own
    finally:
        watcher.stop()


@pytest.mark.only(driver="cgroupfs", runtime_name="runc")
def test_storm_of_short_execs_leaks_nothing_and_spares_the_host(
    containers: Containers, watcher: Watcher, resctrl: Resctrl
) -> None:
    init = containers.start("stormed")
    own = place_of(init)
    enter = 'for i in $(seq 50); do sh -c \'echo 0 >"$0"; exec /bin/true\' "$0"; done'
    host = subprocess.Popen(SLEEP)
    try:
        subprocess.run(["/bin/sh", "-c", enter, str(cgroup_of(init) / "cgroup.procs")], check=True)
        wait_until(lambda: watcher.figures().get("moved", 0) >= 25, "most of them were moved")
        assert place_of(host.pid) == Place("", "")
        assert resctrl.tasks("", own.group) == {init}
    finally:
        host.kill()
        host.wait()
    figures = watcher.figures()
    assert (figures["failed"], figures["overruns"], figures["degraded"]) == (0, 0, 0)
    assert len(os.listdir(f"/proc/{figures['pid']}/fd")) < 12
    containers.runtime.delete("stormed", force=True)
    assert not list(resctrl.groups())


@pytest.mark.only(driver="cgroupfs", runtime_name="runc")
@pytest.mark.parametrize("number", [20, pytest.param(100, marks=pytest.mark.measures)])  # 0.7 s of the guest for each
def test_parallel_execs_all_join_the_group(
    containers: Containers, installed: Installed, watcher: Watcher, resctrl: Resctrl, number: int
) -> None:
    init = containers.start("crowded", "mkfifo /dev/go; exec sleep 1000")
    go = f"/proc/{init}/root/dev/go"
    wait_until(lambda: os.path.exists(go), "the container has its FIFO")
    group = place_of(init).group
    kept = sorted(Path(installed.state).rglob("*"))
    words = ["runc", "exec", "crowded", "/bin/sh", "-c", ": </dev/go"]  # waits for a writer without a child
    execs = [subprocess.Popen(words, stdin=subprocess.DEVNULL) for _ in range(number)]

    def all_are_inside() -> bool:
        inside = {int(pid) for pid in (cgroup_of(init) / "cgroup.threads").read_text().split()}
        return len(inside) > number and resctrl.tasks("", group) == inside

    wait_until(all_are_inside, "all of them are in the group")
    with open(go, "w"):
        assert [one.wait(60) for one in execs] == [0] * number
    wait_until(lambda: resctrl.tasks("", group) == {init}, "they have ended")
    wait_until(lambda: watcher.figures()["moved"] >= number, "the figures are written")
    figures = watcher.figures()
    assert (figures["failed"], figures["left"], figures["overruns"], figures["degraded"]) == (0, 0, 0, 0)
    assert len(os.listdir(f"/proc/{figures['pid']}/fd")) < 12
    assert sorted(Path(installed.state).rglob("*")) == kept
    containers.runtime.delete("crowded", force=True)
    assert not list(resctrl.groups())
