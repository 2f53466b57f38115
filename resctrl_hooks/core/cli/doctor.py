"""`resctrl-hook doctor`: report the problems of this host and their remedies on one screen."""

import os

import click
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from resctrl_hooks.core.cli.document import Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.tables import console, counted, print_wrapped
from resctrl_hooks.core.doctor import Host, Level, examine
from resctrl_hooks.core.doctor.finding import NotFixedError

_MARKS: dict[Level, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "problem": ("PROBLEM", "red"),
}
_FAILED = 1
_INDENT = 22
_NARROW_INDENT = 8
_WIDE = 72  # minimum width at which remedies stand below their findings


class CheckResult(BaseModel):
    """One finding, as ``--json`` prints it; ``fixed`` says what ``--fix`` did about it."""

    check: str
    level: Level
    text: str
    remedy: str
    fixable: bool
    fixed: str


_CSV = attributes(*CheckResult.model_fields)


@click.command()
@output_option
@click.option("--fix", is_flag=True, help="Fix problems that are safe to fix; running containers are not changed.")
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    default="/",
    show_default=True,
    help="Check an image: the files below DIR.",
)
@click.pass_obj
def command(config: str, *, form: Form, fix: bool, root: str) -> None:
    """Check this host: hardware, resctrl, runtimes, the hook, configuration, records.

    Exit code: 1 if a problem exists (after --fix: remains), otherwise 0; warnings are not counted.
    """
    host = Host(os.path.abspath(config), os.path.abspath(root).rstrip("/"))
    found = []
    out = console()
    for name, finding in examine(host):
        fixed, remedy = "", finding.remedy
        try:
            fixed = finding.fix() if fix and finding.fix else ""
        except (NotFixedError, OSError) as error:
            remedy = f"not fixed: {error}"
        one = CheckResult(
            check=name,
            level=finding.level,
            text=with_config(finding.text),
            remedy=with_config(remedy),
            fixable=finding.fix is not None,
            fixed=fixed,
        )
        found.append(one)
        if is_table(form):
            _print(out, one)
    left = [one for one in found if one.level == "problem" and not one.fixed]
    if not is_table(form):
        print_listing(form, "FindingList", found, _CSV, ok=not left)
    else:
        warnings = sum(one.level == "warning" for one in found)
        click.echo(f"{counted(len(left), 'problem')}, {counted(warnings, 'warning')}")
    raise SystemExit(_FAILED if left else 0)


def _print(out: Console, one: CheckResult) -> None:
    word, colour = _MARKS[one.level]
    print_wrapped(out, Text.assemble((f"{word:<7}", colour), f" {one.check:<13} {one.text}"), _INDENT)
    mark, text = ("fixed: ", one.fixed) if one.fixed else ("-> ", one.remedy)
    indent = _INDENT if out.width >= _WIDE else _NARROW_INDENT
    if text:
        print_wrapped(out, Text(f"{'':{indent}}{mark}{text}"), indent + len(mark))
