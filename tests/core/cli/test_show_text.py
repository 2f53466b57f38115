"""The text of `show` without a node, and tables at a terminal: names give way to the numbers, nothing else does."""

import io
import re
import time
from operator import itemgetter
from typing import Any

import pytest
from golden import Golden
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from resctrl_hooks.core.cli.counters_text import print_counters, turns_text
from resctrl_hooks.core.cli.document import Form, print_listing
from resctrl_hooks.core.cli.show_text import print_pod
from resctrl_hooks.core.cli.tables import NO_BREAK, Name, SafeConsole, console, print_table, print_wrapped, table
from resctrl_hooks.core.inventory.counters import Counter, TurnRate
from resctrl_hooks.core.inventory.models import Container, Group, Outside
from resctrl_hooks.core.inventory.pod_details import Failure, PodDetails

NOW = 1_700_000_000.0
KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.delenv("NO_COLOR", raising=False)


def ago(seconds: int) -> int:
    return int(NOW) - seconds


def counter(name: str = "mbm_total_bytes", value: float | None = 2048, **more: Any) -> Counter:
    values = {"domain": "mon_L3_00", "resource": "L3", "id": 0, "node": None, "counter": name, "rdt_class": ""}
    values |= {"value": value, "kind": "cumulative", "unit": "By", "state": "available", "seconds": 65.0}
    return Counter.model_validate({**values, **more})


def squeezed(lines: list[str]) -> list[str]:
    """Return lines with two spaces between columns."""
    return [re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) for line in lines]


def shown(pod: PodDetails, capsys: pytest.CaptureFixture[str], *, headers: bool = True) -> list[str]:
    print_pod(pod, headers=headers)
    return squeezed(capsys.readouterr().out.splitlines())


def text_of(show: Any, *given: Any, **named: Any) -> list[str]:
    out = Console(width=200, file=io.StringIO(), highlight=False)
    show(out, *given, **named)
    assert isinstance(out.file, io.StringIO)
    return squeezed(out.file.getvalue().splitlines())


def test_all_facts_of_a_pod_are_printed(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    threads = [Outside(thread=7, rdt_class="gold", group="job"), Outside(thread=8, rdt_class="?", group="")]
    threads += [Outside(thread=9, rdt_class="", group="")]
    details = {
        "memory": {"class": "b", "limits": {"a": 1, "c": 2}},
        "cgroup": {"memory.current": "4096", "memory.max": "max"},
    }
    one = Container(
        id="c" * 64, name="app", runtime="crun", pid=5, alive=True, rdt_class="", threads=1, outside=3,
        since=ago(60), outside_threads=threads, details=details,
    )  # fmt: skip
    two = Container(id="d" * 64, alive=False, runtime="crun", rdt_class=None, outside=0)
    group = Group(rdt_class="gold", name="g", path="/r/g", origin="created", tasks=1)
    failures = [
        Failure(time=ago(300), stage="poststop", reasons=["a", "b"], message=""),
        Failure(time=ago(200), stage="x", reasons=[], message="cannot move"),
        Failure(time=ago(100), stage="x", reasons=[], message="cannot move"),
    ]
    pod = PodDetails(
        key=KEY, namespace="shop", pod="web", state="partly", priority=5, cgroup="/cg", since=ago(7200),
        unread=["a/b", "c/d"], containers=[one, two], groups=[group], counters=[counter()],
        turn_rate=TurnRate(bytes_per_second=2e6, low=None, high=None, turns=3, counted_seconds=65.0),
        counted_until={"e" * 64: ago(120), KEY: ago(60)}, failures=failures,
        problems=["cannot read it"],
    )  # fmt: skip
    golden("\n".join(shown(pod, capsys)))
    golden("\n".join(shown(pod, capsys, headers=False)), "without headers")
    golden("\n".join(shown(PodDetails(key=KEY, state="waiting", unreadable="resctrl is gone"), capsys)), "bare")
    one = Container(id="c" * 64, runtime="crun", alive=True, rdt_class=None, outside=2)
    partly = PodDetails(key=KEY, state="partly", containers=[one], problems=["unreadable"])
    golden("\n".join(shown(partly, capsys)), "without group")


def test_long_lists_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    threads = [Outside(thread=number, rdt_class="", group="") for number in range(30)]
    one = Container(id="c" * 64, runtime="crun", alive=True, rdt_class=None, outside=30, outside_threads=threads)
    failures = [Failure(time=ago(60), stage="s", reasons=[], message=f"failure {number}") for number in range(12)]
    group = Group(rdt_class="", name="g", path="/r/g", origin="created", tasks=0)
    lines = shown(PodDetails(key=KEY, state="partly", containers=[one], groups=[group], failures=failures), capsys)
    assert [line for line in lines if line.endswith("no group")][-1] == "      19 class /, no group"
    assert lines[-10:] == [f"  1m ago  failure {number}" for number in range(2, 12)]
    assert "  class /: created, no tasks" in lines


def test_counters_of_several_classes_have_their_sums(golden: Golden) -> None:
    counters = [
        counter(value=1, rdt_class="", partial=True),
        counter(value=2, rdt_class="gold", state="Unassigned"),
        counter("core_energy", 2.5, unit="J", domain="mon_PERF_PKG_01", seconds=None, rdt_class=None),
        counter("llc_occupancy", None, state="Unavailable", seconds=3.0),
        counter("c6_res", 12345, unit="{tick}"),
        counter("activity", 7, unit="F"),
    ]
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("all", (counters, [counter(value=3, rdt_class=None)]), {}),
        ("of two classes", ([counter(), counter(rdt_class="gold")], [counter(rdt_class=None)]), {}),
        ("without headers", ([counter()], [counter(value=3)]), {"headers": False}),
        ("none", ([],), {}),
        ("problem", ([counter()],), {"problem": "damaged"}),
    ]
    for label, given, named in cases:
        golden("\n".join(text_of(print_counters, *given, **named)), label)


def test_rate_from_turns_has_its_margin(golden: Golden) -> None:
    bounds = ((17e6, 57e6), (None, 57e6), (17e6, None))
    rates = [TurnRate(bytes_per_second=37e6, low=low, high=high, turns=8, counted_seconds=60.0) for low, high in bounds]
    golden("\n".join(map(turns_text, rates)))


# Tables at a terminal: names give way to the numbers, nothing else does

COLUMNS = ("POD", "KEY", "CONTAINERS", "TASKS", "STATE")


LEAST = 12 + len("  0f0ac7f2-8a3b  CONTAINERS  TASKS  assigned")


def test_narrow_terminal_loses_no_column(golden: Golden) -> None:
    for width in (30, 60, 80, 200):
        rows = table(*COLUMNS, names="POD")
        pod = "openshift-cluster-node-tuning-operator/checkout-7d9f8c6b54-x2x9z"
        rows.add_row(Name(pod), "0f0ac7f2-8a3b", "2/2", "2", "assigned")
        out = io.StringIO()
        print_table(Console(file=out, width=width), rows)
        assert LEAST <= len(out.getvalue().splitlines()[1]) <= max(width, LEAST)
        golden(out.getvalue(), str(width))


def test_wrapped_line_is_indented_and_keeps_commands_and_long_words_whole(golden: Golden) -> None:
    command = "ok  threads are outside: `resctrl-hook reconcile` brings them in"
    path = "/sys/fs/resctrl/mon_groups/5f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
    for text, width in (
        *((command, width) for width in (36, 1, 200)),
        *((text, 40) for text in (f"in  {path} there", "a\u200bb  c [red]", "ab")),
        *((text, 38) for text in (f"in  {'a' * 28} class{NO_BREAK}gold", f"class{NO_BREAK}gold")),
    ):
        out = io.StringIO()
        print_wrapped(Console(file=out, width=width), Text(text), 4)
        golden(out.getvalue(), f"{width} {text.encode('ascii', 'replace').decode()[:20]}")


def test_printed_text_has_no_foreign_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile, written = "a\x1b[2Jb\x9b31mc\u202ed\ud800", io.StringIO()
    monkeypatch.setattr("sys.stdout", written)
    out = console()
    rows = table(*COLUMNS, names="POD")
    rows.add_row(Name(hostile), escape(hostile), escape(hostile), "2", "assigned")
    print_table(out, rows)
    out.print(escape(hostile), soft_wrap=True)
    print_wrapped(out, Text(f"in  {hostile}"), 4)
    print_listing("name", "", [hostile], [("pod", str)])
    print_listing("csv", "", [hostile], [("pod", str), ("all", lambda name: [name])], headers=False)
    text = written.getvalue()
    assert text.replace("\r\n", "").replace("\n", "").isprintable()
    assert text.count("a?[2Jb?31mc?d?") == 5


def test_documents_are_plain_and_without_rounding_errors_and_follow_each_other(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    numbers = [301599999.99999976, 0.1 + 0.2, -1e-9, 1 / 3, 7]
    values = {"bool": True, "list": ["a", 1], "none": None, "text": "a\x1b", **{str(one): one for one in numbers}}
    print_listing("csv", "", [values], [(name, itemgetter(name)) for name in values], headers=False)
    golden(capsys.readouterr().out, "csv")
    forms: tuple[Form, ...] = ("json", "yaml")
    for form in forms:
        for compact in (False, True):
            print_listing(form, "PodList", ["a"], [], compact=compact)
            text = re.sub(r"(host\W+)[\w.-]+", r"\1<host>", capsys.readouterr().out)
            golden(text, f"{form}, compact {compact}", hide="time")
    out = SafeConsole(force_terminal=True, color_system="standard", highlight=False, file=io.StringIO())
    out.print(Text("a\x1b[2J", "red"), "b", sep="\n")
    assert isinstance(out.file, io.StringIO)
    golden(out.file.getvalue().replace("\x1b", "ESC"), "own colours and lines")
