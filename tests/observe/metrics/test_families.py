"""Each row of the metrics' tables: facts with a value for it go in, and its samples are expected."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts.monitored import KEYS, MonitoredHost, plain_host
from metric_samples import samples_of

from observe.metrics.conftest import parse
from resctrl_hooks.core.inventory.account import Account
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.metric import Row, Table
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.observe.inventory.guard import GuardedClass, GuardedDomain, GuardStatus
from resctrl_hooks.observe.metrics import guard, self_metrics, slowdown, watch
from resctrl_hooks.observe.metrics.families import families, families_of
from resctrl_hooks.observe.metrics.self_metrics import REASONS, tables
from resctrl_hooks.observe.node.capacity.capacity import Capacity
from resctrl_hooks.observe.node.guard.law import STATES
from resctrl_hooks.observe.node.sampler.unsaved import NAME, Unsaved, read_unsaved

PAGE = Path(__file__).parents[3] / "docs/metrics.md"
WATCH = {"mode": "events", "events": 1, "moved": 2, "gone": 3, "left": 4, "failed": 5, "overruns": 6, "degraded": 7}
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
LOST = {"namespace": "shop", "culpritNamespace": "batch", "seconds": 9.5}
JUDGED = slowdown.Judged({("4f0a", "shop", "cart", ""): {**POD, "lostSeconds": {"memory-bandwidth": 7.5}}}, [LOST])


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
        monkeypatch.setattr(self_metrics, "age_of", lambda _: 30)


OF_A_LEDGER = ("resctrl_hooks_unmet_containers", "resctrl_hooks_unsaved")
"""Rows whose values need a ledger: test_self_metrics and test_unsaved have them."""
TABLES: dict[str, tuple[tuple[Row[Any], ...], Any]] = {
    "watch": (watch.TABLE.rows, WATCH),
    "guard": (guard.ROWS, GUARD),
    "slowdown": (slowdown.ROWS, JUDGED),
    "capacity": (guard.CAPACITY, {0: Capacity(2e9, "smbios")}),
    "self": (tuple(row for row in self_metrics.ROWS if row.name not in OF_A_LEDGER), None),
}
"""By name, rows and their facts."""


def test_each_row_has_its_samples(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    """Without the buckets, and the failures that did not happen: name, values of labels, value."""
    found = [line for rows, facts in TABLES.values() for line in samples_of(rows, facts or Node(monkeypatch))]
    golden("\n".join(line for line in found if not re.fullmatch("resctrl_hooks_failures_total .* 0", line)))


@pytest.mark.parametrize("text", [None, "", "[]", "{"])
def test_resident_program_without_a_readable_status_has_no_metrics(host: Host, text: str | None) -> None:
    host.state.mkdir(parents=True)
    if text is not None:
        (host.state / "exec.json").write_text(text)
    assert families_of([watch.TABLE], host.context()) == []


def test_metrics_of_a_resident_program_are_those_of_its_status(host: Host) -> None:
    host.state.mkdir(parents=True)
    (host.state / "exec.json").write_text(json.dumps(WATCH))
    assert families_of([watch.TABLE], host.context()) == families(watch.TABLE.rows, WATCH)


def test_text_of_a_node_with_each_metric(full_host: MonitoredHost, golden: Golden) -> None:
    """Values that change with time are hidden, and buckets left out."""
    lines = full_host.run("metrics", "--format", "prometheus").stdout.splitlines()
    changing = re.compile(r"^(\w*_(?:seconds|seconds_total|seconds_sum|free_bytes)(?:\{.*\})?) [\d.e+-]+$")
    golden("\n".join(changing.sub(r"\1 <value>", line) for line in lines if "_bucket{" not in line))


def test_each_family_has_a_help_text_a_type_and_the_same_labels_in_each_sample(full_host: MonitoredHost) -> None:
    families = [*parse(full_host.run("metrics").stdout)]
    assert len({family.name for family in families}) == len(families) > 40
    for family in families:
        assert re.fullmatch(r"[A-Z0-9].*\.", family.documentation), family
        assert family.type in ("counter", "gauge", "histogram"), family
        assert all(one.name == f"{family.name}_total" for one in family.samples) or family.type != "counter", family
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        assert len({(*one.labels,) for one in family.samples if "le" not in one.labels}) <= 1, family


@pytest.mark.parametrize("table", self_metrics.tables())
def test_row_is_documented(table: Table) -> None:
    text = PAGE.read_text().replace("\n  ", " ")
    for row in (*table.rows, *slowdown.ROWS):
        (line,) = re.findall(rf"^- `{row.series}`.*$", text, re.MULTILINE)
        assert all(f"`{label}`" in line for label in row.labels), line


@pytest.fixture
def monitored(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path) as found:
        found.context.ledger.prepare()
        yield found


def samples(monitored: MonitoredHost, name: str) -> dict[tuple[str, ...], float]:
    (family,) = [family for family in families_of(tables(), monitored.context) if family.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples if "le" not in sample.labels}


ZEROS = {(stage, reason): 0 for stage, reasons in REASONS.items() for reason in reasons}


@pytest.mark.parametrize("reason", ["ledger", "novel"])
def test_failure_of_any_reason_is_counted(monitored: MonitoredHost, reason: str) -> None:
    monitored.context.ledger.count_call("createRuntime", 0.1, [reason])
    assert samples(monitored, "resctrl_hooks_failures") == ZEROS | {("createRuntime", reason): 1}


def test_containers_lacking_features_are_counted_by_feature(tmp_path: Path) -> None:
    classes = [{"name": "track", "memtierdconfig": "policy:\n  name: age\n"}]
    lacks = [{"memtierd": "it ended"}, {"memtierd": "it ended", "memory": "there is no such class"}, {}]
    with plain_host(tmp_path, classes=classes) as host:
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 0, ("memtierd",): 0}
        with host.context.monitor.hold(KEYS[0]) as locked:
            for number, unmet in enumerate(lacks):
                locked.add_member(str(number) * 64, {"unmet": unmet}, host.process())
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 1, ("memtierd",): 2}


def test_lack_metric_is_absent_without_enforced_features(monitored: MonitoredHost) -> None:
    assert samples(monitored, "resctrl_hooks_unmet_containers") == {}


def test_unsaved_contents_are_metrics_of_enabled_parts_while_that_lasts(tmp_path: Path) -> None:
    with plain_host(tmp_path, history={"enabled": True}) as host:
        folder = host.context.settings.state_dir
        host.context.ledger.prepare()
        Path(folder, NAME).write_text("{")
        assert read_unsaved(folder) == {}
        Unsaved(folder).note({"history": "disk full", "baselines": "disk full"})
        assert samples(host, "resctrl_hooks_unsaved") == {("baselines",): 1, ("history",): 1, ("totals",): 0}
        Unsaved(folder).note({})
        assert not Path(folder, NAME).exists()
