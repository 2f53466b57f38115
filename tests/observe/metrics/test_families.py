"""Names and samples of the metrics: each row of their tables, former names, and names of groups that are no text."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import Host, always
from golden import Golden
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, plain_host
from metric_samples import samples_of
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from observe.metrics.conftest import parse, scraped
from resctrl_hooks.core.inventory.account import Account
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.inventory.podman import podman_names
from resctrl_hooks.core.metric import Row, Table
from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.container.names import stored_names
from resctrl_hooks.core.node.names import name_text
from resctrl_hooks.observe.inventory.guard import GuardedClass, GuardedDomain, GuardStatus
from resctrl_hooks.observe.metrics import guard, self_metrics, slowdown, watch
from resctrl_hooks.observe.metrics.families import families, families_of
from resctrl_hooks.observe.metrics.former import with_former_names
from resctrl_hooks.observe.metrics.self_metrics import REASONS, tables
from resctrl_hooks.observe.node.capacity.capacity import Capacity
from resctrl_hooks.observe.node.guard.law import STATES
from resctrl_hooks.observe.node.sampler.unsaved import NAME as UNSAVED
from resctrl_hooks.observe.node.sampler.unsaved import Unsaved, read_unsaved
from resctrl_hooks.observe.recording.files import read

PAGE = Path(__file__).parents[3] / "docs/metrics.md"
WATCH = {"mode": "events", "events": 1, "moved": 2, "gone": 3, "left": 4, "failed": 5, "overruns": 6, "degraded": 7}
THROTTLED = GuardedClass(declared=100, now=60, wanted=60, floor=20, overridden=False, rate=1.0)
GUARDED = GuardedDomain(
    domain="0", l3=[0], state=STATES[0], since=1, load=0.9, estimated=False, classes={"bronze": THROTTLED}, last=None
)
GUARD = GuardStatus(
    running=True, mode="act", why="", unit="%", started=1, updated=2, actions={"cut": 4}, invalid_samples=5,
    throttled_seconds={"bronze": 6.5}, domains=[GUARDED],
)  # fmt: skip
POD = {"ratio": 1.6, "counted": {"perf": [3e9, 2e9]}, "slowedSeconds": {"memory-bandwidth": 20.0}}
LOST = {"namespace": "shop", "culpritNamespace": "batch", "seconds": 9.5}
SPEED = {**POD, "lostSeconds": {"memory-bandwidth": 7.5}}
LIMITS: dict[tuple[str, ...], float] = {("9c3d", "batch", "reports", "", "io.max", "8:0", "`limit` of root"): 1.8e9}
JUDGED = slowdown.Judged({("4f0a", "shop", "cart", ""): SPEED}, [LOST], LIMITS)


def facts_of_a_node(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the facts of a node on which every metric has a value."""
    calls, waiting = call_metrics.CallMetrics(), [Pod(key="a", state="waiting")]
    calls.add_lines(b"1700000000 createRuntime 2000 ledger -\n1700000001 reconcile 2000 - -\n")
    known = {"queued_pods": waiting, "read_vanished": {"total": 3}, "read_version": "1.0"}
    for name, value in {**known, "free_bytes": 4096, "age_of": 30}.items():
        monkeypatch.setattr(self_metrics, name, always(value))
    counts: dict[str, Any] = {"rmids": {"pods": 3}, "closids": {"classes": 2}, "free_by_class": {"gold": 3}}
    return SimpleNamespace(
        context=SimpleNamespace(settings=SimpleNamespace(state_dir="")),
        calls=calls,
        stages={name: calls.stage(name) for name in self_metrics.STAGES},
        account=Account(**counts, limits={}, owners=[]),
        waiting=waiting,
    )


def test_each_row_has_its_samples(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    """Without the buckets, and the failures that did not happen: name, values of labels, value."""
    of_a_ledger = ("resctrl_hooks_unmet_containers", "resctrl_hooks_unsaved")  # other tests have them
    tables: list[tuple[tuple[Row[Any], ...], Any]] = [
        *((watch.TABLE.rows, WATCH), (guard.ROWS, GUARD), (slowdown.ROWS, JUDGED)),
        (guard.CAPACITY, {0: Capacity(2e9, "smbios")}),
        (tuple(row for row in self_metrics.ROWS if row.name not in of_a_ledger), facts_of_a_node(monkeypatch)),
    ]
    found = [line for rows, facts in tables for line in samples_of(rows, facts)]
    golden("\n".join(line for line in found if not re.fullmatch("resctrl_hooks_failures_total .* 0", line)))


def test_metrics_of_a_resident_program_are_those_of_its_readable_status(host: Host) -> None:
    host.state.mkdir(parents=True)
    for text, expected in ((None, []), *((one, []) for one in ("", "[]", "{")), (json.dumps(WATCH), WATCH)):
        if text is not None:
            (host.state / "exec.json").write_text(text)
        found = families_of([watch.TABLE], host.context())
        assert found == (families(watch.TABLE.rows, expected) if expected else [])


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


def test_failures_have_reasons_and_containers_the_feature_they_lack(tmp_path: Path, monitored: MonitoredHost) -> None:
    assert samples(monitored, "resctrl_hooks_unmet_containers") == {}, "no feature is enforced"
    for reason in ("ledger", "novel"):
        monitored.context.ledger.count_call("createRuntime", 0.1, [reason])
    counted = {("createRuntime", reason): 1 for reason in ("ledger", "novel")}
    assert samples(monitored, "resctrl_hooks_failures") == ZEROS | counted
    classes = [{"name": "track", "memtierdconfig": "policy:\n  name: age\n"}]
    lacks = [{"memtierd": "it ended"}, {"memtierd": "it ended", "memory": "there is no such class"}, {}]
    with plain_host(tmp_path / "enforced", classes=classes) as host:
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 0, ("memtierd",): 0}
        with host.context.monitor.hold(KEYS[0]) as locked:
            for number, unmet in enumerate(lacks):
                locked.add_member(str(number) * 64, {"unmet": unmet}, host.process())
        assert samples(host, "resctrl_hooks_unmet_containers") == {("memory",): 1, ("memtierd",): 2}


def test_unsaved_contents_are_metrics_of_enabled_parts_while_that_lasts(tmp_path: Path) -> None:
    with plain_host(tmp_path, history={"enabled": True}) as host:
        folder = host.context.settings.state_dir
        host.context.ledger.prepare()
        Path(folder, UNSAVED).write_text("{")
        assert read_unsaved(folder) == {}
        Unsaved(folder).note({"history": "disk full", "baselines": "disk full"})
        assert samples(host, "resctrl_hooks_unsaved") == {("baselines",): 1, ("history",): 1, ("totals",): 0}
        Unsaved(folder).note({})
        assert not Path(folder, UNSAVED).exists()


SECONDS, FORMER = "resctrl_counted_seconds", "resctrl_counter_seconds"
FORMATS = [(generate_latest, parse_classic), (generate_openmetrics, parse)]


def registry_of(*families: Metric) -> CollectorRegistry:
    made, collector = CollectorRegistry(), Mock(collect=lambda: families, describe=None)
    made.register(collector)
    return made


@pytest.mark.parametrize("write, read", FORMATS)
@pytest.mark.parametrize("others", [0, 1])
def test_family_has_equal_samples_under_its_former_name(
    write: Callable[[CollectorRegistry], bytes], read: Callable[[str], list[Metric]], others: int
) -> None:
    pods = ("web", SECONDS, f"\n{SECONDS}_total", f'# HELP {SECONDS} "x"\\', "ä")  # names by people are not changed
    counted = CounterMetricFamily(SECONDS, "Time that a counter has counted.", labels=["pod"])
    for at, pod in enumerate(pods):
        counted.add_metric([pod], at + 0.5)
    after = [GaugeMetricFamily("resctrl_scrape_ok", f"1 if {SECONDS} is.", 1)] * others
    found = {one.name: one for one in read(with_former_names(write(registry_of(counted, *after))).decode())}
    assert [*found] == [SECONDS, FORMER, *(one.name for one in after)]
    new, former = found[SECONDS], found[FORMER]
    assert [sample.labels["pod"] for sample in new.samples] == [*pods]
    assert former.samples == [sample._replace(name=f"{FORMER}_total") for sample in new.samples]
    assert (former.type, former.documentation) == ("counter", f"Former name of {SECONDS}_total.")
    unchanged = write(registry_of(*after))
    assert with_former_names(unchanged) == unchanged


TEXTS = {
    b"\xff": r"\xff", b"\xfe": r"\xfe", rb"\xff": r"\\xff", b"\xed\xa0\x80": r"\xed\xa0\x80", b"a\nb": r"a\x0ab",
    b"\x1b[2J": r"\x1b[2J", b"half\xc3": r"half\xc3", "café".encode(): "café", "a\u2028b".encode(): r"a\xe2\x80\xa8b",
}  # fmt: skip


@pytest.fixture
def host_of_names(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a pod beside groups and classes with all of these names."""
    with plain_host(tmp_path, "info") as found:
        say(found.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        found.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=1_000)
        for name in map(os.fsdecode, TEXTS):
            for folder in (f"mon_groups/{name}", name, f"{name}/mon_groups/{name}"):
                say(found.resctrl / folder, llc_occupancy=1, mbm_total_bytes=10)
                (found.resctrl / folder / "tasks").write_text("")
        yield found


def test_each_output_has_each_group_whose_name_is_no_text(host_of_names: MonitoredHost, tmp_path: Path) -> None:
    host, wanted = host_of_names, {*TEXTS.values()}
    assert [name_text(os.fsdecode(name)) for name in TEXTS] == [*TEXTS.values()]
    found = [one.labels for one in scraped(host) if one.name.startswith("resctrl_foreign_")]
    assert {one["group"] for one in found if not one["rdt_class"]} == wanted
    assert host.run("metrics", "--output", str(tmp_path / "node.prom")).exit_code == 0
    assert 'group="\\\\xff"' in (tmp_path / "node.prom").read_text("utf-8")
    assert {group["name"] for group in host.json("list")["foreignGroups"] if not group["rdtClass"]} == wanted
    for name in ("run.csv", "run.parquet"):
        file = str(tmp_path / name)
        assert host.run("record", "--for", "0.3s", "--interval", "0.1s", "-o", file).exit_code == 0
        rows = [*read(file)]
        assert {row["key"] for row in rows if row["kind"] == "group" and not row["rdt_class"]} == wanted
        assert host.run("report", file, "-o", str(tmp_path / "page.html")).exit_code == 0


def test_names_from_podman_are_text(tmp_path: Path) -> None:
    id_ = "a" * 64
    (tmp_path / "containers.json").write_text(json.dumps([{"id": id_, "names": ["web\udcff"]}]))
    assert stored_names({id_: f"{tmp_path}/{id_}/userdata"}) == {id_: "web?"}
    assert podman_names(("printf", r"id\tweb\377\t\t\n")).containers == {"id": "web\ufffd"}
