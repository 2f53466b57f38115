"""A fresh Podman host whose processor has no RDT: two commands, and a starved container has its culprit."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.bundles import FIRST_INSTRUCTION
from kernel.groups import Place, parse_place
from kernel.installed import CONFIG, clear_host, configure_host, failed_units, resctrl_hook, state_of, succeeds
from kernel.runtimes import IMAGE, Podman, cgroup_of, run, wait_until
from resctrl_hooks.core.install import units
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.service import GUARD

pytestmark = [pytest.mark.guest(init="systemd", cpus=2, rdt=0), pytest.mark.only(driver="systemd", runtime_name="crun")]
STATUS = Path("/run/resctrl-hooks", SLOWDOWN_STATUS)
DEADLINE = "deadlineSeconds: 8\n"  # emulation is ten times slower than the hardware of the default
BUSY = "while :; do :; done"


@pytest.fixture
def engine(podman: Callable[..., Podman]) -> Iterator[Podman]:
    """Return Podman with a container beside one that wants its CPU three times, after an installation."""
    assert not os.path.exists("/sys/fs/resctrl"), "the kernel has no resctrl"
    clear_host()
    succeeds("install", "--runtime", "podman")
    configure_host(DEADLINE + CONFIG.read_text())
    made = podman()
    for name, command in (("victim", BUSY), ("hog", f"for each in 1 2 3; do {BUSY} & done; wait")):
        made.run(IMAGE, command, "--detach", f"--name={name}", "--cpuset-cpus=0")
    yield made
    made.clean()
    clear_host()


def check_contention(found: dict[str, Any], **culprit: str) -> None:
    (cause,) = [one for one in found["causes"] if one["cause"] == "cpu-contention"]
    assert (found["verdict"], cause["state"]) == ("slowed", "supported"), found
    assert any(culprit.items() <= one.items() for one in cause["pods"]), cause


def judged(key: str) -> dict[str, Any]:
    """Return what the sampling process found of a slowed container; empty before that."""
    pods: dict[str, dict[str, Any]] = json.loads(STATUS.read_text()).get("pods", {}) if STATUS.exists() else {}
    return pods[key] if key in pods and pods[key]["verdict"] == "slowed" else {}


def test_starved_container_has_its_culprit_within_a_minute_and_nothing_fails(engine: Podman) -> None:
    began = time.monotonic()
    (found,) = json.loads(succeeds("diagnose", "victim", "--for", "30s", "-o", "json"))["items"]
    print(f"diagnosis after {time.monotonic() - began:.0f} s: {found['ratio']} times")
    check_contention(found, name="hog")
    for _ in range(3):
        assert parse_place(engine.command("run", "--rm", "--network=none", IMAGE, *FIRST_INSTRUCTION)) == Place("", "")
    for _ in range(2):
        run(["systemctl", "start", units.RECONCILE])
    victim, hog = (engine.inspect(name, "{{.Id}}") for name in ("victim", "hog"))
    wait_until(lambda: judged(victim), "the sampling process judges the container")
    check_contention(judged(victim), key=hog)
    assert {one["state"] for one in json.loads(succeeds("list", "-o", "json"))["items"]} == {"no-rdt"}
    assert "victim" in succeeds("top", "--once")
    assert (state_of(GUARD), run(["systemctl", "show", "-P", "NRestarts", GUARD]).strip()) == ("active", "0")
    maximum = cgroup_of(int(engine.inspect("hog", "{{.State.Pid}}"))) / "cpu.max"
    assert "cpu.max max 100000 -> 20000 100000" in succeeds("limit", "hog", "--cpu", "20%")
    assert maximum.read_text() == "20000 100000\n"
    assert "need RDT: this node has no resctrl" in resctrl_hook("limit", "hog", "--mb", "30").output
    succeeds("unlimit", "hog")
    assert maximum.read_text() == "max 100000\n"
    words = ("--apply", "--yes", "--sample", "30s", "--for", "10m", "-o", "json")
    (found,) = json.loads(succeeds("diagnose", "victim", *words))["items"]
    applied = found["applied"]
    assert applied["command"].startswith("resctrl-hook limit hog --cpu "), found
    assert applied["waitsAfter"] < 0.6 * found["ratio"], found
    assert maximum.read_text() != "max 100000\n"
    succeeds("unlimit", "--all")
    assert failed_units() == ""
    lines = run(["journalctl", "-t", "resctrl-hook", "--no-pager", "-q", "-o", "cat"]).splitlines()
    without_ids = [re.sub("[0-9a-f]{64}", "ID", line) for line in lines]
    assert len({*without_ids}) == len(without_ids), "no line for each container"
    assert sum("this node has no resctrl" in line for line in lines) == 1
