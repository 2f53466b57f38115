"""The simulation as a mount: the command, background and foreground, several users at once, and its end."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hosts.processes import wait_until

from resctrl_hooks.core import fuse
from resctrl_hooks.core.fuse import MountError, prepare
from resctrl_hooks.lab.cli.simulate import command as simulate
from resctrl_hooks.lab.simulation import Machine, mount, mounted
from resctrl_hooks.lab.simulation.mount import start, stop

pytestmark = pytest.mark.fuse

COMMAND = [sys.executable, "-c", "from resctrl_hooks.lab.cli.simulate import command; command()"]
XATTR = "user.resctrl.reading"


def test_background_returns_after_mount_and_closes_pipes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r"
    # Reading the output to its end would wait for ever if the server kept the pipes.
    words = [*COMMAND, str(path), "--background", "--rmids", "7", "--closids", "3", "--l3-domains", "1", "--energy"]
    done = subprocess.run(words, input="", capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("", "")
    assert (path / "info/L3_MON/num_rmids").read_text() == "7\n"
    assert (path / "info/L3/num_closids").read_text() == "3\n"
    assert sorted(os.listdir(path / "mon_data")) == ["mon_L3_00", "mon_PERF_PKG_00"]
    subprocess.run(["umount", path], check=True)
    assert os.listdir(path) == []


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_unmounts_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "r"
    with subprocess.Popen([*COMMAND, str(path)], stderr=subprocess.PIPE, text=True) as process:
        while not os.path.ismount(path):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert not os.path.ismount(path)


@pytest.mark.ci
def test_simulation_in_use_ends(tmp_path: Path) -> None:
    process = start(str(tmp_path / "r"), Machine())
    descriptor = os.open(tmp_path / "r/tasks", os.O_RDONLY)
    try:
        stop(process, str(tmp_path / "r"))
        assert (os.path.ismount(tmp_path / "r"), process.returncode) == (False, 0)
    finally:
        with suppress(OSError):  # no process is left to answer the close
            os.close(descriptor)


@pytest.mark.ci
def test_simulation_replaces_the_mount_of_a_killed_one(tmp_path: Path) -> None:
    process = start(str(tmp_path / "r"), Machine(rmids=5))
    process.kill()
    process.wait()
    try:
        with pytest.raises(OSError, match=f"Errno {errno.ENOTCONN}"):
            os.listdir(tmp_path / "r")
    finally:
        with mounted(tmp_path / "r", rmids=6) as path:
            assert Path(path, "info/L3_MON/num_rmids").read_text() == "6\n"
    wait_until(lambda: not os.path.ismount(tmp_path / "r"), "nothing is mounted any more")


@pytest.mark.parametrize("name", ["file", "folder/", ".hidden"])
def test_mountpoint_with_files_is_refused_and_keeps_them(tmp_path: Path, name: str) -> None:
    used, link = tmp_path / "used", tmp_path / "link"
    used.mkdir()
    (used / name).mkdir() if name.endswith("/") else (used / name).touch()
    link.symlink_to(used)
    for words in ([str(used)], ["--background", str(link)]):
        done = CliRunner().invoke(simulate, words)
        assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
        assert "is not empty" in done.output
    assert [one.name for one in used.iterdir()] == [name.rstrip("/")]
    (tmp_path / "file").touch()
    result = CliRunner().invoke(simulate, [str(tmp_path / "file")])
    assert result.exit_code == 1
    assert result.output == f"Error: cannot create the mount point {tmp_path}/file: File exists\n"
    with pytest.raises(MountError, match="Not a directory"):
        prepare(str(tmp_path / "file" / "below"))


def test_attribute_sets_counter_value(tmp_path: Path) -> None:
    with mounted(tmp_path / "r") as path:
        group = Path(path, "mon_groups/a")
        group.mkdir()
        counter = group / "mon_data/mon_L3_00/llc_occupancy"
        for word in ("Unavailable", "Unassigned", "Error", "4096"):
            os.setxattr(counter, XATTR, word.encode())
            assert counter.read_text() == f"{word}\n"
        group = group.rename(Path(path, "mon_groups/b"))
        counter = group / "mon_data/mon_L3_00/llc_occupancy"
        assert counter.read_text() == "4096\n"
        os.removexattr(counter, XATTR)
        assert counter.read_text() == "0\n"
        with pytest.raises(OSError, match=f"Errno {errno.EINVAL}"):
            os.setxattr(counter, XATTR, b"nonsense")
        for target, name in ((counter, "user.other"), (group / "tasks", XATTR)):
            with pytest.raises(OSError, match=f"Errno {errno.ENOTSUP}"):
                os.setxattr(target, name, b"1")


def test_working_mount_is_left_alone_and_child_processes_join_their_parents_group(tmp_path: Path) -> None:
    with mounted(tmp_path / "r", rmids=5) as path:
        result = CliRunner().invoke(simulate, [path, "--background"])
        assert (result.exit_code, "is already a mount point" in result.output) == (1, True)
        assert Path(path, "info/L3_MON/num_rmids").read_text() == "5\n"
        tasks = Path(path, "mon_groups/a/tasks")
        tasks.parent.mkdir()
        script = f"echo $$ >{tasks}; sleep 1000 & echo $!; read line; kill $!; wait"
        with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
            assert shell.stdout is not None
            child = int(shell.stdout.readline())
            assert {int(line) for line in tasks.read_text().split()} == {shell.pid, child}
            shell.communicate(b"\n")
        assert tasks.read_text() == ""


def test_other_users_cannot_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(0o755)  # pytest's own folders
    with mounted(tmp_path / "r") as path:
        words = ["sh", "-c", f"cat {path}/info/last_cmd_status; echo 0 >{path}/tasks || mkdir {path}/x"]
        other: dict[str, Any] = {"user": 65534, "extra_groups": [], "cwd": "/"}
        done = subprocess.run(words, **other, capture_output=True, text=True, check=False)
        assert done.returncode
        assert done.stdout == "ok\n"
        assert done.stderr.lower().count("permission denied") == 2


STORM, PODS = 200, 20
MEMBER = """
i=$1; root=$2; pod=$root/mon_groups/pod$((i % {pods}))
mkdir "$pod" 2>/dev/null
echo $$ >"$pod/tasks" && echo joined
read line
"""


@pytest.mark.ci
def test_two_hundred_parallel_requests_are_served(tmp_path: Path) -> None:
    with mounted(tmp_path / "r", rmids=64) as path:
        command = ["sh", "-c", MEMBER.format(pods=PODS), "member"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        members: list[Any] = [subprocess.Popen([*command, str(number), path], **pipes) for number in range(STORM)]
        groups = [Path(path, f"mon_groups/pod{pod}") for pod in range(PODS)]
        try:
            for member in members:
                assert member.stdout.readline() == b"joined\n"
            pods = [{member.pid for member in members[pod::PODS]} for pod in range(PODS)]
            assert [{int(line) for line in (group / "tasks").read_text().split()} for group in groups] == pods
        finally:
            for member in members:
                member.communicate(b"\n")
        assert [(group / "tasks").read_text() for group in groups] == [""] * PODS
        for group in groups:
            group.rmdir()
        assert os.listdir(f"{path}/mon_groups") == []


@pytest.mark.ci
def test_memory_use_is_small(tmp_path: Path) -> None:
    process = start(str(tmp_path / "r"), Machine(rmids=1000))
    try:
        for number in range(500):
            os.mkdir(tmp_path / f"r/mon_groups/{number}")
            (tmp_path / f"r/mon_groups/{number}/mon_data/mon_L3_00/llc_occupancy").read_text()
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert resident < 40_000  # KiB, of which Python itself and ctypes are the most
    finally:
        stop(process, str(tmp_path / "r"))


def test_missing_requirements_are_reported_with_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(words: str) -> None:
        with pytest.raises(MountError, match=words):
            start(str(tmp_path / "r"), Machine())

    with monkeypatch.context() as patch:
        patch.setattr(mount, "_PACKAGES", str(tmp_path))
        (tmp_path / "mfusepy.py").write_text("class Operations: pass\ndef FUSE(*a, **k): raise RuntimeError(4)\n")
        refused(r"^libfuse cannot mount at .*/r \(status 4\)")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mfusepy", None)
        done = CliRunner().invoke(simulate, [str(tmp_path / "resctrl")])
        assert (done.exit_code, "install the extra `simulation`" in done.output) == (1, True)
    monkeypatch.setattr(fuse, "DEVICE", str(tmp_path / "none"))
    refused("modprobe fuse")
    monkeypatch.setattr(fuse, "DEVICE", "/proc/version")
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused("run as root")
