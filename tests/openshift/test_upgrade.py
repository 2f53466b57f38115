"""From 0.1 to this version, and back, while containers run on a simulated resctrl: files as a MachineConfig brings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from core.install.installed_node import InstalledNode, installed_node
from core.install.staged import FIRST, deliver

from resctrl_hooks.core.cli import main

HOUSES = ("lab",)
WEB, DB, NEW = "a" * 64, "b" * 64, "c" * 64
pytestmark = pytest.mark.fuse


class Delivered(InstalledNode):
    """A host to which a version's MachineConfig brings its code."""

    def hook(self) -> list[str]:
        """Return the command line that is in hooks' JSON, and so in each container's bundle."""
        return self.launch("hook")

    def moved(self, id_: str) -> float:
        """Return a container's traffic from this version's counters."""
        mine = [one.value for one in self.host.context.monitor.read(id_) if one.counter.name == "mbm_total_bytes"]
        assert mine
        return sum(value or 0 for value in mine)


@pytest.fixture
def delivered(tmp_path: Path) -> Iterator[Delivered]:
    with installed_node(tmp_path, Delivered) as found:
        yield found


@pytest.mark.parametrize("before, after", [("0.1", "this"), ("this", "0.1")], ids=["upgrade", "downgrade"])
def test_running_containers_keep_their_groups_and_counts(delivered: Delivered, before: str, after: str) -> None:
    texts = {"0.1": FIRST.read_text(), "this": CliRunner().invoke(main, ["machineconfig"]).stdout}
    deliver(delivered.root, texts[before])
    delivered.start(WEB)
    delivered.start(DB)
    groups = delivered.groups()
    assert groups.keys() == {WEB, DB}
    moved = delivered.moved(WEB)
    assert moved > 0

    deliver(delivered.root, texts[after])

    delivered.reconcile()
    assert delivered.groups() == groups
    assert delivered.is_in_group(WEB)
    assert delivered.is_in_group(DB)
    assert delivered.moved(WEB) >= moved
    delivered.start(NEW)
    delivered.end(DB)  # by the command that its bundle has, with the other version's record
    assert delivered.groups().keys() == {WEB, NEW}
    delivered.end(WEB)
    delivered.end(NEW)
    delivered.reconcile()
    assert delivered.groups() == {}
    assert list(delivered.host.context.ledger.keys()) == []
