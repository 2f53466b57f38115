"""Each row of the metrics' tables: facts with a value for it go in, and a sample other than 0 is expected."""

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from resctrl_hooks.inventory.account import Account
from resctrl_hooks.inventory.guard import GuardedClass, GuardedDomain, GuardStatus
from resctrl_hooks.inventory.models import Pod
from resctrl_hooks.metrics import guard, nri, self_metrics, slowdown, watch
from resctrl_hooks.metrics.families import COUNTER, Histogram, Row, families
from resctrl_hooks.node import call_metrics
from resctrl_hooks.node.guard.law import STATES
from resctrl_hooks.nri.status import BOUNDS

PAGE = Path(__file__).parents[2] / "docs/metrics.md"
EVENT = {"failed": 2, "seconds": 1.5, "buckets": [1] * (len(BOUNDS) + 1)}
NRI = {"connected": True, "starts": 2, "connections": 3, "drops": 1, "events": {"StartContainer": EVENT}}
WATCHED = dict.fromkeys(("events", "moved", "gone", "left", "failed", "overruns", "degraded", "sampled"), 7)
THROTTLED = GuardedClass(declared=100, now=60, wanted=60, floor=20, overridden=False, rate=1.0)
GUARDED = GuardedDomain(
    domain="0", l3=[0], state=STATES[0], since=1, load=0.9, estimated=False, classes={"bronze": THROTTLED}, last=None
)
GUARD = GuardStatus(
    running=True,
    mode="act",
    why="",
    unit="%",
    started=1,
    updated=2,
    actions={"cut": 4},
    invalid_samples=5,
    throttled_seconds={"bronze": 6.5},
    domains=[GUARDED],
)
POD = {"ratio": 1.6, "counted": {"perf": [3e9, 2e9]}, "slowedSeconds": {"memory-bandwidth": 20.0}}
JUDGED = slowdown.Judged({("4f0a", "shop", "cart", ""): POD})


class Node:
    """The facts of a node on which every metric has a value."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = call_metrics.CallMetrics()
        calls.add_lines(b"1700000000 createRuntime 2000 ledger -\n1700000001 reconcile 2000 - -\n")
        self.context = type("Context", (), {"settings": type("Settings", (), {"state_dir": ""})})
        self.calls = calls
        self.stages = {name: calls.stage(name) for name in self_metrics.STAGES}
        self.account = Account(
            rmids={"pods": 3}, closids={"classes": 2}, limits={}, free_by_class={"gold": 3}, owners=[]
        )
        self.waiting = [Pod(key="a", state="waiting")]
        monkeypatch.setattr(self_metrics, "queued_pods", lambda _, waiting: waiting)
        monkeypatch.setattr(self_metrics, "read_vanished", lambda _: {"total": 3})
        monkeypatch.setattr(self_metrics, "read_version", lambda _: "1.0")
        monkeypatch.setattr(self_metrics, "free_bytes", lambda _: 4096)


TABLES: dict[str, tuple[tuple[Row[Any], ...], Any]] = {
    "nri": (nri.ROWS, NRI),
    "watch": (watch.ROWS, {"mode": "events", **WATCHED}),
    "guard": (guard.ROWS, GUARD),
    "slowdown": (slowdown.ROWS, JUDGED),
    "capacity": (guard.CAPACITY, {"*": 2e9}),
    "self": (self_metrics.ROWS, None),
}
ELSEWHERE = {"resctrl_hooks_unmet_containers"}
"""Its values need a ledger: test_self_metrics has them."""
EACH = [
    pytest.param(name, row, id=row.name)
    for name, (rows, _) in TABLES.items()
    for row in rows
    if row.name not in ELSEWHERE
]


@pytest.mark.parametrize("table, row", EACH)
def test_row_with_a_value_has_a_sample(table: str, row: Row[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    facts = TABLES[table][1] or Node(monkeypatch)
    (family,) = families([row], facts)
    values = [sample.value for sample in family.samples]
    assert any(values), family
    assert all(set(sample.labels) - {"le"} == set(row.labels) for sample in family.samples)
    assert family.name == row.name


@pytest.mark.parametrize("rows", [rows for rows, _ in TABLES.values()])
def test_row_is_documented(rows: tuple[Row[Any], ...]) -> None:
    text = PAGE.read_text().replace("\n  ", " ")
    for row in rows:
        (line,) = re.findall(rf"^- `{row.series}`.*$", text, re.MULTILINE)
        assert all(f"`{label}`" in line for label in row.labels), line


def test_kinds_of_values() -> None:
    def family(values: Any, **options: Any) -> Metric:
        (found,) = families([Row("x", "Text.", lambda facts: facts, **options)], values)
        return found

    assert [sample.value for sample in family(3.0).samples] == [3.0]
    assert family(None).samples == []
    assert family({"a": 1}, labels=("b",), kind=COUNTER).samples[0][:3] == ("x_total", {"b": "a"}, 1)
    assert family({("a", "c"): 1}, labels=("b", "d")).samples[0].labels == {"b": "a", "d": "c"}
    buckets = family({"a": Histogram((0.5,), (2, 1), 4.0)}, labels=("b",)).samples
    assert [sample.value for sample in buckets] == [2, 3, 3, 4]
