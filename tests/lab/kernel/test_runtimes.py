"""Behaviour of runc, crun and Podman around a hook, on which the project's hooks depend."""

import os
from collections.abc import Callable

import pytest

from kernel.bundles import OWN_PLACE, Recorder
from kernel.containers import Containers
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.runtimes import Failed, Podman

CREATED = {"runc": "creating", "crun": "created"}
"""The status at createRuntime, which says the stage to a hook that is called for both."""


def test_states_of_both_stages_are_as_expected(containers: Containers, recorder: Recorder) -> None:
    pid = containers.start("c1", hooks=recorder.hooks, annotations={"example": "yes"})
    containers.end("c1")
    created, stopped = recorder.calls()
    assert (created["stage"], stopped["stage"]) == ("createRuntime", "poststop")
    assert created["state"]["status"] == CREATED[containers.runtime.name]
    assert created["state"]["pid"] == pid
    assert stopped["state"]["status"] == "stopped"
    assert stopped["state"].get("pid", 0) == 0
    for call in (created, stopped):
        assert call["state"]["id"] == "c1"
        assert call["state"]["bundle"].endswith("/bundles/c1")
        assert call["state"]["annotations"]["example"] == "yes"


def test_init_waits_alone_in_cgroup_and_class(containers: Containers, recorder: Recorder, resctrl: Resctrl) -> None:
    resctrl.make("gold")
    pid = containers.create("c2", hooks=recorder.hooks, rdt_class="gold")
    (call,) = recorder.calls()
    assert call["processes"] == 1
    assert (call["threads"] > 1) == (containers.runtime.name == "runc")  # runc's is a Go program
    assert parse_place(call["place"]) == Place("gold", "")
    containers.runtime.start("c2")
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as cgroup:
        assert cgroup.read().strip() == call["cgroup"]
    assert place_of(pid) == Place("gold", "")


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


def test_umask_and_environment_of_hook_are_as_expected(containers: Containers, recorder: Recorder) -> None:
    containers.run("c5", "true", hooks=recorder.hooks)
    with open(os.path.join(recorder.folder, "calls/umask"), encoding="ascii") as umask:
        assert umask.read().strip() == {"runc": "0022", "crun": "0000"}[containers.runtime.name]
    for call in recorder.calls():
        assert set(call["environment"].split()) <= {"PATH", "PWD", "SHLVL", "_", "OLDPWD"}


def test_podman_runs_hooks_of_folder(podman: Callable[..., Podman], image: str, recorder: Recorder) -> None:
    hooks = recorder.write_hooks_d(os.path.join(recorder.folder, "hooks.d"))
    engine = podman(hooks)
    printed = engine.run(image, OWN_PLACE, "--rm", "--annotation=example=yes")
    assert parse_place(printed) == Place("", "")
    created, stopped = recorder.calls()
    assert created["state"]["status"] == CREATED[engine.runtime]
    assert created["state"]["annotations"]["example"] == "yes"
    assert stopped["state"]["status"] == "stopped"
    assert stopped["state"]["id"] == created["state"]["id"]
    assert stopped["environment"].split() == created["environment"].split()
