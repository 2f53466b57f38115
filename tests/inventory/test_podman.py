"""Podman's names, from Podman itself and from the storage of its containers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.inventory import podman
from resctrl_hooks.inventory.podman import PodmanNames, podman_names, serves_podman, stored_names

NOTHING = PodmanNames({}, {})
LINES = "a\tweb,other\t\t\nb\tdb\tp\tshop\nc\tlost\tq\t\nd\tnameless\t\tr\nbroken\tline\ne\ttoo\tmany\tfields\there\n"


def prints(text: str, status: int = 0) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r}, end=''); raise SystemExit({status})")


def test_first_name_of_a_container_and_the_name_of_its_pod_are_used() -> None:
    names = {"a": "web", "b": "db", "c": "lost", "d": "nameless"}
    assert podman_names(prints(LINES)) == PodmanNames(names, {"p": "shop"})


@pytest.mark.parametrize("command", [("/nowhere/podman",), prints(LINES, 125), ("sleep", "9")])
def test_podman_that_does_not_answer_has_no_names(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setattr(podman, "_SECONDS", 0.1 if command[0] == "sleep" else 20)
    assert podman_names(command) == NOTHING


def test_node_serves_podman_if_any_container_is_podmans(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        for number, runtime, serves in ((0, "cri-o", False), (1, "podman", True), (2, "crun", True)):
            with host.context.monitor.hold(KEYS[number]) as locked:
                locked.add_member(f"{number}" * 64, {"runtime": runtime})
            assert serves_podman(host.context) is serves


@pytest.mark.parametrize(
    "value, names",
    [
        ([{"id": "a", "names": ["web", "alias"]}, {"id": "b", "names": ["db"]}], {"a": "web", "b": "db"}),
        ([{"id": "a", "names": []}, {"id": "b"}, {"id": "c", "names": "text"}, "text", {"names": ["x"]}], {"": "x"}),
        ({"id": "a", "names": ["web"]}, {}),
        ("text", {}),
    ],
)
def test_names_of_storage_are_those_of_usable_entries(tmp_path: Path, value: Any, names: dict[str, str]) -> None:
    (tmp_path / "containers.json").write_text(json.dumps(value))
    (tmp_path / "volatile-containers.json").write_text("{damaged")
    assert stored_names([str(tmp_path / "a/userdata"), str(tmp_path / "b/userdata")]) == names
    assert stored_names(["a/userdata", ""]) == {}
