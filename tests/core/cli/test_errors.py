"""Failing commands print one line, for every user and every error."""

import errno
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from conftest import ID, Host
from golden import Golden
from hosts.commands import here
from hosts.faults import Fail
from hosts.monitored import run

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.cli.errors import TRACEBACK, FailedError, in_one_line

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def readable() -> Iterator[Host]:
    """Return a host whose folder is accessible to all, with a state directory readable by root only."""
    with tempfile.TemporaryDirectory(prefix="rh") as folder:
        os.chmod(folder, 0o755)
        host = Host(Path(folder), runtimeRoots={"all": [f"{folder}/runtime"]})
        host.context().ledger.prepare()
        (host.root / "runtime").mkdir(mode=0o700)
        host.process(100)
        yield host


@pytest.mark.parametrize(
    "words",
    here(
        "list", "list --json", "show web", "top --once --interval 0.1", "metrics", "reconcile", "reconcile --dry-run",
        "topology --usage",
    ),
)  # fmt: skip
def test_missing_root_is_one_line(readable: Host, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = words.split()
    run(readable, *arguments)  # imports everything, including modules that only root can read
    (readable.state / "placement").touch(mode=0o600)
    capfd.readouterr()
    with as_nobody():
        done = run(readable, *arguments)
    assert done.exit_code == 1
    assert done.exception is None or isinstance(done.exception, SystemExit)
    (line,) = (done.stderr + capfd.readouterr().err).splitlines()  # the node half writes to the descriptor itself
    assert line.startswith("resctrl-hook: ")
    assert "root is required: cannot " in line
    assert "sudo" in line
    assert words.startswith("reconcile") or line.endswith(f"; try sudo resctrl-hook --config {readable.config} {words}")


@pytest.mark.parametrize(
    "typed, same",
    [
        ("help", "--help"), ("help list", "list --help"), ("help config show", "config show --help"),
        ("config help", "config --help"), ("config help show", "config show --help"), ("version", "--version"),
    ],
)  # fmt: skip
def test_help_and_version_are_commands_too(typed: str, same: str) -> None:
    found, expected = (CliRunner().invoke(main, words.split(), prog_name="resctrl-hook") for words in (typed, same))
    assert (found.exit_code, found.stdout) == (0, expected.stdout)
    assert found.stdout


def suggests(typed: str, meant: str) -> None:
    """Check that a call with an unknown option suggests this one."""
    done = CliRunner().invoke(main, typed.split())
    assert done.exit_code == 2
    assert (f"'{meant}'" in done.stderr.partition("Did you mean ")[2]) if meant else "mean" not in done.stderr


@pytest.mark.ci
@pytest.mark.parametrize("command", [("install", "--runtime", "podman"), ("uninstall",)], ids=lambda words: words[0])
def test_install_needs_root(readable: Host, command: tuple[str, ...]) -> None:
    image = readable.root / "image"
    image.mkdir()
    arguments = [*command, "--root", str(image)]
    assert CliRunner().invoke(main, ["install", "--runtime", "podman", "--root", str(image)]).exit_code == 0
    with as_nobody():
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"resctrl-hook: root is required: cannot use {image}/")
    assert done.stderr.endswith(f"; try sudo resctrl-hook {' '.join(arguments)}\n")


def test_unreadable_ledger_is_not_shown_as_empty(readable: Host) -> None:
    ledger = readable.context().ledger
    with as_nobody():
        for ask in (ledger.keys, ledger.containers, lambda: ledger.marked("waiting"), lambda: ledger.key_of(ID)):
            with pytest.raises(Exception, match=f"cannot use {readable.state}/") as refused:
                ask()
            assert getattr(refused.value, "errno", 0) == errno.EACCES


def test_internal_error_is_one_line_with_its_place(monkeypatch: pytest.MonkeyPatch, fail: Fail, host: Host) -> None:
    fail("resctrl_hooks.core.cli.list", "gather", KeyError("nothing"))
    monkeypatch.delenv(TRACEBACK, raising=False)
    done = run(host, "list")
    assert done.exit_code == 1
    assert done.stderr.startswith("resctrl-hook: internal error in resctrl-hook: KeyError: 'nothing' in faults.py:")
    assert done.stderr.endswith(f"please report it with the output of {TRACEBACK}=1\n")
    assert done.stderr.count("\n") == 1
    monkeypatch.setenv(TRACEBACK, "1")
    assert "Traceback" in run(host, "list").stderr


def test_system_error_is_not_reported_as_bug(fail: Fail, host: Host) -> None:
    fail("resctrl_hooks.core.cli.list", "gather", OSError(errno.ENOSPC, "No space left on device", "/run/x"))
    assert run(host, "list").stderr == "resctrl-hook: /run/x: No space left on device\n"


def test_closed_output_pipe_is_not_a_failure() -> None:
    with pytest.raises(BrokenPipeError), in_one_line():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize(
    "words",
    here(
        "list", "list --json", "top --once --interval 0.1s", "topology", "metrics", "doctor --json", "config show",
        "install --dry-run", "list --help", "--version",
    ),
)  # fmt: skip
@pytest.mark.ci
def test_output_of_each_command_that_cannot_be_written_is_named(host: Host, words: str) -> None:
    test_output_that_cannot_be_written_is_named(host, words)


@pytest.mark.parametrize("words", ["config schema", "reconcile --dry-run"])
def test_output_that_cannot_be_written_is_named(host: Host, words: str) -> None:
    _, done = _with_output(host, words, "/dev/full")
    assert done.returncode == 1
    what = "reconcile: cannot write the report" if words.startswith("reconcile") else "cannot write the output"
    assert done.stderr.splitlines()[-1] == f"resctrl-hook: {what}: No space left on device"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.ci
@pytest.mark.parametrize("words", ["config schema", "--help"])
def test_output_into_a_pipe_without_a_reader_is_silent(host: Host, words: str) -> None:
    command = shlex.join([sys.executable, "-m", "resctrl_hooks", "--config", str(host.config), *words.split()])
    done = subprocess.run(["bash", "-c", f"{command} | true"], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def _with_output(host: Host, words: str, file: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    command = shlex.join([sys.executable, "-m", "resctrl_hooks", "--config", str(host.config), *words.split()])
    shell = f"{command} > {file}" if file else command
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    return Path(file).read_text() if file and file != "/dev/full" else "", done


@pytest.mark.ci
@pytest.mark.parametrize("words", here("list -o csv", "top --once --interval 0.1s", "config show", "doctor", "explain"))
@pytest.mark.parametrize("closed", [(1,), (0,), (2,), (0, 1, 2)])
def test_closed_standard_stream_is_no_internal_error(host: Host, words: str, closed: tuple[int, ...]) -> None:
    command = [sys.executable, "-m", "resctrl_hooks", "--config", str(host.config), *words.split()]
    shell = f"{shlex.join(command)} {' '.join(f'{number}>&-' for number in closed)}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr


def refused(words: str, said: str) -> None:
    """Check that a call with a wrong value is refused with a text behind the option's name."""
    done = CliRunner().invoke(main, words.split())
    assert (done.exit_code, done.stderr.splitlines()[-1].partition(": Invalid value for ")[2].partition(": ")[2]) == (
        2,
        said,
    )


@pytest.mark.parametrize("words", [(), ("rdt",), ("config",)], ids=["resctrl-hook", "rdt", "config"])
def test_bare_command_prints_help_and_succeeds(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, list(words))
    assert (done.exit_code, done.stderr) == (0, "")
    assert ("Commands:" if words else "Look:") in done.stdout
    assert done.stdout == CliRunner().invoke(main, [*words, "--help"]).stdout


def test_wrong_use_is_explained(golden: Golden) -> None:
    for words in (
        *("list --nonsense", "list --once", "list --all-pods", "show --why", "list --jsn", "list --namespac x"),
        *("list --config F", "config check --config F", "reconcile --watch 25h", "reconcile --watch 0"),
        *("reconcile --watch 900ms", "reconsile", "describe pod", "xyzzy", "show", "explain web --stage poststop"),
        *("list -l app<3", "uninstall --root /image --release-groups"),
    ):
        done = CliRunner().invoke(main, words.split(), prog_name="resctrl-hook")
        assert (done.exit_code, done.stdout) == (2, "")
        golden(done.stderr, words)


def test_click_errors_have_the_common_prefix() -> None:
    with pytest.raises(FailedError) as failed, in_one_line():
        raise click.ClickException("this didn't work")
    assert (str(failed.value), failed.value.exit_code) == ("this didn't work", 1)


def test_doctor_without_root_reports_no_bug(readable: Host) -> None:
    (readable.state / "totals").mkdir(mode=0o700, exist_ok=True)
    run(readable, "doctor")
    with as_nobody():
        text = run(readable, "doctor").stdout
    assert "-> run doctor as root" in text
    assert "please report it" not in text
