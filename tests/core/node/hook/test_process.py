"""The hook as a process of its own: its streams, its user namespace, interrupts, kills."""

import json
import signal
import subprocess
import time
from typing import Any

import pytest
from conftest import GROUP, Host

from resctrl_hooks.core.node.container.oci import STATE_LIMIT


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
