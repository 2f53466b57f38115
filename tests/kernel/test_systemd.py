"""Behaviour of a guest with systemd as init: scopes, units and the journal."""

import os
import socket
import uuid
from collections.abc import Callable

import pytest

from kernel.runtimes import Runtime, run, wait_until

pytestmark = pytest.mark.systemd
JOURNAL = "/run/systemd/journal/socket"


@pytest.fixture(params=["systemd"])
def driver() -> str:
    return "systemd"


def memory_high(pid: int) -> tuple[str, str]:
    """Return the path and content of the process's own cgroup file."""
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as source:
        path = os.path.join("/sys/fs/cgroup", source.read().strip().removeprefix("0::/"), "memory.high")
    with open(path, encoding="ascii") as source:
        return path, source.read().strip()


def test_daemon_reload_undoes_manual_writes_to_scope(runtime: Runtime, bundle: Callable[..., str]) -> None:
    linux = {"cgroupsPath": runtime.cgroups_path("c1")}
    runtime.create("c1", bundle("b", ["/bin/sleep", "1000"], linux=linux))
    path, before = memory_high(runtime.pid("c1"))
    assert before == "max"
    with open(path, "w", encoding="ascii") as out:
        out.write("64M")
    run(["systemctl", "daemon-reload"])
    # crun puts the container into a cgroup of its own below the scope, which systemd doesn't know.
    after = {"runc": "max", "crun": str(64 << 20)}[runtime.name]
    wait_until(lambda: memory_high(runtime.pid("c1"))[1] == after, "daemon-reload restores the scope's own settings")


def test_unit_bound_to_a_scope_ends_with_it(runtime: Runtime, bundle: Callable[..., str]) -> None:
    linux = {"cgroupsPath": runtime.cgroups_path("c2")}
    runtime.create("c2", bundle("b", ["/bin/sleep", "1000"], linux=linux))
    options = ["--collect", "--unit=companion", "-p", "BindsTo=test-c2.scope", "-p", "After=test-c2.scope"]
    run(["systemd-run", *options, "sleep", "1000"])
    assert run(["systemctl", "is-active", "companion"]).strip() == "active"
    runtime.kill("c2")
    runtime.delete("c2")
    wait_until(
        lambda: run(["systemctl", "is-active", "companion"], check=False).strip() == "inactive",
        "the companion ends with the scope",
    )


def test_journal_accepts_fields(tmp_path: object) -> None:
    del tmp_path
    mark = uuid.uuid4().hex
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.sendto(f"MESSAGE=hello\nRESCTRL_TEST={mark}\n".encode(), JOURNAL)
    search = ["journalctl", "--no-pager", "-o", "cat", f"RESCTRL_TEST={mark}"]
    wait_until(lambda: run(search).strip() == "hello", "the entry is in the journal")
