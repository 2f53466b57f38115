"""What the house adds to show, list, explain, rdt and guard: rates, slowdowns, foreign groups, the guard."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from core.cli.test_list_text import check_order, gathered
from core.cli.test_show_text import KEY, text_of
from core.cli.test_show_text import shown as printed
from golden import Golden
from hosts.counter_tree import say, say_paths
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host, run
from hosts.past import sample
from jsonschema import validate
from rich.console import Console

from observe.node.guard.node import FULL, Node, lowered_once
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.inventory.models import Inventory
from resctrl_hooks.core.inventory.pod_details import PodDetails
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.inventory.columns import RATES
from resctrl_hooks.observe.inventory.pod_rates import PodMemory, PodRates, lines_of
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.metrics.families import families_of
from resctrl_hooks.observe.metrics.guard import TABLES
from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.store import Store

__all__ = ("gathered",)


def rates(**values: Any) -> PodRates:
    unknown = dict.fromkeys(column.field for column in RATES)
    return PodRates.model_validate({**unknown, "counted_percent": None, **values})


def memory(**more: Any) -> PodMemory:
    values = {"domain": 1, "memory_bandwidth_bytes_per_second": 2e6, "share_percent": 25.4, "load_percent": 80.4}
    return PodMemory.model_validate({**values, "estimated": False, **more})


def test_slowdown_and_rates_are_among_a_pods_facts(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    added: dict[str, Any] = {"slowdown": 1.55, "rates": rates(seconds=1.0)}
    pod = PodDetails(key=KEY, namespace="shop", pod="web", state="waiting", priority=5, **added)
    unknown = {"memory_bandwidth_bytes_per_second": None, "share_percent": None, "load_percent": None}
    known = rates(
        seconds=2.0004, counted_percent=75.4, memory_bandwidth_bytes_per_second=3e6, power_watts=4.5,
        memory_domains=[memory(), memory(estimated=True), memory(**unknown)],
    )  # fmt: skip
    lines = printed(pod, capsys)
    for one in (known, rates(seconds=1, counted_percent=100)):
        lines += text_of(Console.print, "\n".join(lines_of(one)))
    golden("\n".join(lines))


@pytest.fixture
def slowed(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods, of which the first one is slowed, and a foreign group."""
    with plain_host(tmp_path, "info/L3_MON", "mon_groups/theirs") as found:
        (found.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        for number, name in enumerate(("cart", "quiet")):
            say(found.group(number, name), llc_occupancy=1, mbm_total_bytes=1)
        say(found.resctrl / "mon_groups/theirs", llc_occupancy=700)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def test_pods_are_in_the_order_of_the_column(gathered: Inventory) -> None:
    check_order(gathered, "slow", "dbac")


def test_ratio_is_in_list_show_and_top_where_pods_are_judged(slowed: MonitoredHost) -> None:
    def rows(*words: str) -> dict[str, list[str]]:
        lines = (line.split() for line in slowed.run(*words).stdout.splitlines())
        return {line[0]: line for line in lines if line}

    ratio = "1.6\N{MULTIPLICATION SIGN}"
    wide, top = ("list", "-o", "wide"), ("top", "--once", "--interval", "100ms", "--sort", "slow")
    place = rows(*wide)["POD"].index("SLOW")
    assert [rows(*wide)[name][place] for name in ("shop/cart", "shop/quiet")] == [ratio, "-"]
    assert "SLOW" not in slowed.run("list").output
    found: Any = slowed.json("list", "--sort", "slow")
    assert [(one["name"], one["slowdown"]) for one in found["items"]] == [("shop/cart", 1.6), ("shop/quiet", None)]
    assert f"{ratio} the time of the same work" in slowed.run("show", "shop/cart").output
    assert "slowdown" not in slowed.run("show", "shop/quiet").output
    assert ratio in rows(*top)["shop/cart"]
    assert "SLOW▾" in slowed.run(*top).output
    assert [one["slowdown"] for one in slowed.json(*top)["items"]][:2] == [1.6, None]
    Path(slowed.context.settings.state_dir, SLOWDOWN_STATUS).unlink()
    assert all("SLOW" not in slowed.run(*words).output for words in (top, wide))


def test_unknown_resource_is_shown_and_exported_as_it_is(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info/L3_MON", "info/FABRIC_MON") as slowed:
        for name in ("L3", "FABRIC"):
            (slowed.resctrl / f"info/{name}_MON/num_rmids").write_text("8\n")
        say_paths(slowed.group(0, "web-0", mbm_total_bytes=1), {"mon_FABRIC_03/flits": 1234})
        (shown,) = [one for one in slowed.json("show", KEYS[0])["items"][0]["counters"] if one["counter"] == "flits"]
        expected = {"domain": "mon_FABRIC_03", "resource": "FABRIC", "id": 3, "value": 1234, "kind": "cumulative"}
        assert {name: shown[name] for name in expected} == expected
        text = slowed.run("show", KEYS[0]).output
        assert ["flits", "FABRIC_03", "/", "1,234"] in [line.split()[:4] for line in text.splitlines()]
        registry = registry_of(NodeCollector(slowed.context, lambda problem: pytest.fail(str(problem))))
        labels = {"namespace": "shop", "pod": "web-0", "pod_uid": KEYS[0], "container": "", "rdt_class": ""}
        domain = {"domain_id": "03", "domain_name": "mon_FABRIC_03"}
        assert registry.get_sample_value("fabric_flits_total", {**labels, **domain}) == 1234


NAMES = {b"theirs": "theirs", b"a b": "a b", b"\xff": r"\xff", b"x\x1b[31my": r"x\x1b[31my", b"c\\d": r"c\\d"}
"""Names of groups in the kernel, each with its text."""


@pytest.fixture
def named(tmp_path: Path) -> Iterator[MonitoredHost]:
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


def shown(named: MonitoredHost, *words: str) -> dict[str, Any]:
    document = named.json("show", *words)
    validate(document, schemas()["show"])
    (found,) = document["items"]
    return dict(found)


def test_each_command_takes_the_names_that_list_prints(named: MonitoredHost) -> None:
    names = named.run("list", "-o", "name").stdout.splitlines()
    foreign = [f"mon_groups/{text}" for text in NAMES.values()]
    assert (names[0], sorted(names[1:])) == ("shop/web-0", sorted([*foreign, "gold/mon_groups/job"]))
    for name in names:
        assert shown(named, name)["name"] == name
        assert named.run("show", name).stdout.splitlines()[0] == name
        assert [one["name"] for one in named.json("top", name, "--interval", "100ms")["items"]] == [name, "TOTAL"]
        assert named.run("list", name, "-o", "name").stdout.splitlines() == [name]
    for what in ("theirs", r"\xff", "\udcff", "c\\d", r"c\\d", "x\x1b[31my", "mon_groups/x\x1b[31my"):
        name = NAMES.get(os.fsencode(what.removeprefix("mon_groups/")), what)
        assert shown(named, what)["name"] == f"mon_groups/{name}"


def test_outputs(named: MonitoredHost, golden: Golden) -> None:
    for folder in ("theirs-1", "pqos-1-2", "other"):
        (named.resctrl / "mon_groups" / folder).mkdir()
    (named.resctrl / "gold/mon_groups/other").mkdir()
    texts = []
    for words in (
        *("show job", "show job -o csv", "show pqos-1-2", "show other", "show mon_groups/other -o name", "list -o csv"),
        *("show theirs -o name", "show mon_groups/their", "top thiers", "list gold/mon_groups/jobs"),
        *("list job web-0", "list -o name -n shop", "list -o name -l app=web", "top -o name -n shop --interval 100ms"),
        *("show mon_groups/", f"show mon_groups/{KEYS[0]} -o name"),
    ):
        done = named.run(*words.split())
        texts.append(f"$ {words}\n{done.output}exit code {done.exit_code}")
    golden(re.sub("  +", "  ", "\n\n".join(texts)), hide="duration time")


def test_exact_name_of_a_pod_is_preferred_to_that_of_a_group(named: MonitoredHost) -> None:
    named.group(2, "job")
    assert shown(named, "job")["name"] == "shop/job"
    found = shown(named, "gold/mon_groups/job", "--rates", "--interval", "100ms")
    assert (found["state"], found["key"], found["rdtClasses"], found["tasks"]) == ("foreign", "", ["gold"], 2)
    assert found["rates"]["memoryBandwidthBytesPerSecond"] == 0
    assert [(one["name"], one["origin"]) for one in found["groups"]] == [("job", "foreign")]
    names = {one["name"] for one in named.json("top", "gold/mon_groups/job", "web-0", "--interval", "100ms")["items"]}
    assert names == {"gold/mon_groups/job", "shop/web-0", "TOTAL"}


def test_foreign_group_of_the_past_is_shown_by_the_same_name(named: MonitoredHost, tmp_path: Path) -> None:
    file = tmp_path / "var/history.sqlite"
    named.configure(history={"enabled": True, "file": str(file)})
    claim(str(file))
    store = Store(str(file), write=True)
    for second in (0, 10):
        one = sample(second, {"web": 1000.0})
        labels = {"kind": "group", "key": r"\xff", "rdt_class": "gold", "domain": "mon_L3_00"}
        one.rows = [*one.rows, {**labels, "llc_occupancy_bytes": 7, "mbm_total_bytes": 500 * second}]
        store.add(one)
    store.close()
    at, name = ("--at", "2026-01-05T08:00:11Z"), r"gold/mon_groups/\xff"
    assert named.run("list", *at, "-o", "name").stdout.splitlines() == [name, "shop/web"]
    for what in (name, r"\xff"):
        document = named.json("show", what, *at)
        validate(document, schemas()["past"])
        (found,) = document["items"]
        assert (found["name"], found["key"], found["rdtClass"]) == (name, "", "gold")
        assert {one["counter"]: one["value"] for one in found["counters"]}["mbm_total_bytes"] == 5_000
        assert found["rates"]["memoryBandwidthBytesPerSecond"] == 500
        items = json.loads(named.run("top", what, *at, "--json").stdout)["items"]
        assert [one["name"] for one in items] == [name, "TOTAL"]
    done = named.run("top", "shop/wen", *at, "--json")
    assert (done.exit_code, "did you mean shop/web?" in done.stderr) == (1, True)


@pytest.fixture
def guarded(host: Host) -> Node:
    return lowered_once(host)


def told(guarded: Node) -> str:
    """Return the status, and the samples of the metrics."""
    text = [" ".join(line.split()) for line in run(guarded.host, "guard", "status").output.splitlines()]
    samples = [one for family in families_of(TABLES, guarded.context()) for one in family.samples]
    lines = [f"{one.name} {' '.join(one.labels.values())} {one.value:g}" for one in samples]
    return re.sub(r"\d\d:\d\d:\d\d", "<clock>", "\n".join([*text, *lines]))


def test_status_and_metrics_of_each_state(guarded: Node, tmp_path: Path, golden: Golden) -> None:
    golden(told(guarded), "lowered", hide="time duration")
    value = json.loads(run(guarded.host, "guard", "status", "-o", "json").output)
    validate(value, schemas()["guard"])
    assert (value.keys(), value["actions"]) == (schemas()["guard"]["properties"].keys(), {"lower": 1})
    assert value["items"][0]["classes"]["bronze"]["now"] == 90
    path = guarded.host.state / "guard.json"
    status = json.loads(path.read_text())
    status["domains"]["0"]["classes"]["bronze"]["kept"] = "a cut slowed class gold"
    path.write_text(json.dumps(status))
    golden(told(guarded), "kept", hide="time duration")
    guarded.host.end_process(100)
    golden(told(guarded), "ended", hide="time duration")
    path.unlink()
    assert run(guarded.host, "guard", "status").exit_code == 1
    golden(told(guarded), "none")
    observer = Node(Host(tmp_path / "observer"), mode="observe")
    observer.host.process(100)
    observer.pass_time(observer.guard(pid=100), FULL, 30)
    golden(told(observer), "observed", hide="time duration")


@pytest.mark.parametrize("manifest", [False, True], ids=["guard by hand", "installed"])
def test_package_removal_restores_the_declared_values(tmp_path: Path, *, manifest: bool) -> None:
    script = (Path(__file__).parents[3] / "contrib/packages/prerm").read_text()
    for name in ("resctrl-hook", "py3clean"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n')
        (tmp_path / name).chmod(0o755)
    for path in ("guard-lease.json", *(["manifest.json"] if manifest else [])):
        (tmp_path / path).touch()
    for folder in ("/run/resctrl-hooks/", "/usr/local/libexec/resctrl-hooks/", "/usr/bin/"):
        script = script.replace(folder, f"{tmp_path}/")
    script = script.replace("/run/systemd/system", f"{tmp_path}/none")
    subprocess.run(["sh", "-c", script, "prerm", "remove"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    first, *_ = (tmp_path / "calls").read_text().splitlines()
    assert first == ("resctrl-hook uninstall" if manifest else "resctrl-hook guard restore")


def test_lowered_class_is_as_declared_for_rdt_show(guarded: Node) -> None:
    section = {"mode": "act", "protect": ["gold"], "throttle": {"bronze": {"floor": 20}, "silver": {"floor": 50}}}
    guarded.host.configure(rdt={"classes": {"bronze": {"MB": 100}}, "guard": section})
    done = run(guarded.host, "rdt", "show")
    assert done.exit_code == 0, done.output
    assert "the guard holds MB of domain 0 below the declared 100" in done.output
    assert run(guarded.host, "rdt", "apply").exit_code == 0
    assert guarded.limit("bronze") == "MB:0=90"
    path = guarded.host.state / "guard-lease.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"owner": "an experiment"}))
    assert (
        "bronze: an experiment holds MB of domain 0 below the declared 100" in run(guarded.host, "rdt", "show").output
    )


def test_act_is_called_experimental_in_help_schema_unit_metrics_and_docs(guarded: Node) -> None:
    docs = Path(__file__).parents[3] / "docs"
    pages = [(docs / name).read_text() for name in ("index.md", "history.md", "dev/architecture.md")]
    texts = [
        *(run(guarded.host, *words, "--help").output for words in (["guard"], ["guard", "run"])),
        json.dumps(json_schema()["$defs"]["Guard"]["properties"]["mode"]),
        (docs.parent / "contrib/systemd/resctrl-hooks-guard.service").read_text(),
        " ".join(family.documentation for family in families_of(TABLES, guarded.context())),
        *(line for page in pages for line in page.split("\n\n") if "guard.md)" in line),
        (docs / "guard.md").read_text(),
    ]
    assert [text for text in texts if "experimental" not in text] == []
