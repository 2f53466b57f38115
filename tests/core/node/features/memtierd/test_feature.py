"""memtierd for containers: started before they run, stopped after them, refused where impossible."""

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ID, POD_CGROUP, crio_annotations, state, workload_of
from hosts.faults import Fail, failing
from hosts.memtierd import CLASS, OTHER, TEMPLATE, MemtierdHost, panics, program
from hosts.processes import is_alive, wait_until

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node import registry
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import start as starting
from resctrl_hooks.core.node.features.memtierd.processes import SupervisorError
from resctrl_hooks.core.node.features.memtierd.run_dir import RunFolder, RunFolderError
from resctrl_hooks.core.node.features.memtierd.start import MemtierdError
from resctrl_hooks.core.node.pointers import forget
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options


def test_memtierd_starts_before_container_and_outlives_hook(node: MemtierdHost) -> None:
    outcome = node.start()
    assert (outcome.code, outcome.stderr) == (0, "")
    assert is_alive(node.pid())
    assert Path(f"/proc/{node.pid()}/cmdline").read_bytes().split(b"\0")[0] == b"sleep"
    config = (node.folder() / "memtierd.config.yaml").read_text()
    assert f"- {node.host.cgroup}{POD_CGROUP}/crio-{ID}\n" in config
    assert f"stats: {node.folder()}/memtierd.stats\n" in config
    assert (node.folder() / "memtierd.output").read_text() == "started\n"
    for path in [node.run_dir, *node.run_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_poststop_stops_memtierd_and_leaves_nothing(node: MemtierdHost) -> None:
    node.start()
    pid, supervisor_pid = node.pid(), node.supervisor()
    assert node.stop().code == 0
    assert not is_alive(pid)
    assert not is_alive(supervisor_pid)
    assert node.left() == []
    assert not (node.host.cgroup / "resctrl-hooks").exists()


def test_late_poststop_leaves_new_memtierd_running(node: MemtierdHost) -> None:
    node.start()
    node.start(OTHER, 200)
    old, new = node.pid(), node.pid(OTHER)
    node.stop()
    assert not is_alive(old)
    assert is_alive(new)
    assert not node.folder().exists()
    assert node.folder(OTHER).exists()
    node.stop(OTHER, 200)
    assert not is_alive(new)
    assert node.left() == []


def test_restart_with_same_id_replaces_memtierd(node: MemtierdHost) -> None:
    node.start()
    old = node.pid()
    node.host.end_process(100)
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}", start=2000)
    assert node.start().code == 0
    assert not is_alive(old)
    assert is_alive(node.pid())


@pytest.mark.parametrize(
    "text, words",
    [
        ("#!/bin/sh\necho first\necho 'bad configuration: what is this'\nexit 1\n", "bad configuration: what is this"),
        (panics(), "memtierd exited immediately; panic: runtime error: index out of range [3] with length 2; fix"),
        ("#!/no/such/interpreter\n", "cannot start"),
        ("#!/bin/sh\nexit 0\n", "memtierd ended with 0"),
    ],
)
def test_memtierd_exiting_at_once_is_an_error_with_last_lines(node: MemtierdHost, text: str, words: str) -> None:
    program(node.host.root / "memtierd", text)
    node.configure(startSeconds=5.0)  # a busy machine may need a while even to fail; it ends with the first look
    outcome = node.start()
    assert outcome.code == 79
    assert words in outcome.stderr
    assert node.left() == []
    assert node.host.records() == []


def test_missing_program_is_an_error_with_searched_path(node: MemtierdHost) -> None:
    node.configure(binary="no-such-memtierd")
    outcome = node.start()
    assert outcome.code == 79
    assert "cannot find the program no-such-memtierd in /usr/local/sbin" in outcome.stderr
    node.configure(binary="no-such-memtierd", failurePolicy="ignore")
    outcome = node.start()
    assert outcome.code == 0
    assert "cannot find the program no-such-memtierd" in outcome.stderr


def test_program_writable_by_others_is_not_run(node: MemtierdHost) -> None:
    (node.host.root / "memtierd").chmod(0o777)
    outcome = node.start()
    assert outcome.code == 79
    assert "users other than root can write" in outcome.stderr


def test_class_without_configuration_starts_nothing(node: MemtierdHost) -> None:
    assert node.start(name="plain").code == 0
    assert not node.run_dir.exists()


def test_only_strays_are_stopped(node: MemtierdHost) -> None:
    node.start()
    node.start(OTHER, 200)
    ours = node.host.context()
    assert memtierd.orphaned(ours) == []
    # A hook that was killed after it had started memtierd, and a ledger that was lost since.
    stray, kept = node.pid(), node.pid(OTHER)
    ours.ledger.remove_member(crio_annotations()["io.kubernetes.pod.uid"], ID)
    assert [folder.parts[-1] for folder in memtierd.orphaned(ours)] == [ID]
    said = reconcile(ours, Options(dry_run=True))
    assert [*said.events["orphan"]] == [f"memtierd {node.folder()}"]
    assert str(node.folder()) in said.as_text()
    assert said.changed
    assert is_alive(stray)
    assert memtierd.FEATURE.repair(ours, set(ours.ledger.containers())) == 1
    assert not is_alive(stray)
    assert is_alive(kept)
    assert memtierd.FEATURE.repair(ours, set()) == 0


def test_unstoppable_stray_does_not_keep_others(node: MemtierdHost) -> None:
    node.start()
    node.start(OTHER, 200)
    ours = node.host.context()
    for container in (ID, OTHER):
        ours.ledger.remove_member(crio_annotations()["io.kubernetes.pod.uid"], container)
    first = memtierd.orphaned(ours)[0].parts[-1]
    stays = SupervisorError("it will not end")
    with failing(memtierd, "end", stays, when=lambda _folder, container, *_, **__: container == first):
        with pytest.raises(MemtierdError, match="1 orphaned memtierd instances cannot be stopped"):
            memtierd.FEATURE.repair(ours, set())
        assert [folder.parts[-1] for folder in memtierd.orphaned(ours)] == [first]
    assert memtierd.FEATURE.repair(ours, set()) == 1


def test_container_starting_during_cleanup_is_not_a_stray(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping one takes seconds; a restart under another's id meanwhile brings a memtierd that is not a stray."""
    node.start()
    node.start(OTHER, 200)
    ours = node.host.context()
    uid = crio_annotations()["io.kubernetes.pod.uid"]
    for container in (ID, OTHER):
        ours.ledger.remove_member(uid, container)
    _, second = (folder.parts[-1] for folder in memtierd.orphaned(ours))
    pid = node.pid(second)
    real = memtierd.end

    def end(*given: Any, **named: Any) -> bool:
        ours.ledger.point(second, uid)  # the first action of its hook
        return real(*given, **named)

    monkeypatch.setattr(memtierd, "end", end)
    assert memtierd.FEATURE.repair(ours, set()) == 1
    assert is_alive(pid)
    forget(ours.ledger, second)
    monkeypatch.undo()
    assert memtierd.FEATURE.repair(ours, set()) == 1


def test_many_containers_start_and_end(node: MemtierdHost) -> None:
    ids = [f"{number:064x}" for number in range(12)]
    for number, id_ in enumerate(ids):
        assert node.start(id_, 300 + number).code == 0
    pids = [node.pid(id_) for id_ in ids]
    assert all(is_alive(pid) for pid in pids)
    for number, id_ in enumerate(ids):
        node.stop(id_, 300 + number)
    assert not any(is_alive(pid) for pid in pids)
    assert node.left() == []


def test_plan_names_program_class_and_policy(node: MemtierdHost) -> None:
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    ours = node.host.context()
    (step,) = registry.plan(memtierd.FEATURE, workload_of(node.host, **{CLASS: "track"}), ours)
    assert step.parameters["supervisor"] == "process"
    assert "memtierd as a separate process: memory class track" in step.why
    (skipped,) = registry.plan(memtierd.FEATURE, workload_of(node.host, **{CLASS: "plain"}), ours)
    assert (skipped.action, "no memtierd" in skipped.why) == ("skip", True)
    assert registry.plan(memtierd.FEATURE, workload_of(node.host), ours) == []
    assert registry.plan(memtierd.FEATURE, workload_of(node.host, **{CLASS: "gone"}), ours) == []  # memory's to refuse
    assert not node.run_dir.exists()


@pytest.mark.parametrize(
    "name", ["io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"]
)
def test_names_that_cannot_be_folders_are_refused_before_any_effect(node: MemtierdHost, name: str) -> None:
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    with pytest.raises(RunFolderError):
        registry.plan(memtierd.FEATURE, workload_of(node.host, **{CLASS: "track", name: "../x"}), node.host.context())
    assert not node.run_dir.exists()


def test_unknown_memtierd_is_not_stopped(node: MemtierdHost) -> None:
    folder = RunFolder(str(node.run_dir), ("shop", "web-0", "c0"), ID)
    settings = node.host.context().settings
    assert memtierd.end(folder, ID, str(node.host.cgroup), settings, systemd=False) is False


@pytest.mark.parametrize("at", ["check_needs", "start"])
@pytest.mark.parametrize("ends", [True, False])
def test_failure_leaves_neither_folder_nor_open_file(node: MemtierdHost, fail: Fail, at: str, ends: bool) -> None:
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    workload, context = workload_of(node.host, **{CLASS: "track"}), node.host.context()
    (step,) = registry.plan(memtierd.FEATURE, workload, context)
    calls: list[Any] = []

    def stays(*given: Any) -> bool:
        calls.append(given)
        return len(calls) > 1 and not ends

    fail(starting, at, MemtierdError("it is not to be"))
    fail(memtierd, "_end", SupervisorError("it will not end"), when=stays)
    before = len(os.listdir("/proc/self/fd"))
    with context.monitor.hold(workload.key) as locked:
        opened = len(os.listdir("/proc/self/fd"))
        with pytest.raises(MemtierdError, match="it is not to be"):
            memtierd.FEATURE.apply(step, workload, locked, context)
        assert len(os.listdir("/proc/self/fd")) == opened >= before
    assert len(calls) == (2 if at == "start" else 0)
    assert node.folder().exists() == (at == "start" and not ends)
    said = node.host.log.read_text() if node.host.log.exists() else ""
    assert (f"memtierd of {workload}: it will not end" in said) == (at == "start" and not ends)


def told(node: MemtierdHost, *words: str, data: bytes = b"") -> Any:
    result = CliRunner().invoke(main, ["--config", str(node.host.config), *words], input=data)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_show_and_explain_describe_memtierd(node: MemtierdHost) -> None:
    node.configure(binary="/nowhere/memtierd")
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    node.host.process(300, POD_CGROUP)  # the cgroup's own, so that its files are there
    cgroup = node.host.cgroup / POD_CGROUP.lstrip("/") / f"crio-{ID}"
    for name, value in {"memory.current": "50331648", "memory.high": "67108864", "memory.swap.current": "0"}.items():
        (cgroup / name).write_text(f"{value}\n")
    annotations = crio_annotations() | {CLASS: "track", "io.kubernetes.pod.name": "web-0"}
    told_state = json.dumps(state(id=ID, pid=100, bundle=node.host.bundle(), annotations=annotations)).encode()
    assert "would fail: cannot find the program /nowhere/memtierd" in told(node, "explain", data=told_state)
    node.configure()
    said = told(node, "explain", data=told_state)
    assert f"where: {node.folder()}; would be started" in said
    node.start()
    assert f"runs as pid {node.pid()}" in told(node, "explain", data=told_state)
    (line,) = [line for line in told(node, "list", "-o", "wide").splitlines() if "shop/web-0" in line]
    assert [word in line for word in ("track", "48.0 MiB of 64.0 MiB", "0 B", "runs")] == [True] * 4
    (pod,) = json.loads(told(node, "list", "--json"))["items"]
    assert pod["containers"][0]["details"]["memtierd"]["state"] == f"runs as pid {node.pid()}"
    said = told(node, "show", "web-0")
    assert "memory.current 48.0 MiB" in said
    assert f"runs as pid {node.pid()}" in said
    os.kill(-node.supervisor(), signal.SIGKILL)
    wait_until(lambda: not is_alive(node.pid()))
    assert "does not run" in told(node, "list", "--all", "-o", "wide")


@pytest.mark.parametrize("policy, code", [({}, 79), ({"failurePolicy": "ignore"}, 0)])
def test_held_lock_refuses_by_policy_of_feature(node: MemtierdHost, policy: dict[str, str], code: int) -> None:
    classes = [{"name": "track", "memtierdconfig": TEMPLATE}]
    node.host.configure(classes=classes, memtierd=node.section | policy, deadlineSeconds=0.5)
    uid = crio_annotations()["io.kubernetes.pod.uid"]
    with node.host.context().ledger.lock(uid, 1):
        outcome = node.start()
    assert outcome.code == code, outcome.stderr
    assert "was held for 0.4 s" in outcome.stderr
    assert outcome.stderr.endswith({79: "container rejected\n", 0: "container started without resctrl-hooks\n"}[code])
    assert node.left() == []


@pytest.mark.parametrize("policy, code", [({}, 79), ({"failurePolicy": "ignore"}, 0)])
def test_expired_deadline_refuses_by_policy_of_feature(node: MemtierdHost, policy: dict[str, str], code: int) -> None:
    classes = [{"name": "track", "memtierdconfig": TEMPLATE}]
    node.host.configure(classes=classes, memtierd=node.section | policy | {"startSeconds": 60}, deadlineSeconds=0.5)
    outcome = node.start()
    assert (outcome.code, "longer than the deadline of the hook" in outcome.stderr) == (code, True)
    if code:
        assert node.left() == []
        assert [record for record in node.host.records() if ID in record] == []  # the pod's group is the pod's
    else:
        assert is_alive(node.pid())  # poststop ends it


def test_memtierd_of_systemd_is_always_attended() -> None:
    assert memtierd.attended(Step("memtierd", "start", {"supervisor": "systemd"}, ""), ID) is True
