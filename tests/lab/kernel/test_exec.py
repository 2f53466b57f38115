"""Behaviour of runtimes around a hook, and processes that enter running containers while the exec watcher runs."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.bundles import Recorder
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import Installed, Staged, Watcher
from kernel.pods import Containers
from kernel.runtimes import Failed, Podman, cgroup_of, wait_until


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "recorder")


CREATED = {"runc": "creating", "crun": "created"}
"""The status at createRuntime, which says the stage to a hook that is called for both."""


def test_states_environment_and_place_at_both_stages_are_as_expected(
    containers: Containers, recorder: Recorder, resctrl: Resctrl
) -> None:
    resctrl.make("gold")
    pid = containers.create("c1", hooks=recorder.hooks, annotations={"example": "yes"}, rdt_class="gold")
    (created,) = recorder.calls()
    assert created["processes"] == 1, "init waits alone in its cgroup"
    assert (created["threads"] > 1) == (containers.runtime.name == "runc")  # runc's is a Go program
    assert parse_place(created["place"]) == Place("gold", "")
    umask = (recorder.folder / "umask").read_text()
    assert umask.strip() == {"runc": "0022", "crun": "0000"}[containers.runtime.name]
    containers.runtime.start("c1")
    assert Path(f"/proc/{pid}/cgroup").read_text().strip() == created["cgroup"]
    assert place_of(pid) == Place("gold", "")
    containers.end("c1")
    created, stopped = recorder.calls()
    assert (created["stage"], stopped["stage"]) == ("createRuntime", "poststop")
    assert (created["state"]["status"], created["state"]["pid"]) == (CREATED[containers.runtime.name], pid)
    assert (stopped["state"]["status"], stopped["state"].get("pid", 0)) == ("stopped", 0)
    for call in (created, stopped):
        assert call["state"]["id"] == "c1"
        assert call["state"]["bundle"].endswith("/bundles/c1")
        assert call["state"]["annotations"]["example"] == "yes"
        assert set(call["environment"].split()) <= {"PATH", "PWD", "SHLVL", "_", "OLDPWD"}


def test_refusal_at_create_runtime_fails_the_container(containers: Containers, recorder: Recorder) -> None:
    hooks = {**recorder.hooks, "createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", "echo no >&2; exit 79"]}]}
    with pytest.raises(Failed) as refused:
        containers.run("c4", "echo started", hooks=hooks)
    assert "started" not in str(refused.value)
    if containers.runtime.name == "runc":  # runc prints the hook's output, and runs poststop; crun does neither
        assert "no" in str(refused.value)
        assert [call["stage"] for call in recorder.calls()] == ["poststop"]
    else:
        assert recorder.calls() == []


EXECS = 20
IN_TIME = "sleep 1; cat /proc/self/cpu_resctrl_groups"
"""A shell line that says where its children are born once it has been moved."""


@pytest.fixture
def watcher(installed: Installed, resctrl: Resctrl) -> Iterator[Watcher]:
    with contextlib.closing(Watcher(installed)) as found:
        found.start()
        yield found


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
    with contextlib.closing(Watcher(staged)) as watcher:
        watcher.start()
        engine = podman(staged.write_hooks_d())
        health = [f"--health-cmd={IN_TIME} >/dev/said", "--health-interval=disable", "--health-start-period=0s"]
        engine.run(image, "sleep 1000", "-d", "--name", "m", *health)
        own = place_of(engine.pid("m"))
        assert own.group
        assert parse_place(engine.command("exec", "m", "/bin/sh", "-c", IN_TIME)) == own
        engine.command("healthcheck", "run", "m")
        assert parse_place(engine.command("exec", "m", "cat", "/dev/said")) == own


@pytest.mark.only(driver="cgroupfs", runtime_name="runc")
def test_parallel_execs_all_join_the_group(
    containers: Containers, installed: Installed, watcher: Watcher, resctrl: Resctrl
) -> None:
    init = containers.start("crowded", "mkfifo /dev/go; exec sleep 1000")
    go = f"/proc/{init}/root/dev/go"
    wait_until(lambda: os.path.exists(go), "the container has its FIFO")
    group = place_of(init).group
    kept = sorted(Path(installed.state).rglob("*"))
    words = ["runc", "exec", "crowded", "/bin/sh", "-c", ": </dev/go"]  # waits for a writer without a child
    execs = [subprocess.Popen(words, stdin=subprocess.DEVNULL) for _ in range(EXECS)]

    def all_are_inside() -> bool:
        inside = {int(pid) for pid in (cgroup_of(init) / "cgroup.threads").read_text().split()}
        return len(inside) > EXECS and resctrl.tasks(f"mon_groups/{group}") == inside

    wait_until(all_are_inside, "all of them are in the group")
    with open(go, "w"):
        assert [one.wait(60) for one in execs] == [0] * EXECS
    wait_until(lambda: resctrl.tasks(f"mon_groups/{group}") == {init}, "they have ended")
    wait_until(lambda: watcher.figures()["moved"] >= EXECS, "the figures are written")
    figures = watcher.figures()
    assert (figures["failed"], figures["left"], figures["overruns"], figures["degraded"]) == (0, 0, 0, 0)
    assert len(os.listdir(f"/proc/{figures['pid']}/fd")) < 12
    assert sorted(Path(installed.state).rglob("*")) == kept
    containers.runtime.delete("crowded", force=True)
    assert not list(resctrl.groups())
