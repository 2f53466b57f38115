"""The documentation's index by question: each command is accepted, and answers on a simulated node."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from resctrl_hooks.core.cli import main
from resctrl_hooks.observe.cluster.command import group as kubectl

HOUSES = ("observe", "placement", "openshift", "lab")
ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|]+) \| (?:`([^`|]+)`)? ?\| \[[^]]+\]\(([^)#]+)[^)]*\) \|$", re.MULTILINE)


def _commands() -> list[str]:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8").partition("\n## Terms\n")[0]
    rows = [command for _, command, _ in ROW.findall(text)]
    assert text.count("| `resctrl-hook ") == sum(command.startswith("resctrl-hook ") for command in rows)
    return list(dict.fromkeys(filter(None, rows)))


COMMANDS = _commands()


def _parts(command: str) -> tuple[click.Command, list[str], list[str]]:
    """Return the click command of a line, the words that name it, and its arguments."""
    words = shlex.split(command)
    found: click.Command = kubectl if words[:2] == ["kubectl", "resctrl"] else main
    del words[: 2 if found is kubectl else 1]
    named: list[str] = []
    while isinstance(found, click.Group):
        named.append(words.pop(0))
        inner = found.get_command(click.Context(found), named[-1])
        assert inner is not None, command
        found = inner
    return found, named, words


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_index_is_accepted(command: str) -> None:
    if command.startswith("./dev "):
        assert f"\ndef {command.split()[1]}(" in (ROOT / "noxfile.py").read_text()
        return
    if command.startswith("python3 "):
        words = [sys.executable, *shlex.split(command)[1:]]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
        assert "ensure_group" in done.stdout
        return
    found, named, words = _parts(command)
    found.make_parser(click.Context(found)).parse_args(list(words))
    program = kubectl if command.startswith("kubectl") else main
    helped = CliRunner().invoke(program, [*named, "--help"])
    assert (helped.exit_code, helped.stderr) == (0, "")
