"""Podman's names, from Podman itself and from the storage of its containers."""

import sys
from pathlib import Path

import pytest
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.core.inventory import podman
from resctrl_hooks.core.inventory.podman import PodmanNames, podman_names, serves_podman

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
