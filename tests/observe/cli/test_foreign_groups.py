"""Groups that other programs or people have made: in `list`, `show`, `top` and JSON by the printed name."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.counter_tree import say
from hosts.monitored import MonitoredHost, plain_host
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
        (found.resctrl / "gold/mon_groups/job/tasks").write_text("1\n2\n")
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


def test_each_command_takes_the_names_that_list_prints(host: MonitoredHost) -> None:
    names = host.run("list", "-o", "name").stdout.splitlines()
    foreign = [f"mon_groups/{text}" for text in NAMES.values()]
    assert (names[0], sorted(names[1:])) == ("shop/web-0", sorted([*foreign, "gold/mon_groups/job"]))
    for name in names:
        assert shown(host, name)["name"] == name
        assert host.run("show", name).stdout.splitlines()[0] == name
        assert [one["name"] for one in host.json("top", name, "--interval", "100ms")["items"]] == [name, "TOTAL"]
        assert host.run("list", name, "-o", "name").stdout.splitlines() == [name]
    for what in ("theirs", r"\xff", "\udcff", "c\\d", r"c\\d", "x\x1b[31my", "mon_groups/x\x1b[31my"):
        name = NAMES.get(os.fsencode(what.removeprefix("mon_groups/")), what)
        assert shown(host, what)["name"] == f"mon_groups/{name}"


def test_outputs(host: MonitoredHost, golden: Golden) -> None:
    for folder in ("theirs-1", "pqos-1-2", "other"):
        (host.resctrl / "mon_groups" / folder).mkdir()
    (host.resctrl / "gold/mon_groups/other").mkdir()
    texts = []
    for words in (
        *("show job", "show job -o csv", "show pqos-1-2", "show other", "show mon_groups/other -o name", "list -o csv"),
        *(
            "show theirs -o name",
            "show mon_groups/their",
            "top thiers",
            "list gold/mon_groups/jobs",
            "show mon_groups/",
        ),
        *("list job web-0", "list -o name -n shop", "list -o name -l app=web", "top -o name -n shop --interval 100ms"),
        "show mon_groups/",
        "show mon_groups/0f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01 -o name",
    ):
        done = host.run(*words.split())
        texts.append(f"$ {words}\n{done.output}exit code {done.exit_code}")
    golden(re.sub("  +", "  ", "\n\n".join(texts)), hide="duration time")


def test_exact_name_of_a_pod_is_preferred_to_that_of_a_group(host: MonitoredHost) -> None:
    host.group(2, "job")
    assert shown(host, "job")["name"] == "shop/job"
    found = shown(host, "gold/mon_groups/job", "--rates", "--interval", "100ms")
    assert (found["state"], found["key"], found["rdtClasses"], found["tasks"]) == ("foreign", "", ["gold"], 2)
    assert found["rates"]["memoryBandwidthBytesPerSecond"] == 0
    assert [(one["name"], one["origin"]) for one in found["groups"]] == [("job", "foreign")]
    names = {one["name"] for one in host.json("top", "gold/mon_groups/job", "web-0", "--interval", "100ms")["items"]}
    assert names == {"gold/mon_groups/job", "shop/web-0", "TOTAL"}


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
        items = json.loads(host.run("top", what, *at, "--json").stdout)["items"]
        assert [one["name"] for one in items] == [name, "TOTAL"]
    done = host.run("top", "shop/wen", *at, "--json")
    assert (done.exit_code, "did you mean shop/web?" in done.stderr) == (1, True)
