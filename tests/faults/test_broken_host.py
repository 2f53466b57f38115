"""On a broken host containers start under ``ignore``, and are refused with one line under ``fail``."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import UID, Host, Outcome, state


def called(host: Host, told: dict[str, Any], *wrapper: str) -> Outcome:
    """Return a whole process, as a runtime starts it."""
    done = subprocess.run(
        [*wrapper, *host.command()], input=json.dumps(told).encode(), capture_output=True,
        env={"PATH": "/usr/bin:/bin"}, cwd="/", check=False,
    )  # fmt: skip
    assert done.stdout == b""
    return Outcome(done.returncode, done.stderr.decode(), "")


def read_only(folder: Path) -> list[str]:
    """Return a command prefix under which ``folder`` is read-only."""
    made = f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'"
    return ["unshare", "--mount", "/bin/sh", "-ec", f'{made} && exec "$@"', "sh"]


def state_below_a_file(host: Host) -> list[str]:
    host.state.parent.touch()
    return []


def state_read_only(host: Host) -> list[str]:
    host.context().ledger.prepare()
    return read_only(host.state)


def state_that_can_not_be_made(host: Host) -> list[str]:
    host.state.parent.mkdir()
    return read_only(host.state.parent)


def state_full(host: Host) -> list[str]:
    host.state.parent.mkdir()
    made = f"mount -t tmpfs -o nr_inodes=3 none '{host.state.parent}'"
    return ["unshare", "--mount", "/bin/sh", "-ec", f'{made} && exec "$@"', "sh"]


def resctrl_not_mounted(host: Host) -> list[str]:
    for name in ("info", "mon_groups", "mon_data"):
        (host.resctrl / name).rmdir()
    return []


def resctrl_gone(host: Host) -> list[str]:
    (host.resctrl / "tasks").unlink()
    resctrl_not_mounted(host)
    host.resctrl.rmdir()
    return []


def resctrl_read_only(host: Host) -> list[str]:
    return read_only(host.resctrl)


def no_bundle(host: Host) -> list[str]:
    (host.root / "bundle/config.json").unlink()
    return []


BROKEN: list[tuple[Callable[[Host], list[str]], str]] = [
    (state_below_a_file, "the state directory must be"),
    (state_read_only, "EROFS"),
    (state_that_can_not_be_made, "the state directory must be"),
    (state_full, "ENOSPC"),
    (resctrl_not_mounted, "resctrl is not mounted at"),
    (resctrl_gone, "resctrl is not mounted at"),
    (resctrl_read_only, "EROFS"),
    (no_bundle, "/config.json: No such file or directory"),
]


@pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])
@pytest.mark.parametrize("breaks, words", BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_host_lets_containers_start(
    host: Host, pod: dict[str, Any], breaks: Callable[[Host], list[str]], words: str, policy: str, code: int
) -> None:
    host.configure(failurePolicy=policy, log={"target": "none"})
    wrapper = breaks(host)
    outcome = called(host, pod, *wrapper)
    assert outcome.code == code
    assert outcome.stderr.count("\n") == 1
    assert words in outcome.stderr
    if policy == "fail":
        assert "container rejected" in outcome.stderr
    assert host.groups() == []
    stop = called(host, state(status="stopped", pid=0, annotations={}), *wrapper)
    assert stop.code == 0
    assert stop.stderr.count("\n") <= 1


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize("garbage", [b"{", b'{"format":1,"stateDir":"x"}'])
def test_damaged_settings_let_containers_start(host: Host, pod: dict[str, Any], garbage: bytes, policy: str) -> None:
    """Only the last valid settings could refuse containers; without them, none is refused."""
    host.configure(failurePolicy=policy)
    last = host.root / "config.last.json"
    last.write_bytes(host.config.read_bytes())
    host.config.write_bytes(garbage)
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert "the last valid settings stay active" in outcome.stderr
    assert host.groups() == [f"mon_groups/{UID}"]
    assert called(host, pod | {"annotations": {"io.kubernetes.cri-o.ContainerType": "x"}}).code == (
        79 if policy == "fail" else 0
    )
    last.unlink()
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert "container skipped" in outcome.stderr
    assert called(host, state(status="stopped")).code == 0


def test_settings_writable_by_others_are_ignored(host: Host, pod: dict[str, Any]) -> None:
    host.config.chmod(0o666)
    outcome = called(host, pod)
    assert (outcome.code, outcome.stderr.count("\n")) == (0, 1)
    assert host.groups() == []
