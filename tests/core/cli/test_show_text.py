"""The text of `show`: all facts of a pod, and its counters."""

import io
import re
import time
from typing import Any

import pytest
from golden import Golden
from rich.console import Console

from resctrl_hooks.core.cli import tables
from resctrl_hooks.core.cli.counters_text import print_counters, turns_text
from resctrl_hooks.core.cli.show_text import print_pod
from resctrl_hooks.core.inventory.counters import Counter, TurnRate
from resctrl_hooks.core.inventory.models import Container, Group, Outside
from resctrl_hooks.core.inventory.pod_details import Failure, PodDetails

NOW = 1_700_000_000.0
KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)


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


def test_name_and_path_stay_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_WIDTH_OF_NO_TERMINAL", 20)
    group = Group(rdt_class="", name="g", path=f"/sys/fs/resctrl/mon_groups/{KEY}", origin="created", tasks=0)
    lines = shown(PodDetails(key=KEY, namespace="shop", pod="a name" * 5, state="idle", groups=[group]), capsys)
    assert (lines[0], f"    {group.path}" in lines) == (f"shop/{'a name' * 5}", True)


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


@pytest.mark.parametrize(
    "low, high, text",
    [
        (17e6, 57e6, "37 ± 20 MB/s (8 turns, 1m counted)"),
        (None, 57e6, "37.0 MB/s, too few turns for a confidence interval (8 turns, 1m counted)"),
        (17e6, None, "37.0 MB/s, too few turns for a confidence interval (8 turns, 1m counted)"),
    ],
)
def test_rate_from_turns_has_its_margin(low: float | None, high: float | None, text: str) -> None:
    assert turns_text(TurnRate(bytes_per_second=37e6, low=low, high=high, turns=8, counted_seconds=60.0)) == text
