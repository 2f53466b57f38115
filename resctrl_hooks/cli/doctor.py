"""`resctrl-hook doctor`: one screen that says what is wrong with this host, and how to mend it."""

import os
import re
import shutil
import sys
import textwrap

import click
from pydantic import BaseModel

from resctrl_hooks.cli.document import document, print_document
from resctrl_hooks.cli.tables import counted
from resctrl_hooks.doctor import Finding, Host, Level, examine

_MARKS: dict[Level, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "problem": ("PROBLEM", "red"),
}
_FAILED = 1
_INDENT = 22
_LEAST_WIDTH = 30
_NO_BREAK = "\N{NO-BREAK SPACE}"


class CheckResult(BaseModel):
    """One finding, as ``--json`` prints it; ``mended`` says what ``--fix`` did about it."""

    check: str
    level: Level
    text: str
    remedy: str
    fixable: bool
    mended: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--fix", is_flag=True, help="Mend what is safe to mend: nothing that runs is changed by it.")
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    default="/",
    show_default=True,
    help="Examine an image: the files below DIR.",
)
@click.pass_obj
def command(config: str, *, as_json: bool, fix: bool, root: str) -> None:
    """Check this host: hardware, resctrl, runtimes, the hook, configuration, records.

    Exits with 1 if there is a problem (after --fix: one that is left), with 0 otherwise; warnings don't count.
    """
    host = Host(os.path.abspath(config), os.path.abspath(root).rstrip("/"))
    found = []
    for name, finding in examine(host):
        mended = finding.fix() if fix and finding.fix else ""
        found.append((name, finding, mended))
        if not as_json:
            _print(name, finding, mended)
    left = [finding for _, finding, mended in found if finding.level == "problem" and not mended]
    if as_json:
        items = [
            CheckResult(
                check=name,
                level=finding.level,
                text=finding.text,
                remedy=finding.remedy,
                fixable=finding.fix is not None,
                mended=mended,
            )
            for name, finding, mended in found
        ]
        old = {"findings": [item.model_dump() for item in items]}
        print_document("json", document("FindingList", items, ok=not left, old=old))
    else:
        warnings = sum(finding.level == "warning" for _, finding, _ in found)
        click.echo(f"{counted(len(left), 'problem')}, {counted(warnings, 'warning')}")
    raise SystemExit(_FAILED if left else 0)


def _print(name: str, finding: Finding, mended: str) -> None:
    word, colour = _MARKS[finding.level]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    click.echo(f"{click.style(f'{word:<7}', fg=colour)} {name:<13} {wrapped(finding.text, _INDENT, columns)}")
    mark, text = ("mended: ", mended) if mended else ("-> ", finding.remedy)
    if text:
        click.echo(f"{'':{_INDENT}}{mark}{wrapped(text, _INDENT + len(mark), columns)}")


def wrapped(text: str, indent: int, columns: int) -> str:
    """A text whose later lines stand below its first, in a terminal of so many columns; commands stay in one piece.

    Without a terminal, 0 columns, it is one line.
    """
    if not columns:
        return text
    whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", _NO_BREAK), text)
    room = max(columns - indent, _LEAST_WIDTH)
    lines = textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False)
    return f"\n{'':{indent}}".join(lines).replace(_NO_BREAK, " ")
