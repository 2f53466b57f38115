"""`list` and `show` on a node: the output for pods in each state, with `--demand`, and in documents."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.monitored import KEYS, MonitoredHost, monitored_host, run
from hosts.shared_node import RULES, SharedNode
from schema_checks import refusal

from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with mounted(tmp_path / "resctrl", rmids=16, energy=True) as path, monitored_host(tmp_path, path) as found:
        yield found


@pytest.mark.fuse
@pytest.mark.parametrize("what", ["shop/never", KEYS[5][:5]])
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


# The options that `list`, `show` and `top` share: which pods, in which order, in which form


def check_items(
    host_of_list_options: MonitoredHost, tmp_path: Path, name: str, words: str, wrong: dict[str, Any], **more: Any
) -> None:
    """Check that a command's document fits its schema, and does not with a wrong item; ``more`` are settings."""
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "format": 1,
                "resctrlPath": str(host_of_list_options.resctrl),
                "stateDir": host_of_list_options.context.ledger.folder,
                "rdt": {"enabled": True, "classes": {"background": {"L3": "003", "MB": 30}}},
                "scheduling": {"classes": {"a": {"nice": 1}}},
                "monitoring": {"of-another-version": 1},
                **more,
            }
        )
    )
    made = host_of_list_options.json(*words.split())
    assert refusal(made, schemas()[name]) == ""
    assert refusal(made | {"items": [made["items"][0] | wrong]}, schemas()[name])


# `list --demand` on a node with more pods than RMIDs, as a table and for programs


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedNode:
    """Return a node with 3 RMIDs for five pods, which commands read through its kernel."""
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    for namespace in ("batch", "batch", "batch", "gold", "silver"):
        node.start(namespace)
    monkeypatch.setattr("resctrl_hooks.core.cli.list.open_node", lambda _: node.context())
    return node


def test_list_demand_has_a_row_for_each_priority_in_each_form(crowded: SharedNode, golden: Golden) -> None:
    for words in ("", "--no-headers", "-o csv", "-o csv --no-headers"):
        done = run(crowded.host, "list", "--demand", *words.split())
        assert done.exit_code == 0, done.output
        golden(done.output, words)
    (item,) = json.loads(run(crowded.host, "list", "--demand", "-o", "json").stdout)["items"]
    assert (item["resource"], item["total"], item["others"]) == ("RMIDs", 4, 1)
    names = ("priority", "wanted", "counted", "kept", "turnPercent")
    levels = [(100, 1, 1, 1, 100.0), (50, 1, 1, 1, 100.0), (-10, 3, 1, 1, 33.3)]
    assert [tuple(level[name] for name in names) for level in item["levels"]] == levels
