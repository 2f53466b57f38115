"""The text of `show`: all facts of a pod, and its counters."""

import io
import re
import time
from typing import Any

import pytest
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


def test_all_facts_of_a_pod_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
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
    lines = shown(pod, capsys)
    assert lines == [
        "shop/web",
        (
            "state  partly: some threads of the pod's containers are ungrouped; reconcile moves these threads into the "
            "pod's group"
        ),
        "priority  5",
        f"key  {KEY}",
        "cgroup  /cg",
        "age  2h",
        "not read  annotations a/b, c/d",
        "",
        "Groups",
        "  class gold: created, 1 task",
        "    /r/g",
        "",
        "Containers",
        "  app (crun cccccccccccc): pid 5, 1 thread, 1m, class /",
        "    3 threads outside the group:",
        "      7 class gold, group job",
        "      8 unknown group",
        "      9 class /, no group",
        "    memory: class b, limits a=1 c=2",
        "    cgroup: memory.current 4.00 KiB, memory.max max",
        "  dddddddddddd (crun dddddddddddd): ended",
        "",
        "Counters",
        "  COUNTER  DOMAIN  CLASS  VALUE  COUNTED",
        "  mbm_total_bytes  L3_00  /  2.00 KiB  1m5s",
        "rate from turns: 2.00 MB/s, too few turns for a confidence interval (3 turns, 1m5s counted)",
        "counted until 2m ago: container eeeeeeeeeeee, whose runtime has removed its group",
        "counted until 1m ago: another program has removed the pod's group",
        "",
        "Last errors",
        "  5m ago  poststop: a, b",
        "  1m ago  cannot move (2 times)",
        "  cannot read it",
    ]


def test_missing_facts_are_named_and_unknown_ones_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    pod = PodDetails(key=KEY, state="waiting", unreadable="resctrl is gone")
    assert shown(pod, capsys) == [
        "3f0ac7f2-8a3",
        "state  waiting: no RMID was free; reconcile cannot create a group without resctrl",
        f"key  {KEY}",
        "age  -",
        "",
        "Groups: none",
        "",
        "Containers: none",
        "",
        "Counters: resctrl is gone",
        "",
        "Last errors: none",
    ]


def test_container_of_a_pod_without_a_group_is_not_monitored(capsys: pytest.CaptureFixture[str]) -> None:
    one = Container(id="c" * 64, runtime="crun", alive=True, rdt_class=None, outside=2)
    lines = shown(PodDetails(key=KEY, state="partly", containers=[one], problems=["unreadable"]), capsys)
    assert lines[lines.index("Containers") + 2] == "    not monitored: the pod's group does not exist yet"
    assert lines[-2:] == ["Last errors", "  unreadable"]


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


def test_counters_of_several_classes_have_their_sums() -> None:
    counters = [
        counter(value=1, rdt_class="", partial=True),
        counter(value=2, rdt_class="gold", state="Unassigned"),
        counter("core_energy", 2.5, unit="J", domain="mon_PERF_PKG_01", seconds=None, rdt_class=None),
        counter("llc_occupancy", None, state="Unavailable", seconds=3.0),
        counter("c6_res", 12345, unit="{tick}"),
        counter("activity", 7, unit="F"),
    ]
    lines = text_of(print_counters, counters, [counter(value=3, rdt_class=None)])
    assert lines == [
        "",
        "Counters",
        "  COUNTER  DOMAIN  CLASS  VALUE  COUNTED",
        "  mbm_total_bytes  L3_00  /  ~1 B  ~1m5s",
        "  mbm_total_bytes  L3_00  gold  2 B (Unassigned)  1m5s",
        "  core_energy  PERF_PKG_01  -  2.50 J  -",
        "  llc_occupancy  L3_00  /  Unavailable  3s",
        "  c6_res  L3_00  /  12,345  1m5s",
        "  activity  L3_00  /  7 F  1m5s",
        "  mbm_total_bytes  L3_00  (all)  3 B  1m5s",
        "~: counted for only part of the pod's life",
    ]
    two = text_of(print_counters, [counter(), counter(rdt_class="gold")], [counter(rdt_class=None)])
    assert two[-1] == "  mbm_total_bytes  L3_00  (all)  2.00 KiB  1m5s"
    alone = text_of(print_counters, [counter()], [counter(value=3)], headers=False)
    assert alone == ["", "Counters", "  mbm_total_bytes  L3_00  /  2.00 KiB  1m5s"]
    assert text_of(print_counters, []) == ["", "Counters: none"]
    assert text_of(print_counters, [counter()], problem="damaged")[1] == "Counters: damaged"


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
