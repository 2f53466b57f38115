"""Commands that show the past: list, show, diagnose and top with --at, report --since, history; counted times."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.counter_tree import say
from hosts.faults import failing
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample
from jsonschema import validate

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.inventory import pod_names
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.inventory.podman import PodmanNames
from resctrl_hooks.observe.cli.top_past import PastSamples
from resctrl_hooks.observe.inventory.usage import usage
from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.rows import LIMIT, POD, RATIO, SLOWED, UNLIMIT, Sampler
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.section import section
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.past.moments import PastUsers, pair_of
from resctrl_hooks.observe.recording.files import read

from .conftest import STARTED, Past, past_node

JUDGED = 3595
"""A second after the last sample of `judged`, at which the pods were judged."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """Return a history with one more sample, in which web was slowed by batch."""
    with past_node(tmp_path_factory.mktemp("judged")) as past:
        store = Store(str(past.file), write=True)
        labels = {"kind": SLOWED, "key": "key-web", "namespace": "shop", "pod": "web", "domain": "mon_L3_00"}
        causes = {"event": "memory-bandwidth, l3-cache", "culprits": "key-batch"}
        moved = past.moved(sample(JUDGED - 5, {"web": 1000.0, "batch": 5000.0}))
        moved.rows = [*moved.rows, {**labels, **causes, RATIO: 1.62}]
        store.add(moved)
        store.close()
        yield past


def called(past: Past, words: str) -> str:
    """Return a command and its output; AT+605 is a second of the history, and times are those of its seconds."""

    def second(found: re.Match[str]) -> str:
        return past.at(int(found[1]))

    result = past.run(*re.sub(r"AT([+-]\d+)", second, words.replace(" ", "\0")).split("\0"))
    text = result.output
    for number in range(-70, STARTED + 10, 5):
        moment = past.first + number
        for form in (clock(moment), time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment))):
            text = text.replace(form, f"AT+{number}")
    text = re.sub(r"\(\w+ ago\)", "(<age> ago)", text.replace(str(past.file), "<file>"))
    return f"$ {words}\n{text}" + (f"exit code {result.exit_code}\n" if result.exit_code else "")


COMMANDS = [
    *(
        "list --at AT+605",
        "list --at AT+2995 -o name",
        "list --at AT+3015 -o name",
        "list --at AT+2995 -n other -o name",
    ),
    *("show web --at AT+605", "show web --at AT+1805", "show shop/web --at AT+605 -o csv", "show batch --at AT+3015"),
    *("diagnose --at AT+605", "diagnose web --at AT+605", "top --at AT+605 --once", "top --at AT+1805 -o csv"),
    *("top web --at AT+605 --once", "top --at AT+605 -n other -o name", "top --at AT+605 --by class -o csv"),
]
JUDGEMENTS = ["diagnose --at AT+3595", "diagnose batch --at AT+3595", "list --at AT+3595", "top --at AT+3595 -o csv"]
ERRORS = [
    *("top --at AT-60", "top --at AT+1500", "list web --at AT+1500", "show web --at AT+1500"),
    *("report --since AT+1300 --until AT+1400", "report", "report --until now", "top --at soon"),
    *("top --at AT+605 -l app=web", "list --at AT+605 --demand", "list --at AT+605 -w", "show web --at AT+605 -w"),
    *("list --at AT+605 -l app=web", "diagnose web --at AT+605 --experiment", "diagnose --at AT+605 --for 30s"),
]


def test_outputs(past: Past, judged: Past, golden: Golden) -> None:
    golden("\n".join(called(past, words) for words in COMMANDS), "commands")
    golden("\n".join(called(judged, words) for words in JUDGEMENTS), "judged")
    golden("\n".join(called(past, words) for words in ERRORS), "errors")


@pytest.mark.parametrize("command", ["list", "show shop/web", "diagnose"])
def test_documents_follow_the_schema_and_have_the_time_and_the_host(judged: Past, command: str) -> None:
    for second in (605, 1805, JUDGED):
        result = judged.run(*command.split(), "--at", judged.at(second), "-o", "json")
        document = json.loads(result.stdout)
        validate(document, schemas()["past"])
        shown = judged.top(second)
        assert (document["host"], document["time"]) == (shown["host"], shown["time"]) == ("node-1", shown["time"])
        assert shown["time"] == f"{judged.at(second - 5)[:-1]}.000Z"


def test_pods_of_a_time_have_their_values_and_rates(judged: Past) -> None:
    def items(second: float, *words: str) -> dict[str, Any]:
        return {one["name"]: one for one in judged.top(second, *words)["items"]}

    rate = "memoryBandwidthBytesPerSecond"
    lines = items(605)
    rates = {"shop/web": 1000, "shop/batch": 5000, "(ungrouped)": 7, "TOTAL": 6007}
    assert {name: line[rate] for name, line in lines.items()} == rates
    assert (lines["shop/web"]["llcOccupancyBytes"], lines["TOTAL"]["llcOccupancyBytes"]) == (600, 2100)
    for words in ("web", "shop/web", "key-web"):
        assert {name: one[rate] for name, one in items(605, words).items()} == {"shop/web": 1000, "TOTAL": 1000}
    web = items(1805)["shop/web"]
    assert (web[rate], web["llcOccupancyBytes"], items(1815)["shop/web"][rate]) == (None, 1800, 1000), "after a gap"
    (web,) = json.loads(judged.run("show", "web", "--at", judged.at(605), "--json").stdout)["items"]
    values = {one["counter"]: (one["value"], one["seconds"]) for one in web["counters"]}
    assert values == {"llc_occupancy": (600, None), "mbm_total_bytes": (600_000, 600.0)}
    assert (web["rates"][rate], web["rates"]["seconds"]) == (1000, 10)
    assert {name: line["slowdown"] for name, line in items(JUDGED).items()}["shop/web"] == 1.62


def test_limits_of_a_time_are_marked(own: Past) -> None:
    store = Store(str(own.file), write=True)
    text = "cpu.weight 100 -> 10 until the pod's end by `limit` of root"
    for second, kind in ((3582, LIMIT), (3585, POD), (3588, UNLIMIT)):
        one = own.moved(sample(second, {"web": 1000.0, "batch": 5000.0}))
        events = [] if kind == POD else [{"kind": kind, "key": "key-web", "domain": "", "event": text}]
        one.rows = [*one.rows, *events]
        store.add(one)
    store.close()
    shown = [{one["name"]: one["limited"] for one in own.top(second)["items"]} for second in (3581, 3583, 3586, 3589)]
    assert [bool(one["shop/web"]) for one in shown] == [False, True, True, False]
    assert not any(one.get("shop/batch") for one in shown)


def test_node_without_a_readable_history_says_how_to_enable_it(tmp_path: Path, past: Past) -> None:
    with plain_host(tmp_path, "info") as host:
        host.configure(history={"file": str(tmp_path / "none.sqlite")})
        result = host.run("top", "--at", "1m ago")
    assert (result.exit_code, "this node has no history" in result.output) == (1, True)
    assert "install --history" in result.output
    with failing(os, "stat", PermissionError(13, "Permission denied"), when=lambda path, **_: path == str(past.file)):
        result = past.run("top", "--at", past.at(605))
    assert (result.exit_code, "permission denied; run it as root" in result.output) == (1, True)


def test_damaged_sample_gives_way_to_the_one_before_it_with_one_line(own: Past) -> None:
    when = (own.first + 600) * 1000
    with sqlite3.connect(own.file) as file:
        file.execute("UPDATE sample SET data = x'00' WHERE time = ?", (when,))
    for words in (["list"], ["show", "web"], ["diagnose"]):
        result = own.run(*words, "--at", own.at(605))
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"PAST {clock(when / 1000 - 10)}"), words
        assert result.stderr.count(f"samples left out that cannot be decoded: 1; the first: {own.file}: ") == 1
    assert own.top(605)["time"] == f"{own.at(590)[:-1]}.000Z"
    (web,) = json.loads(own.run("show", "web", "--at", own.at(615), "--json").stdout)["items"]
    assert web["rates"]["seconds"] == 20


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_export_is_a_recording(past: Past, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = past.run("history", "export", "--since", past.at(600), "--until", past.at(700), "-o", str(path))
    assert result.exit_code == 0, result.output
    rows = [*read(str(path))]
    assert len({row["time"] for row in rows}) == 11
    assert result.stderr == f"resctrl-hook: 11 samples in {path}; draw them: resctrl-hook report {path}\n"
    web = [row for row in rows if row.get("pod") == "web"]
    assert [row["mbm_total_bytes"] for row in web] == [1000 * second for second in range(600, 701, 10)]
    again = past.run("history", "export", "--since", past.at(600), "-o", str(path))
    assert (again.exit_code, "exists; choose another name or use --force" in again.output) == (1, True)


@pytest.mark.parametrize("damaged, code", [("id % 100 = 0", 0), ("1", 1)])
def test_undecodable_samples_are_left_out_of_reports_with_one_line(
    own: Past, tmp_path: Path, damaged: str, code: int
) -> None:
    with sqlite3.connect(own.file) as file:
        file.execute(f"UPDATE sample SET data = x'00' WHERE {damaged}")
    span, energy = ("--since", own.at(0), "--until", own.at(3000), "-o"), str(tmp_path / "energy.csv")
    for words, output in (("history export", "a.csv"), ("report", "a.html")):
        result = own.run(*words.split(), *span, str(tmp_path / output))
        assert result.exit_code in (0, code), result.output
        assert result.output.count("samples left out that cannot be decoded: ") == 1
    assert own.run("report", *span, str(tmp_path / "b.html"), "--energy-csv", energy).exit_code in (0, code)
    if not code:
        assert "shop/batch" in (tmp_path / "a.html").read_text()
        assert Path(energy).read_text().splitlines()
        result = own.run("report", *span, str(tmp_path / "b.html"), "--energy-csv", f"{tmp_path}/none/e.csv")
        assert "cannot write" in result.output
    else:
        result = own.run("list", "--at", own.at(605))
        assert (result.exit_code, "samples left out that cannot be decoded: " in result.stderr) == (1, True)


def test_status_has_the_ends_and_the_size(past: Past) -> None:
    document = past.host.json("history", "status")
    validate(document, schemas()["history-status"])
    (found,) = document["items"]
    assert (found["file"], found["first"], found["limitBytes"]) == (str(past.file), past.first, 256 << 20)
    assert found["last"] == past.first + STARTED - 20
    first, second = past.run("history", "status").stdout.splitlines()[:2]
    assert first.startswith(f"{past.file}: ")
    assert first.endswith(" of 256 MiB")
    assert second == f"samples from {clock(found['first'])} to {clock(found['last'])}"


@pytest.mark.parametrize("intervals, late", [(2.9, False), (3.1, True)])
def test_status_names_the_service_after_three_intervals_without_a_sample(
    past: Past, monkeypatch: pytest.MonkeyPatch, intervals: float, late: bool
) -> None:
    interval = section(past.host.context.settings)["interval"]
    monkeypatch.setattr(time, "time", lambda: past.first + STARTED - 20 + intervals * interval)
    assert ("check resctrl-hooks-guard.service" in past.run("history", "status").output) is late


def test_keys_go_through_the_past_and_back_to_the_present(past: Past) -> None:
    past.host.context.settings.sections["history"] = {"file": str(past.file)}
    samples = PastSamples(past.host.context, ListOptions(), None, None)

    def second() -> float:
        assert samples._found is not None
        return samples._found.entry.time / 1000 - past.first

    assert samples.pressed("left") is not None
    assert second() == STARTED - 20, "the first key shows the last sample"
    samples.at(past.first + 2500)
    keys = {"left": 2490, "right": 2500, "shift-left": 2400, "shift-right": 2500, "[": 2440, "]": 2500, "{": 0}
    for key, expected in keys.items():
        assert samples.pressed(key) is not None
        assert second() == expected, key
    samples.at(past.first + 1800)
    samples.pressed("left")
    assert second() == 1190, "a gap is one step"
    samples.at(past.first + STARTED - 20)
    assert samples.pressed("right") is None, "after the last sample is the present"


def test_pod_of_podman_has_its_name_while_it_exists(own: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    exists, ended = "ab" * 32, "cd" * 32
    one = sample(0, {exists: 1, ended: 1})
    rows = [
        {**row, "key": str(row["pod"]), "namespace": "", "pod": str(row["pod"])[:12]}
        for row in one.rows
        if row["kind"] == "pod"
    ]
    with own.host.context.monitor.hold(exists) as locked:
        locked.add_member("ef" * 32, {"runtime": "podman", "container": ""}, own.host.process())
    monkeypatch.setattr(pod_names, "podman_names", lambda: PodmanNames({}, {exists: "kitchen"}))
    made = Sample(one.time, one.uptime, one.boot, one.host, rows)
    _, now = pair_of(None, made)
    users = PastUsers(made, pod_names.PodNames(own.host.context))
    assert {line.name for line in usage(now, now, users) if line.kind == "pod"} == {"kitchen", ended[:12]}


UPTIME = 5000.0
EARLIER = "earlier_counted_seconds"


class Node:
    """A clocked whose clock stands still, with a history that another process may begin again."""

    def __init__(self, host: MonitoredHost, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = host
        self.file = file
        self.uptime = UPTIME
        self.began = int(time.time()) - 7200
        monkeypatch.setattr(time, "clock_gettime", lambda _: self.uptime)
        host.configure(history={"enabled": True, "file": str(file)})
        claim(str(file))
        self.samples: list[Sample] = []

    def wait(self, seconds: float, **counters: object) -> None:
        """Let time pass, and set the counters of the pod's group at its end."""
        self.uptime += seconds
        say(self.host.resctrl / "mon_groups" / self.key, **counters)

    @property
    def key(self) -> str:
        return next(iter(self.host.context.ledger.keys()))

    def read(self) -> None:
        """Read the counters as a scrape of the metrics does."""
        self.host.context.monitor.read(self.key)

    def sample(self, sampler: Sampler) -> None:
        now = (self.began + int(self.uptime - UPTIME)) * 1000
        self.samples.append(Sample(now, self.uptime, "b0", "node-1", sampler.sample()))

    def shown(self) -> dict[str, tuple[Any, Any]]:
        """Return each counter of the pod at the last sample: its value and its seconds, in JSON."""
        store = Store(str(self.file), write=True)
        for one in self.samples:
            store.add(one)
        self.samples = []
        store.close()
        result = self.host.run("show", "web-0", "--at", self.when, "-o", "json")
        assert result.exit_code == 0, result.output
        (pod,) = json.loads(result.stdout)["items"]
        return {one["counter"]: (one["value"], one["seconds"]) for one in pod["counters"]}

    def text(self) -> list[str]:
        return self.host.run("show", "web-0", "--at", self.when).stdout.splitlines()

    @property
    def when(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began + self.uptime - UPTIME + 1))


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    with plain_host(tmp_path, "info") as host:
        found = Node(host, tmp_path / "var/history.sqlite", monkeypatch)
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000, mbm_local_bytes=5_000)
        host.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=0, mbm_local_bytes="Unassigned")
        found.read()
        yield found


def test_counted_time_of_pod_before_the_recording_is_that_of_its_total(clocked: Node) -> None:
    clocked.wait(3600.0, mbm_total_bytes=36_000)
    sampler = Sampler(clocked.host.context)
    clocked.sample(sampler)
    clocked.wait(19.0, mbm_total_bytes=36_190)
    clocked.sample(sampler)
    assert clocked.shown()["mbm_total_bytes"] == (36_190, 3619.0)
    (line,) = (one for one in clocked.text() if "mbm_total" in one)
    assert line.split()[-3:] == ["35.3", "KiB", "1h19s"]
    rates = json.loads(clocked.host.run("show", "web-0", "--at", clocked.when, "--json").stdout)["items"][0]["rates"]
    assert rates["memoryBandwidthBytesPerSecond"] == 10


def test_counters_with_own_times_have_their_own_counted_time(clocked: Node) -> None:
    clocked.wait(100.0, mbm_total_bytes=1000)
    clocked.read()
    clocked.wait(50.0, mbm_total_bytes=1500, mbm_local_bytes=0)
    clocked.read()
    clocked.wait(20.0, mbm_total_bytes=1700, mbm_local_bytes=200)
    sampler = Sampler(clocked.host.context)
    clocked.sample(sampler)
    clocked.wait(10.0, mbm_total_bytes=1800, mbm_local_bytes=300)
    clocked.sample(sampler)
    found = clocked.shown()
    assert found["mbm_total_bytes"] == (1800, 180.0)
    assert found["mbm_local_bytes"] == (300, 30.0)
    assert "earlier_mbm_local_bytes_counted_seconds" in sampler.columns


def test_counted_time_of_moved_pod_is_that_of_its_classes(clocked: Node) -> None:
    (clocked.host.resctrl / "gold/mon_groups").mkdir(parents=True)
    say(clocked.host.resctrl / "gold", llc_occupancy=0, mbm_total_bytes=0)
    clocked.wait(100.0, mbm_total_bytes=1000)
    clocked.read()
    clocked.host.group(0, "web-0", rdt_class="gold", llc_occupancy=10, mbm_total_bytes=0)
    clocked.uptime += 50
    sampler = Sampler(clocked.host.context)
    clocked.sample(sampler)
    live = {one["counter"]: one["seconds"] for one in clocked.host.json("show", "web-0")["items"][0]["totals"]}
    assert clocked.shown()["mbm_total_bytes"][1] == live["mbm_total_bytes"]


def test_counted_time_of_sample_of_an_earlier_version_is_unknown(clocked: Node) -> None:
    old = sample(600, {"web-0": 1000.0})
    rows = [{name: value for name, value in row.items() if name != EARLIER} for row in old.rows]
    clocked.uptime += 600
    clocked.samples = [Sample((clocked.began + 600) * 1000, clocked.uptime, "b0", "node-1", rows)]
    assert clocked.shown()["mbm_total_bytes"] == (600_000, None)
    (line,) = (one for one in clocked.text() if "mbm_total" in one)
    assert line.split()[-1] == "-"
