"""`list`, `show` and `diagnose` with ``--at``: the facts of a stored sample, and nothing that is not stored."""

import json
import sqlite3
from typing import Any

import pytest
from hosts.past import sample
from jsonschema import validate

from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.observe.node.history.rows import RATIO, SLOWED
from resctrl_hooks.observe.node.history.store import Store

from .conftest import Past

JUDGED = 3595
"""A second after the last sample, at which the pods were judged."""


@pytest.fixture
def judged(past: Past) -> Past:
    """Return the history with one more sample, in which web was slowed by batch."""
    store = Store(str(past.file), write=True)
    one = sample(JUDGED - 5, {"web": 1000.0, "batch": 5000.0})
    labels = {"kind": SLOWED, "key": "key-web", "namespace": "shop", "pod": "web", "domain": "mon_L3_00"}
    causes = {"event": "memory-bandwidth, l3-cache", "culprits": "key-batch"}
    moved = past.moved(one)
    moved.rows = [*moved.rows, {**labels, **causes, RATIO: 1.62}]
    store.add(moved)
    store.close()
    return past


def document(past: Past, command: str, second: float, *words: str) -> dict[str, Any]:
    result = past.run(command, "--at", past.at(second), "-o", "json", *words)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    validate(found, schemas()["past"])
    return found


def test_list_has_the_pods_of_that_time_with_its_time(past: Past) -> None:
    found = document(past, "list", 2995)
    assert [one["name"] for one in found["items"]] == ["shop/batch", "shop/web"]
    assert (found["host"], found["time"]) == ("node-1", f"{past.at(2990)[:-1]}.000Z")
    assert [one["name"] for one in document(past, "list", 3015)["items"]] == ["shop/web"]
    assert document(past, "list", 2995, "-n", "other")["items"] == []


def test_first_line_of_each_command_says_that_it_is_the_past(past: Past) -> None:
    for words in (["list"], ["show", "web"], ["diagnose"], ["diagnose", "web"]):
        first = past.run(*words, "--at", past.at(605)).stdout.splitlines()[0]
        assert first.startswith("PAST "), words
        assert first.endswith("ago)  node-1"), words


def test_list_says_what_is_not_stored(past: Past) -> None:
    lines = past.run("list", "--at", past.at(605)).stdout.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["POD", "CLASS", "COUNTERS"],
        ["shop/batch", "/", "2/2"],
        ["shop/web", "/", "2/2"],
    ]
    assert lines[4].startswith("states, containers, tasks, RMIDs and errors are not stored")


def test_show_has_values_and_rates_of_that_time(past: Past) -> None:
    (web,) = document(past, "show", 605, "shop/web")["items"]
    values = {one["counter"]: (one["value"], one["seconds"]) for one in web["counters"]}
    assert values == {"llc_occupancy": (600, None), "mbm_total_bytes": (600_000, 600.0)}
    assert (web["rates"]["memoryBandwidthBytesPerSecond"], web["rates"]["seconds"]) == (1000, 10)
    text = past.run("show", "web", "--at", past.at(605)).stdout
    assert "mbm_total_bytes" in text
    assert "over 10 s" in text


def test_rates_after_a_gap_are_null_and_the_gap_is_reported(past: Past) -> None:
    (web,) = document(past, "show", 1805, "web")["items"]
    assert web["rates"] is None
    assert "no samples in the 10m10s before, so no rates" in past.run("show", "web", "--at", past.at(1805)).stdout


def test_diagnose_has_ratio_and_causes_of_that_time(judged: Past) -> None:
    (found,) = document(judged, "diagnose", JUDGED)["items"]
    assert (found["name"], found["slowdown"]) == ("shop/web", 1.62)
    assert (found["causes"], found["culprits"]) == (["memory-bandwidth", "l3-cache"], ["shop/batch"])
    text = judged.run("diagnose", "--at", judged.at(JUDGED)).stdout.splitlines()[1]
    why = "because: memory-bandwidth, l3-cache by shop/batch"
    assert text == f"shop/web: 1.6× the time of the same work in quiet times; {why}"  # noqa: RUF001  # as printed
    assert "shop/batch: unknown" in judged.run("diagnose", "batch", "--at", judged.at(JUDGED)).stdout


def test_unjudged_time_is_not_a_time_without_slowed_pods(judged: Past) -> None:
    assert "No pod has a stored ratio" in judged.run("diagnose", "--at", judged.at(605)).stdout
    assert "shop/web: unknown" in judged.run("diagnose", "web", "--at", judged.at(605)).stdout


def test_ratio_is_a_column_of_list_and_top(judged: Past) -> None:
    text = judged.run("list", "--at", judged.at(JUDGED)).stdout
    assert [line.split()[-1] for line in text.splitlines()[1:4]] == ["SLOW", "-", "1.6×"]  # noqa: RUF001  # as printed
    lines = {one["name"]: one["slowdown"] for one in judged.top(JUDGED)["items"]}
    assert (lines["shop/web"], lines["shop/batch"]) == (1.62, None)


@pytest.mark.parametrize(
    "words, code, text",
    [
        (("top", "--at", -60), 1, "the history begins at"),
        (("top", "--at", 1500), 1, "no sample at"),
        (("top", "--at", 1500), 1, "and the next one at"),
        *(
            ((name, "web", "--at", 1500), 1, "the last one before it is at")
            for name in ("top", "list", "show", "diagnose")
        ),
        (("show", "batch", "--at", 3015), 1, "batch had no counters at"),
        (("report", "--since", 1300, "--until", 1400), 1, "the history is from"),
        (("report",), 2, "name either a FILE or --since"),
        (("report", "--until", "now"), 2, "name either a FILE or --since"),
        (("top", "--at", "soon"), 2, "is not a time such as 14:00"),
        (("top", "--at", 605, "-l", "app=web"), 2, "the history has no labels"),
        (("list", "--at", 605, "--demand"), 2, "--at cannot be combined with --demand"),
        (("list", "--at", 605, "-w"), 2, "--at cannot be combined with --watch"),
        (("list", "--at", 605, "-l", "app=web"), 2, "--at cannot be combined with --selector"),
        (("show", "web", "--at", 605, "-w"), 2, "--at cannot be combined with --watch"),
        (("diagnose", "web", "--at", 605, "--experiment"), 2, "--at cannot be combined with --experiment"),
        (("diagnose", "--at", 605, "--for", "30s"), 2, "--at cannot be combined with --for"),
    ],
)
def test_impossible_time_pod_or_option_is_an_error(
    past: Past, words: tuple[str | int, ...], code: int, text: str
) -> None:
    result = past.run(*(past.at(word) if isinstance(word, int) else word for word in words))
    assert (result.exit_code, text in result.output) == (code, True), result.output


def test_damaged_sample_gives_way_to_the_one_before_it_with_one_line(past: Past) -> None:
    when = (past.first + 600) * 1000
    with sqlite3.connect(past.file) as file:
        file.execute("UPDATE sample SET data = x'00' WHERE time = ?", (when,))
    for words in (["list"], ["show", "web"], ["diagnose"]):
        result = past.run(*words, "--at", past.at(605))
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"PAST {clock(when / 1000 - 10)}"), words
        assert result.stderr.count(f"samples left out that cannot be decoded: 1; the first: {past.file}: ") == 1
    assert past.top(605)["time"] == document(past, "list", 605)["time"] == f"{past.at(590)[:-1]}.000Z"
    (web,) = document(past, "show", 615, "web")["items"]
    assert web["rates"]["seconds"] == 20


def test_history_without_a_readable_sample_is_an_error_that_names_one(past: Past) -> None:
    with sqlite3.connect(past.file) as file:
        file.execute("UPDATE sample SET data = x'00'")
    result = past.run("list", "--at", past.at(605))
    assert result.exit_code == 1
    assert "samples left out that cannot be decoded: " in result.stderr
