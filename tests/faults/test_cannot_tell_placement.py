"""A read of placement that fails says nothing: exclusive CPUs stay their container's, and nobody else gets them."""

import errno
from contextlib import suppress
from typing import Any

import pytest
from conftest import Host
from hosts.faults import failing
from hosts.placed import PlacedHost

from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.features.placement import allocations, kubelet, others
from resctrl_hooks.node.host import procfs
from resctrl_hooks.node.host.cpulist import parse_list
from resctrl_hooks.node.ledger import Ledger
from resctrl_hooks.node.reconcile.reconcile import reconcile

CPUS = "cpus.resctrl-hooks.io"
READS: dict[str, tuple[Any, str]] = {
    "allocations and topology": (allocations, "read_file"),
    "online CPUs": (allocations, "kernel_text"),
    "kubelet's state": (kubelet, "read_file"),
    "folders of others": (others, "list_folder"),
    "/proc": (procfs, "read_kernel_file"),
    "records of containers": (Ledger, "read_member"),
}
"""Reads of placement in a pass of reconcile: each one's owner and name."""


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=lambda number: errno.errorcode[number])
@pytest.mark.parametrize("operation", READS.values(), ids=READS)
def test_exclusive_cpus_stay_while_placement_cannot_read(host: Host, operation: tuple[Any, str], number: int) -> None:
    node = PlacedHost(host)
    (host.root / "kubelet").mkdir()
    (host.root / "kubelet/cpu_manager_state").write_text('{"policyName": "none"}')
    node.start("gold", 4000, **{CPUS: "exclusive"})
    node.start("bronze", 500)
    before = {name: node.cpus(name) for name in ("gold", "bronze")}
    assert parse_list(before["gold"]).bit_count() == 4
    asked: list[Any] = []
    context = host.context()

    def ask(*words: Any, **_: Any) -> bool:
        asked.append(words)
        return True

    with failing(*operation, OSError(number, "no answer", "/some/file"), when=ask), suppress(HookError):
        reconcile(context)
    assert asked
    assert {name: node.cpus(name) for name in before} == before
    reconcile(host.context())
    assert {name: node.cpus(name) for name in before} == before
    node.start("new", 4000, **{CPUS: "exclusive"})
    assert not parse_list(node.cpus("new")) & parse_list(before["gold"])
