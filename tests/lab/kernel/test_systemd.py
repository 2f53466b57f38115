"""Behaviour of a guest with systemd as init: scopes, units and the journal."""

import socket
import uuid

import pytest

from kernel.cgroups import cgroup_of
from kernel.containers import Containers
from kernel.runtimes import run, wait_until

pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd")]
JOURNAL = "/run/systemd/journal/socket"


def test_daemon_reload_undoes_manual_writes_to_scope(containers: Containers) -> None:
    high = cgroup_of(containers.create("c1", hooks={})) / "memory.high"
    assert high.read_text() == "max\n"
    high.write_text("64M")
    run(["systemctl", "daemon-reload"])
    # crun puts the container into a cgroup of its own below the scope, which systemd doesn't know.
    after = {"runc": "max\n", "crun": f"{64 << 20}\n"}[containers.runtime.name]
    wait_until(lambda: high.read_text() == after, "daemon-reload restores the scope's own settings")


def test_journal_accepts_fields() -> None:
    mark = uuid.uuid4().hex
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.sendto(f"MESSAGE=hello\nRESCTRL_TEST={mark}\n".encode(), JOURNAL)
    search = ["journalctl", "--no-pager", "-o", "cat", f"RESCTRL_TEST={mark}"]
    wait_until(lambda: run(search).strip() == "hello", "the entry is in the journal")
