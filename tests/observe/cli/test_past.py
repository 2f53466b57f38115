"""Commands that show the past: list, show, diagnose and top with --at, report --since, history; counted times."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from golden import Golden
from hosts.counter_tree import say
from hosts.faults import failing
from hosts.monitored import KEYS, MonitoredHost, plain_host
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

STARTED = 3600


class Past:
    """A node whose history began an hour ago: samples every 10 seconds, with a gap of ten minutes in the middle."""

    def __init__(self, host: MonitoredHost, file: Path) -> None:
        self.host = host
        self.file = file
        self.first = int(time.time()) - STARTED
        host.configure(history={"enabled": True, "file": str(file)})
        claim(str(file))
        store = Store(str(file), write=True)
        for second in range(0, STARTED - 10, 10):
            if not 1200 <= second < 1800:
                pods = {"web": 1000.0, "batch": 5000.0} if second < 3000 else {"web": 1000.0}
                store.add(self.moved(sample(second, pods, occupancy={"web": second})))
        store.close()

    def moved(self, one: Sample) -> Sample:
        """Return a sample of the fixture at a time after the beginning of this history."""
        return Sample(self.first * 1000 + int(one.uptime - 1000) * 1000, one.uptime, one.boot, one.host, one.rows)

    def at(self, second: float) -> str:
        """Return a second of the history as an option's value."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.first + second))

    def top(self, second: float, *more: str) -> dict[str, Any]:
        result = self.host.run("top", "--at", self.at(second), "-o", "json", *more)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def run(self, *words: str) -> Result:
        return self.host.run(*words)


@contextmanager
def past_node(root: Path) -> Iterator[Past]:
    sizes = {"info/L3/cbm_mask": "fff", "schemata": "L3:0=fff", "size": f"L3:0={32 << 20}"}
    with plain_host(root, "info/L3") as host:
        for name, text in sizes.items():
            (host.resctrl / name).write_text(f"{text}\n")
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        yield Past(host, root / "var/history.sqlite")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """For tests that change nothing."""
    with past_node(tmp_path_factory.mktemp("past")) as found:
        yield found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Past]:
    with past_node(tmp_path) as found:
        yield found


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
def test_undecodable_samples_are_left_out_with_one_line(own: Past, tmp_path: Path, damaged: str, code: int) -> None:
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


def test_status_has_ends_size_and_the_service_if_samples_are_late(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    document = past.host.json("history", "status")
    validate(document, schemas()["history-status"])
    (found,) = document["items"]
    assert (found["file"], found["first"], found["limitBytes"]) == (str(past.file), past.first, 256 << 20)
    assert found["last"] == past.first + STARTED - 20
    first, second = past.run("history", "status").stdout.splitlines()[:2]
    assert first.startswith(f"{past.file}: ")
    assert first.endswith(" of 256 MiB")
    assert second == f"samples from {clock(found['first'])} to {clock(found['last'])}"
    interval = section(past.host.context.settings)["interval"]
    for intervals, is_late in ((2.9, False), (3.1, True)):
        monkeypatch.setattr(time, "time", lambda late=intervals: found["last"] + late * interval)
        assert ("check resctrl-hooks-guard.service" in past.run("history", "status").output) is is_late


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


class Clocked:
    """A node whose clock stands still, with a history that another process may begin again."""

    def __init__(self, host: MonitoredHost, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host, self.file = host, file
        self.uptime, self.began = 5000.0, int(time.time()) - 7200 - 5000
        monkeypatch.setattr(time, "clock_gettime", lambda _: self.uptime)
        host.configure(history={"enabled": True, "file": str(file)})
        claim(str(file))

    def wait(self, seconds: float, **counters: object) -> None:
        """Let time pass, and set the counters of the pod's group at its end."""
        self.uptime += seconds
        say(self.host.resctrl / "mon_groups" / KEYS[0], **counters)

    def read(self) -> None:
        """Read the counters as a scrape of the metrics does."""
        self.host.context.monitor.read(KEYS[0])

    def store(self, rows: list[Any]) -> None:
        store = Store(str(self.file), write=True)
        store.add(Sample((self.began + int(self.uptime)) * 1000, self.uptime, "b0", "node-1", rows))
        store.close()

    def show(self) -> tuple[dict[str, tuple[Any, Any]], Any, str]:
        """Return each counter of the pod at the last sample, its value and its seconds; the rates; the text."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began + self.uptime + 1))
        (pod,) = self.host.json("show", "web-0", "--at", at)["items"]
        counters = {one["counter"]: (one["value"], one["seconds"]) for one in pod["counters"]}
        return counters, pod["rates"], self.host.run("show", "web-0", "--at", at).stdout


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocked]:
    with plain_host(tmp_path, "info") as host:
        found = Clocked(host, tmp_path / "var/history.sqlite", monkeypatch)
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000, mbm_local_bytes=5_000)
        host.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=0, mbm_local_bytes="Unassigned")
        found.read()
        yield found


def test_counted_time_of_pod_before_the_recording_is_that_of_its_total(clocked: Clocked) -> None:
    sampler = Sampler(clocked.host.context)
    for seconds, total in ((3600.0, 36_000), (19.0, 36_190)):
        clocked.wait(seconds, mbm_total_bytes=total)
        clocked.store(sampler.sample())
    counters, rates, text = clocked.show()
    assert (counters["mbm_total_bytes"], rates["memoryBandwidthBytesPerSecond"]) == ((36_190, 3619.0), 10)
    (line,) = (one for one in text.splitlines() if "mbm_total" in one)
    assert line.split()[-3:] == ["35.3", "KiB", "1h19s"]


def test_counters_with_own_times_have_their_own_counted_time(clocked: Clocked) -> None:
    clocked.wait(100.0, mbm_total_bytes=1000)
    clocked.read()
    clocked.wait(50.0, mbm_total_bytes=1500, mbm_local_bytes=0)
    clocked.read()
    sampler = Sampler(clocked.host.context)
    for seconds, total, local in ((20.0, 1700, 200), (10.0, 1800, 300)):
        clocked.wait(seconds, mbm_total_bytes=total, mbm_local_bytes=local)
        clocked.store(sampler.sample())
    found, *_ = clocked.show()
    assert (found["mbm_total_bytes"], found["mbm_local_bytes"]) == ((1800, 180.0), (300, 30.0))
    assert "earlier_mbm_local_bytes_counted_seconds" in sampler.columns


def test_counted_time_of_moved_pod_is_that_of_its_classes(clocked: Clocked) -> None:
    (clocked.host.resctrl / "gold/mon_groups").mkdir(parents=True)
    say(clocked.host.resctrl / "gold", llc_occupancy=0, mbm_total_bytes=0)
    clocked.wait(100.0, mbm_total_bytes=1000)
    clocked.read()
    clocked.host.group(0, "web-0", rdt_class="gold", llc_occupancy=10, mbm_total_bytes=0)
    clocked.uptime += 50
    clocked.store(Sampler(clocked.host.context).sample())
    live = {one["counter"]: one["seconds"] for one in clocked.host.json("show", "web-0")["items"][0]["totals"]}
    assert clocked.show()[0]["mbm_total_bytes"][1] == live["mbm_total_bytes"]


def test_counted_time_of_sample_of_an_earlier_version_is_unknown(clocked: Clocked) -> None:
    old = [{**row} for row in sample(600, {"web-0": 1000.0}).rows]
    for row in old:
        row.pop("earlier_counted_seconds", None)
    clocked.uptime += 600
    clocked.store(old)
    counters, _, text = clocked.show()
    assert counters["mbm_total_bytes"] == (600_000, None)
    (line,) = (one for one in text.splitlines() if "mbm_total" in one)
    assert line.split()[-1] == "-"
