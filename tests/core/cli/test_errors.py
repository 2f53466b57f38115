"""Failing commands print one line, for every user and every error; commands in messages have the call's `--config`."""

import errno
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from conftest import Host, raising, temporary_host
from golden import Golden
from hosts.commands import here
from hosts.faults import failing
from hosts.monitored import run

from resctrl_hooks.core.cli import main, tasks
from resctrl_hooks.core.cli.errors import TRACEBACK, in_one_line, remarks
from resctrl_hooks.core.cli.same_config import with_config


@contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def readable() -> Iterator[Host]:
    """Return a host whose folder is accessible to all, with a state directory readable by root only."""
    with temporary_host() as host:
        host.root.chmod(0o755)
        host.configure(runtimeRoots={"all": [f"{host.root}/runtime"]})
        host.context().ledger.prepare()
        (host.root / "runtime").mkdir(mode=0o700)
        host.process(100)
        yield host


@pytest.mark.parametrize(
    "words", here("list", "list --json", "show web", "top --once --interval 0.1", "reconcile", "topology --usage")
)
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


@pytest.mark.ci
def test_installation_and_doctor_without_root_say_so(readable: Host) -> None:
    image = readable.root / "image"
    image.mkdir()
    (readable.state / "totals").mkdir(mode=0o700, exist_ok=True)
    run(readable, "doctor")
    installs = ["install", "--runtime", "podman", "--root", str(image)]
    assert CliRunner().invoke(main, installs).exit_code == 0
    for arguments in (installs, ["uninstall", "--root", str(image)]):
        with as_nobody():
            done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 1
        assert done.stderr.startswith(f"resctrl-hook: root is required: cannot use {image}/")
        assert done.stderr.endswith(f"; try sudo resctrl-hook {' '.join(arguments)}\n")
    with as_nobody():
        text = run(readable, "doctor").stdout
    assert ("-> run doctor as root" in text, "please report it" in text) == (True, False)


def test_help_and_version_are_commands_too_and_a_bare_command_prints_help() -> None:
    def said(words: str) -> str:
        done = CliRunner().invoke(main, words.split(), prog_name="resctrl-hook")
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout

    for typed, same in {
        "help": "--help", "help list": "list --help", "help config show": "config show --help", "": "--help",
        "config help": "config --help", "config help show": "config show --help", "version": "--version",
        "rdt": "rdt --help", "config": "config --help",
    }.items():  # fmt: skip
        assert said(typed) == said(same) != ""


def test_error_is_one_line_and_a_bug_report_is_wanted_for_internal_ones_only(
    monkeypatch: pytest.MonkeyPatch, host: Host, golden: Golden
) -> None:
    monkeypatch.delenv(TRACEBACK, raising=False)
    full = OSError(errno.ENOSPC, "No space left on device", "/run/x")
    for error in (KeyError("nothing"), full, click.ClickException("this didn't work"), BrokenPipeError()):
        with failing("resctrl_hooks.core.cli.list", "gather", error):
            done = run(host, "list")
            golden(re.sub(r"py:\d+", "py:<line>", f"{done.output}exit {done.exit_code}"), type(error).__name__)
    with pytest.raises(BrokenPipeError), in_one_line():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    monkeypatch.setenv(TRACEBACK, "1")
    with failing("resctrl_hooks.core.cli.list", "gather", full):
        assert "Traceback" in run(host, "list").stderr


def called(host: Host, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """Return a whole process, called by a shell."""
    command = shlex.join([sys.executable, "-m", "resctrl_hooks", "--config", str(host.config), *words.split()])
    shell = ["bash", "-c", f"{command} {redirection}"]
    return subprocess.run(shell, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize(
    "words",
    [
        *("config schema", "reconcile --dry-run"),
        *(pytest.param(words, marks=pytest.mark.ci) for words in here(
            "list", "list --json", "top --once --interval 0.1s", "topology", "metrics", "doctor --json", "config show",
            "install --dry-run", "list --help", "--version",
        )),
    ],
)  # fmt: skip
def test_output_that_cannot_be_written_is_named(host: Host, words: str) -> None:
    done = called(host, words, "> /dev/full")
    assert done.returncode == 1
    what = "reconcile: cannot write the report" if words.startswith("reconcile") else "cannot write the output"
    assert done.stderr.splitlines()[-1] == f"resctrl-hook: {what}: No space left on device"
    assert not [one for one in ("Traceback", "Exception ignored") if one in done.stderr]


@pytest.mark.ci
@pytest.mark.parametrize("words", here("list -o csv", "top --once --interval 0.1s", "config show", "doctor", "explain"))
@pytest.mark.parametrize("to", ["1>&-", "0>&-", "2>&-", "0>&- 1>&- 2>&-", "| true"])
def test_closed_standard_stream_is_no_internal_error(host: Host, words: str, to: str) -> None:
    done = called(host, words, to)
    assert not [one for one in ("internal error", "Traceback") if one in done.stderr]
    assert to != "| true" or "Broken pipe" not in done.stderr


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


def test_fault_by_a_wrong_type_in_the_compiled_file_has_file_and_key(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resctrl_hooks.core.cli.list.gather", raising(AttributeError("'int' object has no 'get'")))
    for values, key in (({"priority": [5]}, r"priority\[0\]"), ({"capacity": 7}, "capacity")):
        host.configure(monitoring=values)
        error = run(host, "list").stderr
        assert re.search(rf"invalid settings: {host.config}:\d+: monitoring.{key}: ", error), error


# Commands in messages have the option `--config` of the call, so that they concern the same file


@pytest.mark.parametrize(
    "words",
    [
        *here("show nosuch", "top nosuch --once", "show", "list", "list -o yaml", "metrics --counter mbm_*"),
        *here("top --once", "rdt apply", "rdt show", "config show", "doctor"),
        pytest.param("list --at '5m ago'", marks=pytest.mark.houses("observe")),
    ],
)
@pytest.mark.parametrize("content", ["", "namespaces: [shop]\n", "nonsense: true\n", "a: [\n"])
def test_command_in_a_message_has_the_callers_configuration(tmp_path: Path, words: str, content: str) -> None:
    config = tmp_path / "node/b.yaml"
    config.parent.mkdir()
    config.write_text(f"resctrlPath: {tmp_path}/none\nstateDir: {tmp_path}/state\n")
    call = ["--config", str(config)]
    if content:
        CliRunner().invoke(main, [*call, "config", "apply"])
        config.write_text(config.read_text() + content)
        os.utime(config, (4e9, 4e9))
    said = " ".join(CliRunner().invoke(main, [*call, *shlex.split(words)]).output.split())  # YAML breaks lines
    named = re.findall(r"resctrl-hook ([\w-]+)", said.replace("resctrl-hook:", ""))
    assert set(named) <= {"--config", *WITHOUT_FILE}
    assert named.count("--config") == said.count(f"--config {config} ")


WITHOUT_FILE = ("demo", "machineconfig", "report", "simulate")


@pytest.mark.parametrize("given, shown", [("b.yaml", "--config b.yaml "), ("/etc/resctrl-hooks/config.yaml", "")])
def test_each_command_that_reads_a_configuration_gets_the_option_in_every_thread(
    capsys: pytest.CaptureFixture[str], given: str, shown: str
) -> None:
    context = click.Context(click.Command("resctrl-hook"))
    context.params["config"] = given
    for command in [name for entries in tasks().values() for name in entries]:
        option = "" if command in WITHOUT_FILE else shown
        if command == "install" and shown:
            option = f"--config {os.path.abspath(given)} "  # a unit needs a whole path
        text = f"run `resctrl-hook {command}`; journalctl -t resctrl-hook; resctrl-hook --config x {command}"
        assert with_config(text, context) == text.replace("`resctrl-hook ", f"`resctrl-hook {option}")
    with context:
        thread = threading.Thread(target=remarks(), args=("run `resctrl-hook doctor`",))
    thread.start()
    thread.join()
    assert capsys.readouterr().err == f"resctrl-hook: run `resctrl-hook {shown}doctor`\n"
