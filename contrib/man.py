"""The man page, made from the command's own help."""

import re
from collections.abc import Iterator

import click

from resctrl_hooks.cli import main
from resctrl_hooks.node.settings import DEFAULT_CONFIG

_NAME = "resctrl-hook"


def man_page() -> bytes:
    """The page's source: one section for each command, in the order of the overview."""
    context = click.Context(main, info_name=_NAME, **main.context_settings)
    lines = [
        f'.TH RESCTRL\\-HOOK 8 "" "{_NAME}" "System Administration"',
        ".SH NAME",
        f"{_roff(_NAME)} \\- {_roff(_first(main))}",
        ".SH SYNOPSIS",
        f".B {_roff(_NAME)}",
        "[\\-\\-config FILE] COMMAND [OPTION...] [ARGUMENT...]",
        ".SH OPTIONS",
        *_options(main, context),
        ".SH COMMANDS",
        *(line for name in main.list_commands(context) for line in _command(main, name, context)),
        ".SH FILES",
        ".TP",
        f".B {_roff(DEFAULT_CONFIG)}",
        "The configuration.",
        ".SH EXIT STATUS",
        "0 done or deliberately skipped, 1 failed, 2 wrong use or invalid configuration.",
        "The hook stages know only 0 and 79, which refuses the container.",
    ]
    return ("\n".join(lines) + "\n").encode()


def _command(group: click.Group, name: str, context: click.Context) -> Iterator[str]:
    command = group.get_command(context, name)
    assert command is not None
    own = click.Context(command, info_name=name, parent=context)
    path = own.command_path.removeprefix(f"{_NAME} ")
    yield f".SS {_roff(' '.join([path, *command.collect_usage_pieces(own)]))}"
    for paragraph in re.split(r"\n\s*\n", (command.help or "").replace("\b\n", "").strip()):
        yield ".PP"
        yield _roff(" ".join(paragraph.split()))
    yield from _options(command, own)
    if isinstance(command, click.Group):
        for inner in command.list_commands(own):
            yield from _command(command, inner, own)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    # Not get_params(): click keeps the help option of whoever asked first, with that one's names.
    records = [parameter.get_help_record(context) for parameter in command.params]
    for names, text in [*filter(None, records), (", ".join(context.help_option_names), "Show this message and exit.")]:
        yield ".TP"
        yield f".B {_roff(names)}"
        yield _roff(" ".join(text.split())) or "\\&"


def _first(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text
