"""Commands in messages have the option `--config` of the call, so that they concern the same file."""

import os
import re
import shlex
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hosts.commands import here

from resctrl_hooks.core.cli import main, tasks
from resctrl_hooks.core.cli.errors import remarks
from resctrl_hooks.core.cli.same_config import with_config

WITHOUT_FILE = ("demo", "machineconfig", "report", "simulate")
COMMAND = re.compile(r"resctrl-hook ([\w-]+)")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration of a node without resctrl."""
    path = tmp_path / "node" / "b.yaml"
    path.parent.mkdir()
    path.write_text(f"resctrlPath: {tmp_path}/none\nstateDir: {tmp_path}/state\n")
    return path


def _run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--config", str(config), *words])


def _commands(text: str) -> list[str]:
    return COMMAND.findall(text.replace("resctrl-hook:", ""))


@pytest.mark.parametrize(
    "words",
    [
        *here("show nosuch", "top nosuch --once", "show", "list", "list -o yaml", "metrics --counter mbm_*"),
        *here("top --once", "rdt apply", "rdt show", "config show", "doctor"),
        pytest.param("list --at '5m ago'", marks=pytest.mark.houses("observe")),
    ],
)
@pytest.mark.parametrize("content", ["", "namespaces: [shop]\n", "nonsense: true\n", "a: [\n"])
def test_command_in_a_message_has_the_callers_configuration(config: Path, words: str, content: str) -> None:
    if content:
        _run(config, "config", "apply")
        config.write_text(config.read_text() + content)
        os.utime(config, (4e9, 4e9))
    said = " ".join(_run(config, *shlex.split(words)).output.split())  # YAML breaks lines
    named = _commands(said)
    assert set(named) <= {"--config", *WITHOUT_FILE}
    assert named.count("--config") == said.count(f"--config {config} ")


@pytest.mark.parametrize("command", [name for entries in tasks().values() for name in entries])
@pytest.mark.parametrize("given, shown", [("b.yaml", "--config b.yaml "), ("/etc/resctrl-hooks/config.yaml", "")])
def test_each_command_that_reads_a_configuration_gets_the_option(command: str, given: str, shown: str) -> None:
    context = click.Context(click.Command("resctrl-hook"))
    context.params["config"] = given
    option = "" if command in WITHOUT_FILE else shown
    if command == "install" and shown:
        option = f"--config {os.path.abspath(given)} "  # a unit needs a whole path
    text = f"run `resctrl-hook {command}`; journalctl -t resctrl-hook; resctrl-hook --config x {command}"
    assert with_config(text, context) == text.replace("`resctrl-hook ", f"`resctrl-hook {option}")


def test_remark_of_a_thread_has_the_configuration_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(click.Command("resctrl-hook"))
    context.params["config"] = "b.yaml"
    with context:
        thread = threading.Thread(target=remarks(), args=("run `resctrl-hook doctor`",))
    thread.start()
    thread.join()
    assert capsys.readouterr().err == "resctrl-hook: run `resctrl-hook --config b.yaml doctor`\n"
