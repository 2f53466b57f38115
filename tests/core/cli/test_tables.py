"""Tables at a terminal: names give way to the numbers, nothing else does."""

import io
from operator import itemgetter

import pytest
import yaml
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from resctrl_hooks.core.cli.document import Form, print_listing
from resctrl_hooks.core.cli.tables import (
    NO_BREAK,
    Name,
    SafeConsole,
    console,
    print_table,
    print_wrapped,
    table,
)

POD = "openshift-cluster-node-tuning-operator/checkout-7d9f8c6b54-x2x9z"
COLUMNS = ("POD", "KEY", "CONTAINERS", "TASKS", "STATE")


def printed(width: int, pod: str = POD) -> list[str]:
    rows = table(*COLUMNS, names="POD")
    rows.add_row(Name(pod), "0f0ac7f2-8a3b", "2/2", "2", "assigned")
    out = io.StringIO()
    print_table(Console(file=out, width=width), rows)
    return out.getvalue().splitlines()


LEAST = 12 + len("  0f0ac7f2-8a3b  CONTAINERS  TASKS  assigned")


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_narrow_terminal_loses_no_column(width: int) -> None:
    head, row = printed(width)
    assert head.split() == list(COLUMNS)
    assert row.split()[1:] == ["0f0ac7f2-8a3b", "2/2", "2", "assigned"]
    assert LEAST <= len(row) <= max(width, LEAST)
    name = row.split()[0]
    assert (name[:4], name[-4:]) == (POD[:4], POD[-4:])
    assert (name == POD) == (width == 200)


@pytest.mark.parametrize(
    "width, lines",
    [
        (36, ["ok  threads are outside:", "    `resctrl-hook reconcile` brings", "    them in"]),
        (200, ["ok  threads are outside: `resctrl-hook reconcile` brings them in"]),
        (1, ["ok  threads are outside:", "    `resctrl-hook reconcile`", "    brings them in"]),
    ],
)
def test_wrapped_line_is_indented_and_keeps_commands_whole(width: int, lines: list[str]) -> None:
    assert wrapped("ok  threads are outside: `resctrl-hook reconcile` brings them in", width) == lines


def test_long_words_stay_whole_and_odd_characters_are_harmless() -> None:
    path = "/sys/fs/resctrl/mon_groups/5f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
    assert wrapped(f"in  {path} there", 40) == [f"in  {path}", "    there"]
    assert wrapped("a\u200bb  c [red]", 40) == ["a\u200bb  c [red]"]
    assert wrapped("ab", 40) == ["ab"]
    assert wrapped(f"in  {'a' * 28} class{NO_BREAK}gold", 38) == [f"in  {'a' * 28}", "    class gold"]
    assert wrapped(f"class{NO_BREAK}gold", 38) == ["class gold"]


def wrapped(text: str, width: int) -> list[str]:
    out = io.StringIO()
    print_wrapped(Console(file=out, width=width), Text(text), 4)
    return out.getvalue().splitlines()


HOSTILE = "a\x1b[2Jb\x9b31mc\u202ed\ud800"
SAFE = "a?[2Jb?31mc?d?"


def test_printed_text_has_no_foreign_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stdout", written)
    out = console()
    rows = table(*COLUMNS, names="POD")
    rows.add_row(Name(HOSTILE), escape(HOSTILE), escape(HOSTILE), "2", "assigned")
    print_table(out, rows)
    out.print(escape(HOSTILE), soft_wrap=True)
    print_wrapped(out, Text(f"in  {HOSTILE}"), 4)
    print_listing("name", "", [HOSTILE], [("pod", str)])
    print_listing("csv", "", [HOSTILE], [("pod", str), ("all", lambda name: [name])], headers=False)
    text = written.getvalue()
    assert text.replace("\r\n", "").replace("\n", "").isprintable()
    assert text.count(SAFE) == 5


def test_cells_of_csv_are_plain_and_without_rounding_errors(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [301599999.99999976, 0.1 + 0.2, -1e-9, 1 / 3, 7]
    values = {"bool": True, "list": ["a", 1], "none": None, "text": "a\x1b", **{str(one): one for one in numbers}}
    print_listing("csv", "", [values], [(name, itemgetter(name)) for name in values], headers=False)
    cells = "true,a 1,,a?,301600000.0,0.3,-1e-09,0.333333333333333,7"
    assert capsys.readouterr().out.splitlines() == [cells]


@pytest.mark.parametrize("form, starts", [("json", ("{\n", '{"')), ("yaml", ("apiVersion: ", "---\napiVersion: "))])
def test_compact_documents_follow_each_other(
    capsys: pytest.CaptureFixture[str], form: Form, starts: tuple[str, str]
) -> None:
    for compact, start in zip((False, True), starts, strict=True):
        print_listing(form, "PodList", ["a"], [], compact=compact)
        text = capsys.readouterr().out
        assert text.startswith(start)
        assert yaml.safe_load(text)["items"] == ["a"]
        assert not text.endswith("\n\n")


def test_console_keeps_its_own_colours_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = SafeConsole(force_terminal=True, color_system="standard", highlight=False, file=io.StringIO())
    out.print(Text("a\x1b[2J", "red"), "b", sep="\n")
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == "\x1b[31ma?[2J\x1b[0m\nb\n"
