import os
import signal
from pathlib import Path

import pytest

from resctrl_hooks.core.node.host import programs
from resctrl_hooks.core.node.host.programs import ProgramError, find_program
from resctrl_hooks.core.node.host.programs import run as run_program


def test_output_and_exit_code_are_returned() -> None:
    assert run_program(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 5) == (3, "out\nerr")


def test_hanging_program_is_killed() -> None:
    with pytest.raises(ProgramError, match="did not exit within"):
        run_program(["/bin/sleep", "1000"], 0.05)
    with pytest.raises(ProgramError, match="did not exit within"):
        run_program(["/bin/sh", "-c", "exec >/dev/null 2>&1; sleep 1000"], 0.05)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # none is left, not even as a zombie
    with pytest.raises(ProgramError, match="cannot run"):
        run_program(["/no/such/program"], 1)


def test_output_of_program_is_bounded() -> None:
    code, output = run_program(["/bin/sh", "-c", "yes | head -c 500000"], 20)
    assert code == 0
    assert len(output) <= 1 << 16


def test_programs_are_found_at_fixed_paths(tmp_path: Path) -> None:
    assert find_program("sh") in ("/usr/bin/sh", "/bin/sh")
    (tmp_path / "x").mkdir()
    with pytest.raises(ProgramError, match="cannot find the program x in"):
        find_program("x", (str(tmp_path),))


def test_environment_is_fixed() -> None:
    assert set(programs.ENVIRONMENT) == {"PATH", "LC_ALL"}


def test_program_inherits_no_ignored_signals(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as output:
        pid = programs.spawn(["/bin/cat", "/proc/self/status"], output.fileno(), leader=True)
        assert os.waitpid(pid, 0) == (pid, 0)
    said = dict(line.split(":\t", 1) for line in (tmp_path / "said").read_text().splitlines() if ":\t" in line)
    ignored = int(said["SigIgn"], 16)
    taken = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM]
    assert [number.name for number in taken if ignored >> (number - 1) & 1] == []
    assert int(said["SigBlk"], 16) == 0
