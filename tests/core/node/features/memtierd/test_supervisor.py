"""memtierd as our own process: its descriptors, its end, and its supervisor's records."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ID, POD_CGROUP, crio_annotations, state
from hosts.memtierd import CLASS, MemtierdHost, program
from hosts.processes import is_alive, wait_until

from resctrl_hooks.core.inventory.details import details_of
from resctrl_hooks.core.inventory.feature_display.memtierd import UNATTENDED
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd.processes import cgroup_folder
from resctrl_hooks.core.node.features.memtierd.run_dir import RunFolder
from resctrl_hooks.core.node.settings import Settings


def test_supervisor_inherits_nothing_from_hook(node: MemtierdHost) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003  # its name says it
    node.host.process(100, f"{POD_CGROUP}/crio-{ID}")
    annotations = crio_annotations() | {CLASS: "track"}
    given = state(bundle=node.host.bundle(), annotations=annotations)
    killed_first = ["/bin/sh", "-c", 'echo 500 >/proc/self/oom_score_adj && exec "$@"', "sh"]
    command = [*killed_first, *node.host.command()]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, pass_fds=[writer], check=False
    )
    assert done.returncode == 0, done.stderr
    os.close(writer)
    assert os.read(reader, 1) == b""  # no other process has it open, although memtierd runs
    os.close(reader)
    for pid in (node.pid(), node.supervisor()):
        opened = {os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")}
        assert opened <= {"/dev/null", "socket", str(node.folder())}
        assert {"0", "1", "2"} <= set(os.listdir(f"/proc/{pid}/fd"))
        assert os.getsid(pid) not in (os.getsid(0), 0)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "0\n"
    with node.host.context().monitor.hold(crio_annotations()["io.kubernetes.pod.uid"]):
        pass  # the key's lock is not held either


def test_memtierd_that_ignores_sigterm_is_killed_with_children(node: MemtierdHost) -> None:
    program(node.host.root / "memtierd", "#!/bin/sh\ntrap '' TERM\nsleep 1001 &\necho $!\nwhile :; do sleep 1; done\n")
    node.start()
    wait_until((node.folder() / "memtierd.output").exists)
    child, pid = int((node.folder() / "memtierd.output").read_text()), node.pid()
    node.stop()
    wait_until(lambda: not is_alive(pid) and not is_alive(child))
    assert node.left() == []


def test_memtierd_ends_with_container_without_a_hook(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start()
    pid, supervisor_pid = node.pid(), node.supervisor()
    node.host.end_process(100)
    wait_until(lambda: not is_alive(pid) and not is_alive(supervisor_pid))


def test_output_file_is_bounded(node: MemtierdHost) -> None:
    program(node.host.root / "memtierd", "#!/bin/sh\nexec yes memtierd talks and talks and talks\n")
    node.start()
    wait_until((node.folder() / "memtierd.output.old").exists)
    time.sleep(0.2)
    assert sum(path.stat().st_size for path in node.folder().iterdir()) < 4 << 20


def test_reused_pid_is_left_alone(node: MemtierdHost) -> None:
    node.start()
    record = json.loads((node.folder() / "memtierd.keeper").read_text())
    os.kill(-node.supervisor(), signal.SIGKILL)
    wait_until(lambda: not is_alive(node.supervisor()))
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        record["processes"] = [[bystander.pid, 1], [bystander.pid, 1]]
        (node.folder() / "memtierd.keeper").write_text(json.dumps(record))
        node.stop()
        assert bystander.poll() is None
        assert node.left() == []
    finally:
        bystander.kill()
        bystander.wait()


def test_dead_supervisor_does_not_hide_memtierd(node: MemtierdHost) -> None:
    # Without a supervisor its output has no reader; this one writes nothing.
    node.start()
    pid = node.pid()
    os.kill(node.supervisor(), signal.SIGKILL)
    wait_until(lambda: not is_alive(node.supervisor()))
    assert is_alive(pid)
    assert details_of(node.record())["memtierd"]["state"] == f"runs as pid {pid}; {UNATTENDED}"
    node.stop()
    assert not is_alive(pid)
    assert node.left() == []


def test_running_state_is_reported(node: MemtierdHost) -> None:
    node.start()
    step = node.step()
    assert memtierd.running(step, ID) == [node.pid()]
    os.kill(node.pid(), signal.SIGKILL)
    wait_until(lambda: memtierd.running(step, ID) == [])
    memtierd.end(
        RunFolder(str(node.run_dir), ("shop", "web-0", "c0"), ID),
        ID,
        str(node.host.cgroup),
        Settings({}),
        systemd=False,
    )
    assert memtierd.running(step, ID) == []


def test_supervisor_cgroup_is_named_by_container() -> None:
    assert cgroup_folder("/sys/fs/cgroup", ID) == f"/sys/fs/cgroup/resctrl-hooks/memtierd-{ID}"
