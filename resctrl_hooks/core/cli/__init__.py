"""The `resctrl-hook` command line for operators.

The parts of the houses name the commands. A command's module is imported when the command is called.
"""

import sys
from collections.abc import Sequence
from typing import Any, get_args

import click

from resctrl_hooks import __version__
from resctrl_hooks.core.cli.errors import WORDS, OneLineGroup, no_such_command
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG
from resctrl_hooks.core.parts import Entry, Task, clause, load, parts

_SHELL = "|"  # an example with a pipe is complete


def _entries() -> dict[str, Entry]:
    """Return the commands of all parts by name, each with that of its `click.Command`."""
    return {
        name: entry._replace(command=entry.command or f"resctrl_hooks.{part.name}.cli.{name.split()[-1]}:command")
        for part in parts()
        for name, entry in part.commands.items()
    }


def tasks() -> dict[Task, dict[str, Entry]]:
    """Return the commands of all parts by task. Help, man page and completion have this order."""
    found = {}
    for task in get_args(Task):
        entries = [pair for pair in _entries().items() if pair[1].task == task and " " not in pair[0]]
        if entries:
            found[task] = dict(sorted(entries, key=lambda pair: pair[1].rank))
    return found


def _commands() -> dict[str, Entry]:
    return {name: entry for entries in tasks().values() for name, entry in entries.items()}


def examples_of(path: str) -> list[str]:
    """Return the example lines of a command, such as ``rdt apply``."""
    name = path.split(maxsplit=1)[0]
    lines = [line for one, entry in _entries().items() if one.split()[0] == name for line in entry.examples]
    lines += [line for part in parts() for line in part.examples.get(name, ())]
    return [line if _SHELL in line else f"resctrl-hook {line}" for line in lines if f" {path} " in f" {line} "]


def _give_examples(command: click.Command, path: str) -> None:
    """Add the table's examples to the help of a command and of its subcommands."""
    command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples_of(path))])
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        _give_examples(inner, f"{path} {name}")


class _LazyGroup(OneLineGroup):
    """Group that imports a command's module when the command is called."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        self.arguments = tuple(sys.argv[1:] if args is None else args)  # `list` is a command of this package
        return super().main(args, *rest, **named)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in WORDS and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(no_such_command(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_commands()]  # `list` is a module of this package

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _commands().get(cmd_name)
        if entry is None:
            return None
        command = load(entry.command)
        assert isinstance(command, click.Command)
        if isinstance(command, click.Group):
            for name, added in _entries().items():
                if name.startswith(f"{cmd_name} "):
                    command.add_command(load(added.command), name.split()[1])
        command.hidden = entry.hidden
        _give_examples(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for name, entry in _commands().items() if not entry.hidden)
        for task, entries in tasks().items():
            shown = [(name.ljust(widest), entry.summary) for name, entry in entries.items() if not entry.hidden]
            with formatter.section(task):
                formatter.write_dl(shown)


_PURPOSE = "Count the cache, memory bandwidth and energy of each pod"


@click.group(
    cls=_LazyGroup, help=_PURPOSE + clause("purpose") + ".", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True, help="The configuration.")
@click.version_option(__version__, prog_name="resctrl-hook")
@click.pass_context
def main(ctx: click.Context, config: str) -> None:
    """Keep the configuration's path for the command."""
    ctx.obj = config
