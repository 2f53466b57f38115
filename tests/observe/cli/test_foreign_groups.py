"""Groups that other programs or people have made: in `list -o name`, `show`, `top` and JSON by the printed name."""

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hosts.past import sample
from jsonschema import validate

from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.store import Store

NAMES = {b"theirs": "theirs", b"a b": "a b", b"\xff": r"\xff", b"x\x1b[31my": r"x\x1b[31my", b"c\\d": r"c\\d"}
"""Names of groups in the kernel, each with its text."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """A pod, groups of all names in the root class, and one in class gold."""
    with plain_host(tmp_path, "info", "gold/mon_groups/job") as found:
        say(found.resctrl, llc_occupancy=900, mbm_total_bytes=100_000)
        say(found.resctrl / "gold", llc_occupancy=50, mbm_total_bytes=5_000)
        say(found.resctrl / "gold/mon_groups/job", llc_occupancy=40, mbm_total_bytes=4_000)
        for number, name in enumerate(NAMES):
            folder = os.fsdecode(os.fsencode(found.resctrl / "mon_groups") + b"/" + name)
            os.mkdir(folder)
            say(Path(folder), llc_occupancy=100 + number, mbm_total_bytes=1_000)
        found.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=1_000)
        yield found


def shown(host: MonitoredHost, *words: str) -> dict[str, Any]:
    document = host.json("show", *words)
    validate(document, schemas()["show"])
    (found,) = document["items"]
    return dict(found)


def test_list_prints_names_of_foreign_groups_that_show_takes(host: MonitoredHost) -> None:
    names = host.run("list", "-o", "name").stdout.splitlines()
    foreign = [f"mon_groups/{text}" for text in NAMES.values()]
    assert names[0] == "shop/web-0"
    assert sorted(names[1:]) == sorted([*foreign, "gold/mon_groups/job"])
    for name in names:
        assert shown(host, name)["name"] == name
        assert host.run("show", name).stdout.splitlines()[0] == name
        assert [one["name"] for one in host.json("top", name, "--interval", "100ms")["items"]] == [name, "TOTAL"]
        assert host.run("list", name, "-o", "name").stdout.splitlines() == [name]
        assert name in host.run("list", name).stdout


@pytest.mark.parametrize("what", ["theirs", r"\xff", "\udcff", "c\\d", r"c\\d", "x\x1b[31my", "mon_groups/x\x1b[31my"])
def test_foreign_group_is_found_by_its_text_and_by_its_bytes(host: MonitoredHost, what: str) -> None:
    name = os.fsencode(what.removeprefix("mon_groups/"))
    assert shown(host, what)["name"] == f"mon_groups/{NAMES.get(name, what)}"


def test_show_has_the_counters_and_the_tasks_of_a_foreign_group(host: MonitoredHost) -> None:
    (host.resctrl / "gold/mon_groups/job/tasks").write_text("1\n2\n")
    found = shown(host, "job", "--rates", "--interval", "100ms")
    assert (found["state"], found["key"], found["rdtClasses"], found["tasks"]) == ("foreign", "", ["gold"], 2)
    assert {one["counter"]: (one["value"], one["seconds"], one["state"]) for one in found["counters"]} == {
        "llc_occupancy": (40, None, "available"),
        "mbm_total_bytes": (4_000, None, "available"),
    }
    assert found["rates"]["memoryBandwidthBytesPerSecond"] == 0
    assert [(one["name"], one["origin"]) for one in found["groups"]] == [("job", "foreign")]
    text = host.run("show", "job").stdout
    assert "foreign: created by another program" in text
    assert "class gold: foreign, 2 tasks" in text
    assert "mbm_total_bytes  L3_00   gold   3.91 KiB        -" in text
    assert not [word for word in ("Containers", "Last errors", "\nkey ", "\nage ", "creator") if word in text]
    rows = list(csv.DictReader(io.StringIO(host.run("show", "job", "-o", "csv").stdout)))
    assert [(row["pod"], row["rdtClass"], row["value"]) for row in rows] == [
        ("gold/mon_groups/job", "gold", "40"),
        ("gold/mon_groups/job", "gold", "4000"),
    ]


def test_pods_and_groups_are_shown_together(host: MonitoredHost) -> None:
    assert [one["name"] for one in host.json("show", "web-0", "job")["items"]] == ["gold/mon_groups/job", "shop/web-0"]
    names = {one["name"] for one in host.json("top", "job", "web-0", "--interval", "100ms")["items"]}
    assert names == {"gold/mon_groups/job", "shop/web-0", "TOTAL"}
    made = host.json("list", "web-0", "job")
    assert [one["name"] for one in made["items"]] == ["shop/web-0"]
    assert [(one["rdtClass"], one["name"]) for one in made["foreignGroups"]] == [("gold", "job")]


def test_csv_of_list_has_foreign_groups_without_a_key(host: MonitoredHost) -> None:
    rows = list(csv.DictReader(io.StringIO(host.run("list", "-o", "csv").stdout)))
    found = {row["pod"]: (row["state"], row["key"], row["rdtClasses"]) for row in rows}
    assert found["gold/mon_groups/job"] == ("foreign", "", "gold")
    assert found["web-0"][1] == KEYS[0]
    assert len(rows) == 7


def test_pod_is_found_by_the_name_of_its_group(host: MonitoredHost) -> None:
    assert shown(host, f"mon_groups/{KEYS[0]}")["name"] == "shop/web-0"


def test_name_of_groups_in_two_classes_is_refused_with_both(host: MonitoredHost) -> None:
    (host.resctrl / "mon_groups/job").mkdir()
    done = host.run("show", "job")
    both = "mon_groups/job, gold/mon_groups/job"
    assert (done.exit_code, f"'job' matches 2 foreign groups: {both}; enter one of these" in done.stderr) == (1, True)
    assert shown(host, "mon_groups/job")["rdtClasses"] == [""]


def test_exact_name_of_a_pod_or_a_group_is_preferred_to_a_beginning(host: MonitoredHost) -> None:
    host.group(1, "theirs-1")
    host.group(2, "job")
    assert shown(host, "theirs")["state"] == "foreign"
    assert shown(host, "job")["name"] == "shop/job"
    assert shown(host, "gold/mon_groups/job")["state"] == "foreign"


@pytest.mark.parametrize(
    "what, suggestion",
    [
        ("mon_groups/their", "mon_groups/theirs"),
        ("thiers", "theirs"),
        ("gold/mon_groups/jobs", "gold/mon_groups/job"),
        ("mon_groups/", None),
    ],
)
def test_unknown_group_is_refused_with_a_similar_name(host: MonitoredHost, what: str, suggestion: str | None) -> None:
    for command in ("show", "top", "list"):
        done = host.run(command, what)
        assert done.exit_code == 1
        assert f"unknown pod or container '{what}'" in done.stderr
        assert suggestion is None or f"did you mean {suggestion}?" in done.stderr


@pytest.mark.parametrize("words", [["-n", "shop"], ["-l", "app=web"]])
def test_namespace_and_labels_select_no_foreign_group(host: MonitoredHost, words: list[str]) -> None:
    assert "mon_groups" not in host.run("list", "-o", "name", *words).stdout
    done = host.run("top", "--interval", "100ms", "--json", *words)
    assert "mon_groups" not in done.stdout


def test_foreign_group_of_the_past_is_shown_by_the_same_name(host: MonitoredHost, tmp_path: Path) -> None:
    file = tmp_path / "var/history.sqlite"
    host.configure(history={"enabled": True, "file": str(file)})
    claim(str(file))
    store = Store(str(file), write=True)
    for second in (0, 10):
        one = sample(second, {"web": 1000.0})
        labels = {"kind": "group", "key": r"\xff", "rdt_class": "gold", "domain": "mon_L3_00"}
        one.rows = [*one.rows, {**labels, "llc_occupancy_bytes": 7, "mbm_total_bytes": 500 * second}]
        store.add(one)
    store.close()
    at, name = ("--at", "2026-01-05T08:00:11Z"), r"gold/mon_groups/\xff"
    assert host.run("list", *at, "-o", "name").stdout.splitlines() == [name, "shop/web"]
    for what in (name, r"\xff"):
        document = host.json("show", what, *at)
        validate(document, schemas()["past"])
        (found,) = document["items"]
        assert (found["name"], found["key"], found["rdtClass"]) == (name, "", "gold")
        assert {one["counter"]: one["value"] for one in found["counters"]}["mbm_total_bytes"] == 5_000
        assert found["rates"]["memoryBandwidthBytesPerSecond"] == 500
        assert [one["name"] for one in json.loads(host.run("top", what, *at, "--json").stdout)["items"]] == [
            name,
            "TOTAL",
        ]
    done = host.run("top", "shop/wen", *at, "--json")
    assert (done.exit_code, "shop/wen had no counters at" in done.stderr) == (1, True)
    assert "did you mean shop/web?" in done.stderr


def test_show_names_the_creator_of_a_group_with_a_known_name(host: MonitoredHost) -> None:
    (host.resctrl / "mon_groups/pqos-1-2").mkdir()
    assert "creator   pqos, by the group's name" in host.run("show", "pqos-1-2").stdout
