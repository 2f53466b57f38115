"""The hook's shell guard: with damaged files or a broken interpreter, a call ends soon, with exit code 0 or 79."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.install.breakages import BROKEN, HANGING, Breakage, dead_loop, module_loop
from core.install.staged import SOON, call, command, given, impatient, put
from resctrl_hooks.core.install.guard import ALARM, GUARD, TIMEOUT
from resctrl_hooks.core.install.paths import CODE
from resctrl_hooks.core.node.context import LONGEST_STARVED, TIME_TO_TAKE_BACK
from resctrl_hooks.core.node.refusals import recent_refusals
from resctrl_hooks.core.node.settings import LONGEST_DEADLINE

SHELLS = [["/bin/sh"], ["/bin/bash"], *([["/bin/busybox", "sh"]] if os.path.exists("/bin/busybox") else [])]


def guarded(shell: list[str], *words: str, state: bytes = b"{}") -> subprocess.CompletedProcess[bytes]:
    return call([*shell, "-c", GUARD, "resctrl-hook", *words], state)


@pytest.fixture(
    params=[pytest.param(one, marks=pytest.mark.ci if place else ()) for place, one in enumerate(SHELLS)],
    ids=lambda shell: os.path.basename(shell[0]),
)
def shell(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    return found


@pytest.mark.parametrize(
    "script, code, stderr",
    [
        *((f"exit {status}", 79 if status == 79 else 0, b"") for status in (0, 1, 2, 78, 79, 80, 126, 127, 255)),
        *((f"kill -{name} $$", 0, None) for name in ("KILL", "SEGV", "TERM", "ALRM", "PIPE")),
        ("printf '%s\\n' 'one \\n %s'; echo two >&2; exit 79", 79, b"one \\n %s\ntwo\n"),  # backslashes stay
        ("echo Traceback; echo ValueError: x; exit 1", 0,
         b"resctrl-hook: broken (status 1), container started without resctrl-hooks: ValueError: x\n"),
        ("cat >&2", 0, b"{}\n"),
    ],
)  # fmt: skip
def test_only_status_79_and_the_output_are_passed_on(
    shell: list[str], script: str, code: int, stderr: bytes | None
) -> None:
    done = guarded(shell, "/bin/sh", "-c", script)
    assert (done.returncode, done.stdout) == (code, b"")
    assert stderr is None or done.stderr == stderr


@pytest.mark.parametrize("path", ["/nonexistent/python3", "/etc/passwd", "/etc"])
def test_interpreter_that_cannot_be_executed_is_one_line(shell: list[str], path: str) -> None:
    done = guarded(shell, path)
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)
    assert done.stderr.startswith(b"resctrl-hook: broken (status 12")


def test_closed_reader_of_stderr_and_closed_descriptors_are_not_a_failure(shell: list[str]) -> None:
    words = [*shell, "-c", GUARD, "resctrl-hook", "/bin/sh", "-c", "echo something; exit 1"]
    for closed in (0, 1, 2):
        assert call(["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", *words]).returncode == 0
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer):
        assert subprocess.run(words, stdin=subprocess.DEVNULL, stderr=writer, env={}, check=False).returncode == 0


def written_whole(words: list[str]) -> int:
    """Write a large state as crun does, which SIGPIPE kills if its hook ends early; return the hook's exit code."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/") as hook:
        assert hook.stdin
        hook.stdin.write(b"x" * 300_000)  # BrokenPipeError where crun would be killed
        hook.stdin.close()
    return hook.returncode


@pytest.mark.parametrize("hook", ["exit 1", "exit 79", "kill -9 $$"])
def test_state_larger_than_pipe_is_always_read(shell: list[str], hook: str) -> None:
    words = [*shell, "-c", GUARD, "resctrl-hook", "/bin/sh", "-c", hook]
    assert written_whole(words) == (79 if "79" in hook else 0)


@pytest.mark.ci
def test_process_limit_is_not_a_failure(shell: list[str]) -> None:
    # Run as a separate user, since root has no process limit.
    limited = ["/usr/bin/prlimit", "--nproc=1:1", "/usr/bin/setpriv", "--reuid=64321", "--clear-groups", "--"]
    words = [*shell, "-c", GUARD, "resctrl-hook", "/bin/sh", "-c", "exit 79"]
    assert call([*limited, *words]).returncode == 0


# The whole command, broken in one way at a time.


@pytest.fixture
def host(tmp_path: Path) -> Path:
    put(tmp_path)
    given(tmp_path, "/etc/resctrl-hooks/config.json", json.dumps({"format": 1, "stateDir": f"{tmp_path}/state"}))
    return tmp_path


@pytest.mark.parametrize("name", BROKEN)
def test_broken_code_succeeds_with_at_most_one_line(host: Path, name: str) -> None:
    words = command(host)
    BROKEN[name](host)
    done = call(words)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.count(b"\n") <= 1
    assert name != "code gone" or written_whole(words) == 0


def blocked(words: list[str]) -> list[str]:
    """Return a command with every signal blocked, as crun starts its hooks."""
    block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); "
    return [sys.executable, "-c", f"{block}os.execv(sys.argv[1], sys.argv[1:])", *words]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.ci if place else ()) for place, name in enumerate(HANGING)]
)
def test_hanging_code_ends_by_alarm_although_signals_were_blocked(host: Path, name: str) -> None:
    slowest = ALARM + LONGEST_DEADLINE + LONGEST_STARVED + TIME_TO_TAKE_BACK
    assert max(slowest, 119) < TIMEOUT  # the runtime's; of 20 pods some needed half a minute before our first line ran
    words = blocked(impatient(command(host)))
    HANGING[name](host)
    started = time.monotonic()
    assert call(words).returncode == 0  # a TimeoutExpired fails the test
    assert time.monotonic() - started >= SOON - 0.1  # by the alarm, not because something else went wrong


@pytest.mark.ci
@pytest.mark.parametrize("breakage", [dead_loop, module_loop])
def test_busy_loop_ends_by_processor_time(host: Path, breakage: Breakage) -> None:
    words = [word.replace(f"alarm({ALARM})", "alarm(1000)") for word in impatient(command(host))]
    breakage(host)
    assert call(words).returncode == 0  # a TimeoutExpired fails the test


def test_child_of_hook_has_no_blocked_signal(host: Path) -> None:
    lines = "[one for one in open('/proc/self/status') if one.startswith('SigBlk')]"
    given(host, f"{CODE}/launch.py", f"import sys\nsys.stderr.write({lines}[0])\n")
    assert int(call(blocked(command(host))).stderr.split()[1], 16) == 0


def test_damaged_settings_succeed(host: Path) -> None:
    for text in (b"", b"{", b"[]", b'{"format": 99}', b'{"format": 1, "stateDir": 5}', b"\xff\0" * 50):
        for name in ("config.json", "config.last.json"):
            (host / "etc/resctrl-hooks" / name).write_bytes(text)
        done = call(command(host))
        assert done.returncode == 0
        assert b"settings" in done.stderr


def test_refusal_is_passed_on_with_reason(host: Path) -> None:
    settings = {"format": 1, "failurePolicy": "fail", "stateDir": str(host / "state")}
    (host / "etc/resctrl-hooks/config.json").write_text(json.dumps(settings))
    done = call(command(host), state={"id": "c1", "status": "created", "pid": 1, "bundle": "/nonexistent"})
    assert done.returncode == 79
    assert b"rejected" in done.stderr
    assert [one["id"] for one in recent_refusals(str(host / "state"))] == ["c1"]
