"""`list` and `show`: the output for pods in each state."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.commands import here
from hosts.monitored import KEYS, MonitoredHost, monitored_host, replace_podman

from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with mounted(tmp_path / "resctrl", rmids=16, energy=True) as path, monitored_host(tmp_path, path) as found:
        yield found


def listed(host: MonitoredHost) -> Any:
    return host.json("list")


def test_each_state_is_shown(host: MonitoredHost) -> None:
    host.pod(0, "whole", processes=2)
    host.pod(1, "part", outside=1)
    host.pod(2, "ended")
    ended = host.processes.pop()
    ended.kill()
    ended.wait()
    host.context.monitor.ledger.mark("waiting", KEYS[3])
    os.mkdir(host.resctrl / "mon_groups" / "somebody")
    found = listed(host)
    assert {pod["key"]: pod["state"] for pod in found["items"]} == {
        KEYS[0]: "assigned",
        KEYS[1]: "partly",
        KEYS[2]: "idle",
        KEYS[3]: "waiting",
    }
    assert [(group["name"], group["origin"]) for group in found["foreignGroups"]] == [("somebody", "foreign")]
    assert found["rmids"] == {"total": 16, "used": 5, "free": 11}
    text = host.run("list").output
    for word in ("shop/whole", "assigned", "partly", "idle", "waiting", "foreign", "5 of 16 RMIDs in use, 11 free"):
        assert word in text


def test_pod_in_two_classes_shows_both(host: MonitoredHost) -> None:
    os.mkdir(host.resctrl / "gold")
    key = host.pod(0, "two", rdt_class="gold")
    host.context.monitor.ensure_group(key)
    assert [group["rdtClass"] for group in listed(host)["items"][0]["groups"]] == ["", "gold"]
    assert "/,gold" in host.run("list").output


def test_list_without_resctrl_shows_records_and_a_remark(tmp_path: Path) -> None:
    with monitored_host(tmp_path, str(tmp_path / "nothing")) as host:
        host.context.monitor.ledger.prepare()
        result = host.run("list")
        assert result.exit_code == 1
        assert "resctrl is not mounted at" in result.stderr
        assert "No monitored pods" in result.stdout


def test_show_prints_all_facts_of_one_pod(host: MonitoredHost) -> None:
    key = host.pod(0, "web-0", outside=1)
    host.context.ledger.count_call("createRuntime", 0.002, ["rmids-busy"], key)
    (shown,) = host.json("show", "shop/web-0")["items"]
    assert shown["key"] == key
    assert [len(container["outsideThreads"]) for container in shown["containers"]] == [0, 1]
    assert shown["containers"][1]["outsideThreads"][0]["thread"] == host.processes[1].pid
    names = {(counter["domain"], counter["counter"], counter["unit"]) for counter in shown["counters"]}
    assert ("mon_L3_01", "mbm_local_bytes", "By") in names
    assert ("mon_PERF_PKG_00", "core_energy", "J") in names
    assert shown["failures"][0]["reasons"] == ["rmids-busy"]
    text = host.run("show", key[:6]).output
    for word in ("shop/web-0", "partly", "1 thread outside the group", "llc_occupancy", "rmids-busy", "main0"):
        assert word in text


@pytest.mark.parametrize(
    "what,words",
    [
        ("", "the name of the pod is empty"),
        ("nope", "unknown pod"),
        ("shop/", "matches 2 pods: shop/db-0, shop/web-0"),
        ("../..", "unknown pod"),
    ],
)
def test_unknown_or_ambiguous_name_is_refused(host: MonitoredHost, what: str, words: str) -> None:
    host.pod(0, "web-0")
    host.pod(1, "db-0")
    result = host.run("show", what)
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.output


def test_markup_in_names_is_printed_literally(host: MonitoredHost) -> None:
    host.pod(0, "[red]web")
    assert "shop/[red]web" in host.run("list").output
    assert "shop/[red]web" in host.run("show", KEYS[0]).output


def test_pod_without_group_shows_other_features(host: MonitoredHost) -> None:
    limits = {"feature": "memory", "action": "limit", "needs": {"class": "noswap", "limits": {"memory.swap.max": "0"}}}
    with host.context.monitor.hold(KEYS[4]) as locked:
        locked.add_member("f" * 64, {"namespace": "shop", "pod": "limited", "steps": [limits]}, os.getpid())
    assert [pod["state"] for pod in listed(host)["items"]] == ["unmonitored"]
    (container,) = host.json("show", "shop/limited")["items"][0]["containers"]
    assert container["details"] == {"memory": {"class": "noswap", "memory.swap.max": "0"}}
    assert container["threadsOutside"] == 0
    assert "memory: class noswap, memory.swap.max 0" in host.run("show", "shop/limited").output


def test_missing_features_of_container_are_shown(host: MonitoredHost) -> None:
    assert "WITHOUT" not in host.run("list").output
    unmet = {"memtierd": "not restarted: 5 exits", "blockio": "slow matches no class"}
    with host.context.monitor.hold(KEYS[4]) as locked:
        locked.add_member("f" * 64, {"namespace": "shop", "pod": "lacking", "steps": [], "unmet": unmet}, os.getpid())
    heads, *lines = host.run("list").output.splitlines()
    assert "WITHOUT" in heads
    assert lines[-1].startswith("WITHOUT: ")
    assert next(line for line in lines if line.startswith("shop/lacking")).split()[-1] == "blockio,memtierd"


def test_podman_names_come_from_podman(host: MonitoredHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, pod, member = "a" * 64, "b" * 64, "c" * 64
    lines = ((alone, "web,other", "", ""), (member, "member", pod, "shop"))
    words = " ".join(f"'{word}'" for line in lines for word in line)
    stand_in = replace_podman(tmp_path, monkeypatch, f"printf '%s\\t%s\\t%s\\t%s\\n' {words}\n")
    for key, container in ((alone, alone), (pod, member)):
        with host.context.monitor.hold(key) as locked:
            locked.ensure_group("")
            locked.add_member(container, {"runtime": "podman", "container": ""}, host.process())
    text = host.run("list", "--all").output
    assert [line.split()[0] for line in text.splitlines()[1:5]] == ["shop", "member", "web", "web"]
    in_json = {item["key"]: item["pod"] for item in host.json("list")["items"]}
    assert in_json == {alone: "web", pod: "shop"}
    assert host.json("show", "web")["items"][0]["key"] == alone
    assert host.json("show", "member")["items"][0]["key"] == pod
    assert host.json("show", "shop")["items"][0]["key"] == pod
    stand_in.write_text("#!/bin/sh\nexit 125\n")
    assert "unknown pod or container" in host.run("show", "web").stderr
    assert alone[:12] in host.run("list").output


def test_show_of_an_unknown_uid_explains_static_pods(host: MonitoredHost) -> None:
    assert "for a static pod enter its name or its `kubernetes.io/config.hash`" in host.run("show", KEYS[7]).stderr
    assert "static pod" not in host.run("show", "nobody").stderr


def test_show_finds_foreign_group(host: MonitoredHost) -> None:
    os.mkdir(host.resctrl / "gold")
    os.mkdir(host.resctrl / "gold/mon_groups/somebody")
    folder = host.resctrl / "gold/mon_groups/somebody"
    (name,) = [line.split()[0] for line in host.run("list").stdout.splitlines() if " foreign " in line]
    assert name == "gold/mon_groups/somebody"
    for what in ("somebody", name):
        done = host.run("show", what)
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith(f"{name}\n")
        assert f"    {folder}\n" in done.stdout
    for name in ("..", "nobody", "gold", "mon_groups/somebody", "gold/mon_groups/..", "gold/mon_groups/"):
        assert "unknown pod or container" in host.run("show", name).stderr


def test_refused_containers_are_listed(host: MonitoredHost) -> None:
    key = host.pod(0, "whole")
    folder = host.context.ledger.folder
    names = {"namespace": "shop", "pod": "whole", "container": "c1", "id": "a" * 64, "key": key}
    record_refusal(folder, names, "memory: class gold is not allowed in namespace shop")
    record_refusal(folder, {"id": "b" * 64}, "the bundle can't be read")
    text = host.run("list").output
    assert "Recently rejected\n" in text
    assert "ago  shop/whole/c1: memory: class gold is not allowed in namespace shop\n" in text
    assert "ago  bbbbbbbb" in text
    assert [one["why"] for one in listed(host)["refusals"]] == [
        "memory: class gold is not allowed in namespace shop",
        "the bundle can't be read",
    ]
    record_refusal(folder, names, "memory: class gold is not allowed in namespace shop")
    text = host.run("list").output
    assert text.count("class gold") == 1
    assert "is not allowed in namespace shop (2 times)\n" in text
    said = host.run("show", "shop/whole").output
    assert said.count("class gold") == 1
    assert "shop/whole/c1 was rejected: memory: class gold is not allowed" in said
    assert "bundle can't be read" not in said


@pytest.mark.parametrize("what", ["shop/never", "never", KEYS[5], KEYS[5][:5], "d" * 8])
def test_show_of_pod_with_refused_container_names_the_refusal(host: MonitoredHost, what: str) -> None:
    names = {"namespace": "shop", "pod": "never", "container": "c1", "id": "d" * 64, "key": KEYS[5]}
    record_refusal(host.context.ledger.folder, names, "no RMID is free")
    said = host.run("show", what)
    assert said.exit_code == 0, said.output
    assert "refused: the pod's containers were rejected and never started" in said.stdout
    assert "shop/never/c1 was rejected: no RMID is free" in said.stdout
    (found,) = host.json("show", what, "-o", "json")["items"]
    assert (found["key"], found["state"], found["containers"]) == (KEYS[5], "refused", [])
    assert "unknown pod or container" in host.run("show", "shop/another").stderr


@pytest.mark.parametrize("form", [[], ["-o", "wide"], ["-o", "csv"], ["-o", "name"], ["-o", "json"], ["-o", "yaml"]])
@pytest.mark.parametrize("command", here("list --all", "show web", "top --once --interval 0.1"))
def test_escape_sequences_in_groups_and_reasons_are_not_printed(
    host: MonitoredHost, command: str, form: list[str]
) -> None:
    key = host.pod(0, "web")
    with host.context.monitor.hold(key) as locked:
        record = locked.member("00" * 32)
        assert record is not None
        locked.add_member("00" * 32, {**record, "unmet": {"rdt": "class a\x1b]0;b\x07 is not there"}}, record["pid"])
    os.mkdir(host.resctrl / "mon_groups" / "x\x1b[2Jy")
    found = host.run(*command.split(), *form)
    assert found.exit_code == 0, found.output
    assert found.stdout.replace("\r\n", "").replace("\n", "").isprintable()
