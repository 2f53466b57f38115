"""Placement on a node that cannot have resctrl, or monitoring in it."""

import pytest
from conftest import Host
from faults.test_no_resctrl import node, start, succeeds_without_remark

__all__ = ("node",)
COMMANDS = ("list -o wide", "list --json", "list --demand", "show -n shop", "topology --usage", "reconcile --dry-run")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_succeeds_without_remark_about_mounts(node: Host, command: str) -> None:
    node.configure(placement={"enabled": True}, sysPath="/sys")
    start(node)
    succeeds_without_remark(node, *command.split())
