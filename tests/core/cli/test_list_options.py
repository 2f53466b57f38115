"""The options that `list`, `show` and `top` share: which pods, in which order, in which form."""

import csv
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosts.faults import failing
from hosts.monitored import KEYS, MonitoredHost, monitored_host
from schema_checks import refusal

from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with mounted(tmp_path / "resctrl", rmids=16) as path, monitored_host(tmp_path, path) as found:
        found.pod(0, "web-0")
        found.pod(1, "db-0", outside=1)
        found.pod(2, "api-0", namespace="billing", processes=2)
        yield found


def names(host: MonitoredHost, *words: str) -> list[str]:
    return [line.split()[0] for line in host.run("list", "--no-headers", *words).stdout.splitlines()]


def test_pods_with_problems_come_first_then_by_name(host: MonitoredHost) -> None:
    host.context.ledger.mark("waiting", KEYS[3])
    os.mkdir(host.resctrl / "mon_groups/somebody")
    in_order = [KEYS[3][:12], "shop/db-0", "billing/api-0", "shop/web-0", "mon_groups/somebody"]
    assert names(host) == in_order
    assert names(host, "--sort", "name") == [
        KEYS[3][:12],
        "billing/api-0",
        "shop/db-0",
        "shop/web-0",
        "mon_groups/somebody",
    ]
    assert names(host, "--sort", "tasks")[0] == "billing/api-0"
    assert names(host, "--sort", "name", "--reverse")[0] == "shop/web-0"


def test_list_selects_pods_by_namespace_and_name(host: MonitoredHost) -> None:
    os.mkdir(host.resctrl / "mon_groups/somebody")
    assert names(host, "-n", "shop") == ["db-0", "web-0"]
    assert names(host, "shop/web-0", "api-0") == ["billing/api-0", "shop/web-0"]
    assert names(host, "-n", "billing", "api-0") == ["api-0"]
    assert names(host, "-A", "-n", "billing") == names(host, "--all-namespaces") == names(host)
    assert "unknown pod or container" in host.run("list", "-n", "billing", "web-0").stderr
    assert "No monitored pods match" in host.run("list", "-n", "nobody").stdout


def test_list_selects_pods_by_label(host: MonitoredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {KEYS[0]: {"app": "web"}, KEYS[1]: {"app": "db"}}
    monkeypatch.setattr("resctrl_hooks.core.cli.list_options.labels_of", lambda node, pod: labels.get(pod.key, {}))
    assert names(host, "-l", "app=web") == ["shop/web-0"]
    assert names(host, "-l", "app notin (web)") == ["shop/db-0", "billing/api-0"]
    done = host.run("list", "-l", "app<3")
    assert done.exit_code == 2
    assert "'app<3' is not a valid requirement" in done.stderr


def test_json_and_yaml_share_envelope_and_key_style(host: MonitoredHost) -> None:
    made: Any = host.json("list")
    assert [*made][:4] == ["apiVersion", "kind", "host", "time"]
    assert (made["apiVersion"], made["kind"], made["host"]) == ("resctrl-hooks/v1", "PodList", os.uname().nodename)
    assert made["rmids"] == {"total": 16, "used": 4, "free": 12}
    (pod,) = [pod for pod in made["items"] if pod["key"] == KEYS[1]]
    assert (pod["name"], pod["state"], pod["containers"][1]["threadsOutside"]) == ("shop/db-0", "partly", 1)
    assert pod["startTime"].endswith("Z")
    assert not [key for key in _keys(made) if "_" in key]
    again = yaml.safe_load(host.run("list", "-o", "yaml").stdout)
    assert [item["key"] for item in again["items"]] == [item["key"] for item in made["items"]]
    assert {"pods", "foreign", "waiting"} & set(made) == set()


def test_csv_has_plain_numbers_and_one_line_per_pod(host: MonitoredHost) -> None:
    rows = list(csv.DictReader(io.StringIO(host.run("list", "-o", "csv").stdout)))
    assert [(row["namespace"], row["pod"], row["tasks"], row["threadsOutside"]) for row in rows] == [
        ("shop", "db-0", "1", "1"),
        ("billing", "api-0", "2", "0"),
        ("shop", "web-0", "1", "0"),
    ]
    assert len(host.run("list", "-o", "csv", "--no-headers").stdout.splitlines()) == 3


@pytest.mark.parametrize(
    "form, first", [("csv", "namespace,pod,key,"), ("name", "shop/db-0\n"), ("json", '{"apiVersion": ')]
)
def test_watch_prints_the_requested_form(host: MonitoredHost, form: str, first: str) -> None:
    with failing(time, "sleep", KeyboardInterrupt()):
        watched = host.run("list", "-w", "-o", form)
    assert watched.exit_code == 0
    assert watched.stdout.startswith(first)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)


def test_show_prints_several_pods_in_each_form(host: MonitoredHost) -> None:
    text = host.run("show", "-n", "shop").stdout
    assert text.index("shop/db-0") < text.index("shop/web-0")
    assert text.startswith("shop/db-0\nstate     partly: ")
    assert f"  class /: created, 1 task\n    {host.resctrl}/mon_groups/{KEYS[0]}\n" in text
    made: Any = host.json("show", "web-0", "api-0")
    assert [item["name"] for item in made["items"]] == ["billing/api-0", "shop/web-0"]
    assert made["kind"] == "PodDetailsList"
    assert {counter["unit"] for counter in made["items"][0]["counters"]} == {"By"}
    rows = list(csv.DictReader(io.StringIO(host.run("show", "web-0", "-o", "csv").stdout)))
    assert {row["counter"] for row in rows} == {"llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"}
    done = host.run("show")
    assert done.exit_code == 2
    assert "name a pod" in done.stderr


def test_show_of_waiting_pod_reports_missing_group(host: MonitoredHost) -> None:
    with host.context.monitor.hold(KEYS[5]) as held:
        held.add_member("e" * 64, {"namespace": "shop", "pod": "late-0", "container": "main"}, host.process())
    host.context.ledger.mark("waiting", KEYS[5])
    text = host.run("show", "late-0").stdout
    assert "Groups: none" in text
    assert "not monitored: the pod's group does not exist yet" in text
    assert "outside the group" not in text


@pytest.mark.parametrize(
    "name, words, wrong",
    [
        ("config-show", "config show", {"settings": {"monitoring": {"release": "never"}}}),
        ("config-show", "config show", {"yaml": {"path": "x", "state": "lost", "differences": []}}),
    ],
)
def test_items_of_each_command_match_its_schema(
    host: MonitoredHost, tmp_path: Path, name: str, words: str, wrong: dict[str, Any]
) -> None:
    check_items(host, tmp_path, name, words, wrong)


def check_items(host: MonitoredHost, tmp_path: Path, name: str, words: str, wrong: dict[str, Any], **more: Any) -> None:
    """Check that a command's document fits its schema, and does not with a wrong item; ``more`` are settings."""
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "format": 1,
                "resctrlPath": str(host.resctrl),
                "stateDir": host.context.ledger.folder,
                "rdt": {"enabled": True, "classes": {"background": {"L3": "003", "MB": 30}}},
                "scheduling": {"classes": {"a": {"nice": 1}}},
                "monitoring": {"of-another-version": 1},
                **more,
            }
        )
    )
    made = host.json(*words.split())
    assert refusal(made, schemas()[name]) == ""
    assert refusal(made | {"items": [made["items"][0] | wrong]}, schemas()[name])


def test_reconcile_prints_pod_names(host: MonitoredHost) -> None:
    host.end()
    made = host.json("reconcile")
    item = {"event": "released", "id": KEYS[0], "key": KEYS[0], "namespace": "shop", "pod": "web-0", "container": ""}
    assert item | {"message": ""} in made["items"]
    assert [item["key"] for item in made["items"] if item["event"] == "released"] == KEYS[:3]
