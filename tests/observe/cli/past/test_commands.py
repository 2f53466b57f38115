"""Commands that show the past: `top --at`, `report --since`, `history`, from a history of known counters."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import failing
from hosts.monitored import plain_host
from hosts.past import sample
from jsonschema import validate

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.inventory import pod_names
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.inventory.podman import PodmanNames
from resctrl_hooks.observe.cli.top_live import _Shown
from resctrl_hooks.observe.cli.top_past import PastSamples
from resctrl_hooks.observe.cli.top_samples import LiveSamples
from resctrl_hooks.observe.cli.top_screen import Screen
from resctrl_hooks.observe.inventory.usage import usage
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.section import section
from resctrl_hooks.observe.past.moments import PastUsers, pair_of
from resctrl_hooks.observe.recording.files import read

from .conftest import STARTED, Past


def items(found: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one for one in found["items"]}


def test_top_shows_the_rates_of_that_time(past: Past) -> None:
    found = past.top(605)
    lines = items(found)
    assert (found["seconds"], found["host"]) == (10, "node-1")
    assert found["time"] == f"{past.at(600)[:-1]}.000Z"
    rate = "memoryBandwidthBytesPerSecond"
    assert {name: line[rate] for name, line in lines.items()} == {
        "shop/web": 1000,
        "shop/batch": 5000,
        "(ungrouped)": 7,
        "TOTAL": 6007,
    }
    assert lines["shop/web"]["llcOccupancyBytes"] == 600
    assert lines["TOTAL"]["llcOccupancyBytes"] == 600 + 1000 + 500
    assert lines["shop/web"]["rdtClass"] == ""


def test_options_of_the_present_select_in_the_past(past: Past) -> None:
    assert [*items(past.top(605, "-n", "other"))] == ["TOTAL"]
    assert [*items(past.top(605, "--by", "class"))] == ["/", "(ungrouped)", "TOTAL"]


@pytest.mark.parametrize("words", [["web"], ["shop/web"], ["key-web"]])
def test_total_of_selected_pods_is_theirs_and_the_first_line_has_the_nodes(past: Past, words: list[str]) -> None:
    assert {name: one["memoryBandwidthBytesPerSecond"] for name, one in items(past.top(605, *words)).items()} == {
        "shop/web": 1000,
        "TOTAL": 1000,
    }
    first = past.run("top", *words, "--at", past.at(605), "--once").stdout.splitlines()[0]
    assert "node-1  6.01 kB/s" in first


def test_first_line_says_that_it_is_the_past(past: Past) -> None:
    first = past.run("top", "--at", past.at(605), "--once").stdout.splitlines()[0]
    assert first.startswith("PAST ")
    assert "ago)  node-1  6.01 kB/s" in first


def test_first_sample_after_a_gap_has_no_rates(past: Past) -> None:
    web = items(past.top(1805))["shop/web"]
    assert (web["memoryBandwidthBytesPerSecond"], web["llcOccupancyBytes"]) == (None, 1800)
    assert items(past.top(1815))["shop/web"]["memoryBandwidthBytesPerSecond"] == 1000


def test_node_without_a_history_says_how_to_enable_it(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info") as host:
        host.configure(history={"file": str(tmp_path / "none.sqlite")})
        result = host.run("top", "--at", "1m ago")
    assert result.exit_code == 1
    assert "this node has no history" in result.output
    assert "install --history" in result.output


def test_file_that_only_root_can_read_says_so(past: Past) -> None:
    with failing(os, "stat", PermissionError(13, "Permission denied"), when=lambda path, **_: path == str(past.file)):
        result = past.run("top", "--at", past.at(605))
    assert (result.exit_code, "permission denied; run it as root" in result.output) == (1, True)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_export_is_a_recording(past: Past, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = past.run("history", "export", "--since", past.at(600), "--until", past.at(700), "-o", str(path))
    assert result.exit_code == 0, result.output
    rows = read(str(path))
    assert len({row["time"] for row in rows}) == 11
    assert result.stderr == f"resctrl-hook: 11 samples in {path}; draw them: resctrl-hook report {path}\n"
    web = [row for row in rows if row.get("pod") == "web"]
    assert [row["mbm_total_bytes"] for row in web] == [1000 * second for second in range(600, 701, 10)]
    again = past.run("history", "export", "--since", past.at(600), "-o", str(path))
    assert (again.exit_code, "exists; choose another name or use --force" in again.output) == (1, True)


@pytest.mark.parametrize("damaged, code", [("id % 100 = 0", 0), ("1", 1)])
def test_undecodable_samples_are_left_out_with_one_line(past: Past, tmp_path: Path, damaged: str, code: int) -> None:
    with sqlite3.connect(past.file) as file:
        file.execute(f"UPDATE sample SET data = x'00' WHERE {damaged}")
    for words, output in ((["history", "export"], "a.csv"), (["report"], "a.html")):
        result = past.run(*words, "--since", past.at(0), "--until", past.at(3000), "-o", str(tmp_path / output))
        assert result.exit_code in (0, code), result.output
        assert result.output.count("samples left out that cannot be decoded: ") == 1


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


def test_domain_key_acts_on_the_present_again_after_the_past(past: Past) -> None:
    context = past.host.context
    context.settings.sections["history"] = {"file": str(past.file)}
    samples = LiveSamples(context, ListOptions())
    shown = _Shown(Screen(samples.first()), samples, lambda: PastSamples(context, ListOptions(), None, None))
    shown.at(past.first + 605)
    assert shown.scenes is not samples.scenes
    shown.leave()
    assert shown.scenes is samples.scenes


def test_keys_go_through_the_past_and_back_to_the_present(past: Past) -> None:
    past.host.context.settings.sections["history"] = {"file": str(past.file)}
    samples = PastSamples(past.host.context, ListOptions(), None, None)

    def second() -> float:
        assert samples._found is not None
        return samples._found.entry.time / 1000 - past.first

    assert samples.pressed("left") is not None
    assert second() == STARTED - 20, "the first key shows the last sample"
    samples.at(past.first + 2500)
    for key, expected in (
        ("left", 2490),
        ("right", 2500),
        ("shift-left", 2400),
        ("shift-right", 2500),
        ("[", 2440),
        ("]", 2500),
        ("{", 0),
    ):
        assert samples.pressed(key) is not None
        assert second() == expected, key
    samples.at(past.first + 1800)
    samples.pressed("left")
    assert second() == 1190, "a gap is one step"
    samples.at(past.first + STARTED - 20)
    assert samples.pressed("right") is None, "after the last sample is the present"


def test_pod_of_podman_has_its_name_while_it_exists(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    exists, ended = "ab" * 32, "cd" * 32
    one = sample(0, {"x": 1, "y": 1})
    labels = {"key-x": exists, "key-y": ended}
    rows = [
        {**row, "key": labels[str(row["key"])], "namespace": "", "pod": labels[str(row["key"])][:12]}
        for row in one.rows
        if row["kind"] == "pod"
    ]
    with past.host.context.monitor.hold(exists) as locked:
        locked.add_member("ef" * 32, {"runtime": "podman", "container": ""}, past.host.process())
    answer = PodmanNames({}, {exists: "kitchen"})
    monkeypatch.setattr(pod_names, "podman_names", lambda: answer)
    made = Sample(one.time, one.uptime, one.boot, one.host, rows)
    _, now = pair_of(None, made)
    users = PastUsers(made, pod_names.PodNames(past.host.context))
    names = {line.name for line in usage(now, now, users) if line.kind == "pod"}
    assert names == {"kitchen", ended[:12]}
