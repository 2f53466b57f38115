"""memtierd for containers: started before they run, stopped after them, refused where impossible."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, always, crio_annotations, state, workload_of
from hosts.descriptors import nothing_left_open
from hosts.faults import Fail, failing
from hosts.memtierd import CLASS, OTHER, PANIC, MemtierdHost, panics, program
from hosts.processes import is_alive, wait_until

from resctrl_hooks.core.inventory.details import details_of
from resctrl_hooks.core.inventory.feature_display.memtierd import UNATTENDED
from resctrl_hooks.core.node import feature, pointers, registry
from resctrl_hooks.core.node.container.running import Running
from resctrl_hooks.core.node.container.runtimes import Found
from resctrl_hooks.core.node.features.memtierd import ended, processes, run_dir, service
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import start as starting
from resctrl_hooks.core.node.host.systemd import UnitError
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

OUTPUT = panics().partition("<<END\n")[2].partition("END\n")[0]


def test_memtierd_starts_before_container_outlives_hook_and_inherits_nothing(node: MemtierdHost) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003  # its name says it
    node.process(100, f"{POD_CGROUP}/crio-{ID}")
    given = state(bundle=node.bundle(), annotations=crio_annotations() | {CLASS: "track"})
    killed_first = ["/bin/sh", "-c", 'echo 500 >/proc/self/oom_score_adj && exec "$@"', "sh"]
    command = [*killed_first, *node.command()]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, pass_fds=[writer], check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    os.close(writer)
    assert os.read(reader, 1) == b""  # no other process has it open, although memtierd runs
    os.close(reader)
    pid, supervisor = node.pid(), node.supervisor()
    for one in (pid, supervisor):
        assert is_alive(one)
        opened = {os.readlink(f"/proc/{one}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{one}/fd")}
        assert opened <= {"/dev/null", "socket", str(node.folder())}
        assert {"0", "1", "2"} <= set(os.listdir(f"/proc/{one}/fd"))
        assert os.getsid(one) not in (os.getsid(0), 0)
        assert os.readlink(f"/proc/{one}/cwd") == "/"
        assert Path(f"/proc/{one}/oom_score_adj").read_text() == "0\n"
    assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == b"sleep"
    with node.context().monitor.hold(UID):
        pass  # the key's lock is not held either
    config = (node.folder() / "memtierd.config.yaml").read_text()
    assert f"- {node.cgroup}{POD_CGROUP}/crio-{ID}\n" in config
    assert f"stats: {node.folder()}/memtierd.stats\n" in config
    assert (node.folder() / "memtierd.output").read_text() == "started\n"
    for path in [node.run_dir, *node.run_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    step = node.step()
    assert memtierd.running(step, ID) == [pid]
    assert node.stop().code == 0
    assert not is_alive(pid)
    assert not is_alive(supervisor)
    assert (memtierd.running(step, ID), node.left()) == ([], [])
    assert not (node.cgroup / "resctrl-hooks").exists()


@pytest.mark.ci
@pytest.mark.parametrize(
    "lost", ["nothing", "memtierd", "supervisor", "both", "the hook's call", "all but the process"]
)
def test_whatever_ends_first_nothing_is_left_of_it_and_others_keep_theirs(node: MemtierdHost, lost: str) -> None:
    node.start()
    node.start(OTHER, 200)
    pid, supervisor, kept = node.pid(), node.supervisor(), node.pid(OTHER)
    if lost == "memtierd":
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not node.runs())
    elif lost == "supervisor":
        # Without a supervisor its output has no reader; this one writes nothing.
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not is_alive(supervisor))
        assert is_alive(pid)
        assert details_of(node.record())["memtierd"]["state"] == f"runs as pid {pid}; {UNATTENDED}"
    elif lost == "both":
        os.kill(-supervisor, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid))
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True) if lost == "both" else None
    if bystander:  # it has the process id of the supervisor by now
        record = json.loads((node.folder() / "memtierd.keeper").read_text())
        record["processes"] = [[bystander.pid, 1], [bystander.pid, 1]]
        (node.folder() / "memtierd.keeper").write_text(json.dumps(record))
    if lost == "the hook's call":
        node.end_process(100)
        wait_until(lambda: not is_alive(pid) and not is_alive(supervisor))
        assert node.call(state(id=ID, status="stopped", pid=0)).code == 0
    elif lost == "all but the process":  # a restart with the same id
        node.end_process(100)
        node.process(100, f"{POD_CGROUP}/crio-{ID}", start=2000)
        assert node.start().code == 0
        assert not is_alive(pid)
        assert is_alive(node.pid())
        node.stop()
    else:
        node.stop()
    assert (is_alive(pid), is_alive(supervisor), is_alive(kept)) == (False, False, True)
    assert not node.folder().exists()
    if bystander:
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait()
    node.stop(OTHER, 200)
    assert not is_alive(kept)
    assert node.left() == []


@pytest.mark.parametrize("text, words", [
    (panics(), "memtierd exited immediately; panic: runtime error: index out of range [3] with length 2; fix"),
    ("#!/no/such/interpreter\n", "cannot start"), ("#!/bin/sh\nexit 0\n", "memtierd ended with 0"),
])  # fmt: skip
def test_memtierd_exiting_at_once_is_an_error_with_last_lines(node: MemtierdHost, text: str, words: str) -> None:
    program(node.root / "memtierd", text)
    node.configure(startSeconds=5.0)  # a busy machine may need a while even to fail; it ends with the first look
    outcome = node.start()
    assert outcome.code == 79
    assert words in outcome.stderr
    assert (node.left(), node.records()) == ([], [])


def test_last_output_lines_are_returned() -> None:
    for output, said in (
        (OUTPUT, PANIC), (f"{OUTPUT}started\npanic: another one\n\ngoroutine 1 [running]:\n", "panic: another one"),
        ("fatal error: all goroutines are asleep - deadlock!\n\nmain.main()\n", "fatal error: all goroutines"),
        ("".join(f"line {n}\n" for n in range(9)), "its last lines: line 4 / line 5 / line 6 / line 7 / line 8"),
        ("", "its last lines: (none)"),
    ):  # fmt: skip
        assert ended.last_words(output).startswith(said)


def test_missing_or_untrusted_program_is_an_error_by_policy(node: MemtierdHost) -> None:
    for policy, code in (("fail", 79), ("ignore", 0)):
        node.configure(binary="no-such-memtierd", failurePolicy=policy)
        outcome = node.start(alone=False)
        assert outcome.code == code
        assert "cannot find the program no-such-memtierd in /usr/local/sbin" in outcome.stderr
    (node.root / "memtierd").chmod(0o777)
    node.configure()
    outcome = node.start(alone=False)
    assert outcome.code == 79
    assert "users other than root can write" in outcome.stderr


def test_only_strays_are_stopped(node: MemtierdHost) -> None:
    """Of two containers whose records are lost, as after a killed hook."""
    ours = node.context()
    for container, pid in ((ID, 100), (OTHER, 200)):
        node.start(container, pid, alone=False)
    assert memtierd.orphaned(ours) == []
    for container in (ID, OTHER):
        ours.ledger.remove_member(UID, container)
    ours.ledger.point(OTHER, UID)
    stray, kept = node.pid(), node.pid(OTHER)
    assert [folder.parts[-1] for folder in memtierd.orphaned(ours)] == [ID]
    said = reconcile(ours, Options(dry_run=True))
    assert [*said.events["orphan"]] == [f"memtierd {node.folder()}"]
    assert str(node.folder()) in said.as_text()
    assert said.changed
    assert is_alive(stray)
    assert memtierd.FEATURE.repair(ours, set(ours.ledger.containers())) == 1
    assert (is_alive(stray), is_alive(kept)) == (False, True)
    pointers.forget(ours.ledger, OTHER)
    assert [memtierd.FEATURE.repair(ours, set()) for _ in range(2)] == [1, 0]


def test_plan_names_program_class_and_policy_before_any_effect(node: MemtierdHost) -> None:
    node.process(100, f"{POD_CGROUP}/crio-{ID}")
    ours = node.context()
    (step,) = registry.plan(memtierd.FEATURE, workload_of(node.host, **{CLASS: "track"}), ours)
    assert step.parameters["supervisor"] == "process"
    assert "memtierd as a separate process: memory class track" in step.why
    (skipped,) = registry.plan(memtierd.FEATURE, workload_of(node.host, **{CLASS: "plain"}), ours)
    assert (skipped.action, "no memtierd" in skipped.why) == ("skip", True)
    for name in ({}, {CLASS: "gone"}):  # memory's to refuse
        assert registry.plan(memtierd.FEATURE, workload_of(node.host, **name), ours) == []
    folder = run_dir.RunFolder(str(node.run_dir), ("shop", "web-0", "c0"), ID)
    assert memtierd.end(folder, ID, str(node.cgroup), ours.settings, systemd=False) is False, "unknown"
    container = Running("", Found(ID, 100, 1000, ""), {}, recorded=True)
    for supervisor in (memtierd.SYSTEMD, memtierd.PROCESS):
        needs = {"runDir": str(node.run_dir), "names": ["shop", "web-0", "c0"], "supervisor": supervisor}
        assert memtierd.FEATURE.lost(feature.Step(memtierd.NAME, "start", needs, ""), container, ours) == ""
    assert node.start(name="plain", alone=False).code == 0
    assert not node.run_dir.exists()


@pytest.mark.parametrize("at", ["check_needs", "start"])
@pytest.mark.parametrize("ends", [True, False])
def test_failure_leaves_neither_folder_nor_open_file(node: MemtierdHost, fail: Fail, at: str, *, ends: bool) -> None:
    node.process(100, f"{POD_CGROUP}/crio-{ID}")
    workload, context = workload_of(node.host, **{CLASS: "track"}), node.context()
    (step,) = registry.plan(memtierd.FEATURE, workload, context)
    calls: list[Any] = []

    def stays(*given: Any) -> bool:
        calls.append(given)
        return len(calls) > 1 and not ends

    fail(starting, at, starting.MemtierdError("it is not to be"))
    fail(memtierd, "_end", processes.SupervisorError("it will not end"), when=stays)
    with (
        nothing_left_open(),
        context.monitor.hold(workload.key) as locked,
        pytest.raises(starting.MemtierdError, match="not to be"),
    ):
        memtierd.FEATURE.apply(step, workload, locked, context)
    assert len(calls) == (2 if at == "start" else 0)
    assert node.folder().exists() == (at == "start" and not ends)
    said = node.log.read_text() if node.log.exists() else ""
    assert (f"memtierd of {workload}: it will not end" in said) == (at == "start" and not ends)


def test_service_of_systemd_is_recorded_attended_and_stopped(node: MemtierdHost, monkeypatch: Any) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(service, "start_service", always(None))
    monkeypatch.setattr(service, "stop_service", lambda container, seconds: stopped.append(container))
    monkeypatch.setattr(service, "service_processes", always([4711]))
    monkeypatch.setattr(service, "last_lines", always(OUTPUT))
    node.configure(supervisor="systemd")
    assert node.start(alone=False).code == 0
    step = node.step()
    assert memtierd.attended(step, ID)
    assert memtierd.running(step, ID) == [4711] == [node.pid()]
    container = Running("", Found(ID, 100, 1000, ""), {}, recorded=True)
    assert memtierd.FEATURE.lost(step, container, node.context()) == PANIC
    node.end_process(100)
    node.call(state(status="stopped", pid=0))
    assert (stopped, node.left()) == ([ID], [])


@pytest.mark.parametrize("stuck", [False, True])
def test_service_that_ends_at_once_is_an_error_with_its_cause(node: Any, monkeypatch: Any, *, stuck: bool) -> None:
    for name, value in {
        "start_service": None, "last_lines": "panic: no tracker", "find_program": "/bin/true", "run": (0, "")
    }.items():  # fmt: skip
        monkeypatch.setattr(service, name, always(value))
    node.configure(supervisor="systemd")
    with failing(service, "stop_service", UnitError("systemctl is stuck"), when=lambda *_: stuck):
        outcome = node.start(alone=False)
    assert outcome.code == 79
    assert ("systemctl is stuck" in outcome.stderr) == stuck
    assert outcome.stderr.splitlines()[-1].count("panic: no tracker") == 1
    assert stuck or node.left() == []
