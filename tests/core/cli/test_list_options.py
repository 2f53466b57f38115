"""The options that `list`, `show` and `top` share: which pods, in which order, in which form."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


def test_list_selects_pods_by_namespace_and_name(host: MonitoredHost) -> None:
    os.mkdir(host.resctrl / "mon_groups/somebody")
    assert names(host, "-n", "shop") == ["db-0", "web-0"]
    assert names(host, "--sort", "name", "--reverse")[0] == "shop/web-0"
    assert names(host, "--sort", "tasks")[0] == "billing/api-0"
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
