"""The hook as a process of its own: its streams, its user namespace, interrupts, kills."""

import json
import signal
import subprocess
import time
from typing import Any

import pytest
from conftest import BOTH_POLICIES, GROUP, ID, POD_CGROUP, PYTHON, UID, Host, stopped

from resctrl_hooks.core.node.container.oci import STATE_LIMIT
from resctrl_hooks.core.node.hook import call as hook


@pytest.mark.ci
@BOTH_POLICIES
@pytest.mark.parametrize("config", ["good", "missing"])
def test_rootless_podman_is_unaffected(host: Host, pod: dict[str, Any], policy: str, code: int, config: str) -> None:
    host.configure(failurePolicy=policy)
    command = host.command() if config == "good" else [*host.command()[:-2], config, "hook"]
    done = subprocess.run(
        ["unshare", "-U", "-r", *command], input=json.dumps(pod).encode(), capture_output=True, env={}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not host.state.exists()
    assert host.groups() == []


@pytest.mark.ci
def test_closed_stdin_and_stderr_are_not_a_failure(host: Host, pod: dict[str, Any]) -> None:
    command = " ".join(f"'{part}'" for part in host.command())
    for redirection in ("<&-", "<&- 2>&-", "<&- 2>&- >&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command} {redirection}"], env={}, check=False, stderr=subprocess.DEVNULL
        )
        assert done.returncode == 0
    path = host.root / "state.json"
    path.write_text(json.dumps(pod))
    done = subprocess.run(["/bin/sh", "-c", f"{command} <'{path}' 2>&- >&-"], env={}, check=False)
    assert done.returncode == 0
    assert host.groups() == [GROUP]


def test_interrupt_prints_no_traceback(host: Host) -> None:
    with subprocess.Popen(host.command(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={}) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"{")
        process.stdin.flush()
        _until_it_reads(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read().count(b"\n") == 1


@pytest.mark.ci
def test_killed_hook_leaves_data_for_poststop(host: Host, pod: dict[str, Any]) -> None:
    """Killed at any of its system calls on resctrl, it has recorded its next effect before."""
    script = (
        "import sys, os, signal; sys.path.insert(0, sys.argv.pop(1))\n"
        "from resctrl_hooks.core.node import main\nfrom resctrl_hooks.core.node.resctrl import filesystem\n"
        "setattr(filesystem.Filesystem, sys.argv.pop(1), lambda *_: os.kill(os.getpid(), signal.SIGKILL))\n"
        "main.start()\n"
    )
    root = str(hook.__file__).removesuffix("/resctrl_hooks/core/node/hook/call.py")
    for call in ("mkdir", "write"):
        command = [*PYTHON[:1], "-I", "-c", script, root, call, "--config", str(host.config), "hook"]
        done = subprocess.run(command, input=json.dumps(pod).encode(), check=False)
        assert done.returncode == -signal.SIGKILL
        assert host.context().ledger.key_of(ID) == UID
        assert f"pods/{UID}/c-{ID}" in host.records()
    host.end_process(100)
    host.end_cgroup(POD_CGROUP)
    host.call(stopped())
    assert (host.groups(), host.records()) == ([], [])


def _until_it_reads(pid: int) -> None:
    """Wait until a process sleeps in a read of its standard input."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with open(f"/proc/{pid}/syscall") as file:
            if file.read().split()[:2] == ["0", "0x0"]:
                return
        time.sleep(0.005)
    raise AssertionError("it never read")


@pytest.mark.parametrize(
    "case", ["no settings", *(pytest.param(one, marks=pytest.mark.ci) for one in ("too large", "user namespace"))]
)
def test_state_is_always_read_to_its_end(host: Host, case: str) -> None:
    # crun dies of SIGPIPE where a hook ends without that, and the container with it.
    if case == "no settings":
        host.config.write_text("{")
    words = [*(("unshare", "--user", "--map-root-user") if case == "user namespace" else ()), *host.command()]
    size = STATE_LIMIT + 300_000 if case == "too large" else 300_000
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={}, cwd="/") as hook:
        assert hook.stdin
        assert hook.stderr
        hook.stdin.write(b'{"id": "' + b"x" * size)  # BrokenPipeError where crun would be killed
        hook.stdin.close()
        said = hook.stderr.read().decode()
    assert hook.returncode == 0
    assert {"too large": "larger than", "no settings": "settings", "user namespace": ""}[case] in said
    assert (said == "") == (case == "user namespace")
