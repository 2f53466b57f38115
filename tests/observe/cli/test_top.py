"""`top`: rates per pod, ungrouped tasks, and the total; and its keys on a real terminal."""

import fcntl
import gc
import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hosts.assigned import TOTAL, moved, reading
from hosts.assigned import host as assigned
from hosts.monitored import MonitoredHost, monitored_host, plain_host

from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND, LOCAL_SHARE, WATTS_PER_TASK

HOUSES = ("lab",)
__all__ = ("assigned",)


TOLERANCE = 0.25  # a busy machine samples a little late


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with mounted(tmp_path / "resctrl", rmids=16, energy=True) as path, monitored_host(tmp_path, path) as found:
        yield found


def by_name(lines: Any) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in lines["items"]}


def watts(host: MonitoredHost, **tasks: int) -> dict[str, dict[str, Any]]:
    """Return the lines of `top`, once the power of each agrees with its number of tasks.

    A busy machine reads late. It is late by some time, whatever the interval, so a longer one is nearer to the truth.
    """
    for interval in (1, 2, 4, 8, 16):
        found = by_name(host.json("top", "--interval", str(interval)))
        expected = {name: count * WATTS_PER_TASK for name, count in tasks.items()}
        if {name: found[name]["powerWatts"] for name in expected} == pytest.approx(expected, rel=TOLERANCE):
            break
    else:
        pytest.fail(f"expected {expected}, found {found}")
    return found


@pytest.mark.fuse
def test_rates_match_simulated_ones(host: MonitoredHost) -> None:
    host.pod(0, "three", processes=3)
    host.pod(1, "one")
    tasks = {"shop/three": 3, "shop/one": 1, "(ungrouped)": 1, "TOTAL": 5}
    found = watts(host, **tasks)
    for name, count in tasks.items():
        assert found[name]["memoryBandwidthBytesPerSecond"] == pytest.approx(count * BYTES_PER_SECOND, rel=TOLERANCE)
        local = found[name]["memoryBandwidthLocalBytesPerSecond"]
        assert local == pytest.approx(count * BYTES_PER_SECOND * LOCAL_SHARE, rel=TOLERANCE)
    text = host.run("top", "--once", "--interval", "0.5").output
    assert "POWER" in text
    assert "shop/three" in text


class Terminal:
    """A terminal with `top` in it."""

    def __init__(self, host: MonitoredHost, kind: str = "xterm", shell: str = "") -> None:
        self.pid, self.fd = pty.fork()
        self.top = host.command("top", "--interval", "0.3")
        if not self.pid:
            arguments = [shell, "--norc", "--noediting", "-i"] if shell else self.top
            environment = {**os.environ, "TERM": kind, "COLUMNS": "", "LINES": "", "PS1": "ready> "}
            os.execvpe(shell or sys.executable, arguments, environment)
        self.resize(80)
        self.seen = ""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def wait_for(self, text: str) -> None:
        """Read the screen until it has shown a text."""
        end = time.monotonic() + 300
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 0.2)[0]:
                self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")

    def press(self, key: str, *shown: str) -> None:
        """Press a key, and wait for texts; earlier output on the screen is ignored."""
        self.seen = ""
        os.write(self.fd, key.encode())
        for text in shown:
            self.wait_for(text)

    def exit_code(self) -> int:
        """Return its exit code, once the screen's last content was read."""
        with suppress(OSError):  # EIO: the other side is closed
            while data := os.read(self.fd, 65536):
                self.seen += data.decode("utf-8", "replace")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.mark.fuse
def test_resctrl_is_not_in_use_after_top(host: MonitoredHost) -> None:
    host.pod(0, "one")
    gc.disable()  # a program that calls the command must not have to wait for a collection
    try:
        host.json("top", "--interval", "0.1")
        opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    finally:
        gc.enable()
    assert not [path for path in opened if path.startswith(str(host.resctrl))]


@pytest.mark.ci
@pytest.mark.fuse
def test_watch_without_terminal_prints_repeatedly(host: MonitoredHost) -> None:
    host.pod(0, "web-0")
    words = host.command("top", "-o", "json", "-w", "--interval", "0.1")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        samples = [json.loads(next(run.stdout)) for _ in range(3)]
        run.send_signal(signal.SIGINT)
        assert run.wait() == 0
    assert [look["items"][0]["name"] for look in samples] == ["shop/web-0"] * 3


@pytest.mark.fuse
def test_keys_sort_and_q_restores_terminal(host: MonitoredHost) -> None:
    host.pod(0, "three", processes=3)
    terminal = Terminal(host)
    terminal.wait_for("shop/three")
    terminal.press("w", "POWER▾")
    terminal.press("r", "POWER▴")
    terminal.press("\x1b[<0;9;4M\r", "own-change:", "l limit")
    terminal.press("\x1b", "/ filter")
    terminal.press("\x1a", "/ filter")  # nobody could continue it: the kernel does not stop it
    terminal.resize(40)
    terminal.seen = ""
    terminal.wait_for("? help")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert "\x1b[?1049l" in terminal.seen  # back on the terminal's first screen
    assert "\x1b[?25h" in terminal.seen  # with its cursor
    assert "Traceback" not in terminal.seen


@pytest.mark.ci
@pytest.mark.fuse
@pytest.mark.parametrize("end", ["\x03", "\x1a", *(f"kill -{name} %1" for name in ("INT", "TERM", "HUP"))])
def test_terminal_is_as_before_for_the_shell(host: MonitoredHost, end: str) -> None:
    """A key ends or stops it; a signal ends it after it was stopped and continued."""
    host.pod(0, "three", processes=3)
    terminal = Terminal(host, shell="bash")
    terminal.wait_for("ready> ")
    before = termios.tcgetattr(terminal.fd)
    terminal.press(f"{shlex.join(terminal.top)}\n", "shop/three")
    assert termios.tcgetattr(terminal.fd) != before
    terminal.press(end[0] if len(end) == 1 else "\x1a", "ready> ")
    assert all(f"\x1b[?{mode}" in terminal.seen for mode in ("1049l", "25h", "1000l"))
    assert termios.tcgetattr(terminal.fd) == before
    if end != "\x03":
        assert "Stopped" in terminal.seen
        if end == "\x1a":
            terminal.press("fg\n", "shop/three")
        terminal.press("q" if end == "\x1a" else f"{end}; fg\n", "ready> ")
        assert termios.tcgetattr(terminal.fd) == before
        assert "Traceback" not in terminal.seen
    terminal.press("exit\n")
    assert terminal.exit_code() == 0 or end != "\x03"


@pytest.mark.ci
@pytest.mark.fuse
def test_terminal_without_cursor_control_gets_plain_rows(host: MonitoredHost) -> None:
    host.pod(0, "three", processes=3)
    terminal = Terminal(host, "dumb")
    for _ in range(2):
        terminal.wait_for("TOTAL")
        assert "shop/three" in terminal.seen
        assert "\x1b" not in terminal.seen
        terminal.seen = terminal.seen.partition("TOTAL")[2]
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.exit_code() == 0


def test_top_without_resctrl_reports_the_cause(tmp_path: Path) -> None:
    with monitored_host(tmp_path, str(tmp_path / "nothing")) as host:
        result = host.run("top", "--once")
    assert result.exit_code == 1
    assert "resctrl is not mounted at" in result.stderr


@pytest.mark.ci
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminal_without_a_character_shows_the_rest(tmp_path: Path, encoding: str) -> None:
    with plain_host(tmp_path) as host:
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        words = host.command("top", "--once", "--interval", "0.1")
        done = subprocess.run(words, capture_output=True, check=True, env=environment)
    assert b"TOTAL" in done.stdout
    assert b"MBM?" in done.stdout


@pytest.mark.fuse
def test_counter_that_a_pod_lost_keeps_its_total_in_metrics_and_has_no_rate(assigned: MonitoredHost) -> None:
    key = assigned.pod(0, "web-0")
    while not reading(assigned, key).value:
        pass
    moved(assigned, key, give=False)
    kept = reading(assigned, key)
    samples = [line for line in assigned.run("metrics").stdout.splitlines() if f'pod_uid="{key}"' in line]
    here = [line for line in samples if 'domain_name="mon_L3_00"' in line]
    (total,) = [line for line in here if line.startswith("l3_mbm_total_bytes_total{")]
    assert float(total.split()[-1]) == kept.value
    assert [line for line in here if line.startswith("resctrl_unavailable{") and f'counter="{TOTAL}"' in line]
    (item,) = [item for item in assigned.json("top", "--interval", "0.1")["items"] if item["key"] == key]
    assert item["memoryBandwidthBytesPerSecond"] is None
