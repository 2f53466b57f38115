"""Commands of pages are accepted; those of the index by task answer on a simulated node."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hosts.monitored import MonitoredHost, monitored_host

from resctrl_hooks.core.cli import main
from resctrl_hooks.lab.simulation.mount import mounted
from resctrl_hooks.observe.cluster.command import group as kubectl

HOUSES = ("observe", "placement", "openshift", "lab")
ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| \[[^]]+\]\([^)]+\) \| (?:`([^`|]+)`)? ?\|$", re.MULTILINE)


_TASKS = (ROOT / "docs/index.md").read_text(encoding="utf-8").partition("\n## Terms\n")[0]
COMMANDS = list(dict.fromkeys(filter(None, ROW.findall(_TASKS))))
SHOWN = {
    **dict.fromkeys(("list", "list -o wide", "top", "top --sort watts"), "shop/web-0"),
    **dict.fromkeys(("show shop/web-0", "explain shop/web-0"), "shop/web-0"),
    "config check": "valid",
    "rdt apply": "gold",
    "topology": "CPU",
    "doctor": "resctrl",
}
"""By command that a simulated node can run, a word of its answer. The others are parsed, and their help is printed."""


def _parts(command: str) -> tuple[click.Command, list[str], list[str]]:
    """Return the click command of a line, the words that name it, and its arguments."""
    words = shlex.split(command)
    found: click.Command = kubectl if words[:2] == ["kubectl", "resctrl"] else main
    del words[: 2 if found is kubectl else 1]
    named: list[str] = []
    while isinstance(found, click.Group) and words and words[0] != "--version":
        _, words, _ = found.make_parser(click.Context(found)).parse_args(words)
        if not words:
            break
        named.append(words.pop(0))
        inner = found.get_command(click.Context(found), named[-1])
        assert inner is not None, command
        found = inner
    return found, named, words


WRITTEN = re.compile(
    r"^ *(?:[#$] )?(?:sudo )?((?:resctrl-hook|kubectl resctrl)(?: .*?)?)(?=  |\s\S*[#|;&>]|\\?$)"
    r"|`(?:sudo )?((?:resctrl-hook|kubectl resctrl) [^`|]+?)(?: \||`)",
    re.MULTILINE,
)
"""A command in a block or in the text, without what follows in a shell."""
PAGES = sorted([*(ROOT / "docs").glob("**/*.md"), ROOT / "README.md", *(ROOT / "contrib").glob("**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_pages_have_known_options(page: Path) -> None:
    for match in WRITTEN.finditer(page.read_text(encoding="utf-8")):
        line = " ".join((match[1] or match[2]).split())
        if not re.search(r"…|\bCOMMAND\b|\[|^resctrl-hook: ", line):
            found, _, words = _parts(line)
            try:
                found.make_parser(click.Context(found)).parse_args(words)
            except click.UsageError as error:
                pytest.fail(f"{line}: {error.format_message()}")


def test_command_of_the_index_is_accepted() -> None:
    assert _TASKS.count("\n| [") == len(ROW.findall(_TASKS))
    for command in COMMANDS:
        if command.startswith("./dev "):
            assert f"\ndef {command.split()[1]}(" in (ROOT / "noxfile.py").read_text()
            continue
        found, named, words = _parts(command)
        found.make_parser(click.Context(found)).parse_args(list(words))
        program = kubectl if command.startswith("kubectl") else main
        helped = CliRunner().invoke(program, [*named, "--help"])
        assert (helped.exit_code, helped.stderr) == (0, ""), command


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredHost]:
    folder = tmp_path_factory.mktemp("index")
    classes = {"gold": {"L3": "ff0", "exclusive": True}}
    with mounted(folder / "sim") as root, monitored_host(folder, root, rdt={"classes": classes}) as host:
        host.pod(0, "web-0")
        (folder / "settings.yaml").write_text("namespaces: [shop]\n")
        yield host


@pytest.mark.fuse
@pytest.mark.parametrize("line", SHOWN)
def test_command_of_the_index_answers_on_a_simulated_node(node: MonitoredHost, line: str) -> None:
    assert f"resctrl-hook {line}" in COMMANDS
    words = line.split()
    words += ["--once", "--interval", "100ms"] if words[0] == "top" else []
    config = node.config.with_name("settings.yaml") if line.startswith("config") else node.config
    done = CliRunner().invoke(main, ["--config", str(config), *words])
    assert SHOWN[line] in done.stdout, done.output
    assert done.exit_code == 0 or line == "doctor", done.output
