"""Annotations of NRI plugins that nothing reads: each is named, once for a pod."""

import json
from typing import Any

from click.testing import CliRunner
from conftest import Host

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.container.unread_annotations import unread_annotations

NRI = "resource-policy.nri.io"
COLD, PRIORITY = f"cold-start.{NRI}", f"prefer-cpu-priority.{NRI}"


def test_annotation_is_named_without_its_container() -> None:
    unread = {
        f"{PRIORITY}/container.c0": PRIORITY,
        f"{COLD}/pod": COLD,
        f"{NRI}/cold-start": f"{NRI}/cold-start",
        "policy.memory-policy.nri.io/c0": "policy.memory-policy.nri.io",
    }
    read = [f"{NRI}/affinity", "class.memory-policy.nri.io", f"rdtclass.{NRI}/container.c0", "devices.nri.io/c0", "app"]
    assert unread_annotations([*unread, *read]) == sorted(unread.values())


def test_unread_annotations_are_logged_once_per_pod_and_shown(host: Host, pod: dict[str, Any]) -> None:
    pod["annotations"] |= {f"{PRIORITY}/container.c0": "dram", COLD: "quick", f"rdtclass.{NRI}": "gold"}
    said = f"annotations of NRI plugins are not read: {COLD}, {PRIORITY}; see docs/comparison.md"
    explained = CliRunner().invoke(main, ["--config", str(host.config), "explain", "--json"], input=json.dumps(pod))
    (item,) = json.loads(explained.stdout)["items"]
    assert item["notes"] == [f"annotations of NRI plugins that are not read: {COLD}, {PRIORITY}"]
    assert said in host.call(pod).log
    assert said not in host.call(pod).log
    shown = CliRunner().invoke(main, ["--config", str(host.config), "show", "web-0"]).output
    assert f"not read annotations {COLD}, {PRIORITY}" in " ".join(shown.split())
