"""Metrics of a machine with one bandwidth counter in each domain."""

from pathlib import Path

from hosts.simulated_kernel import Layout
from layouts.test_one_counter import EACH, counted, node_of

from resctrl_hooks.core.node.reconcile.release import release_everything
from resctrl_hooks.core.node.sharing.released_counters import FILE
from resctrl_hooks.observe.metrics.classes import class_totals
from resctrl_hooks.observe.node.snapshot.snapshot import take

HOUSES = ("lab",)


@EACH
def test_root_group_gets_its_counter_back_at_the_uninstallation(tmp_path: Path, layout: Layout) -> None:
    node = node_of(tmp_path, layout)
    node.kernel.show_counters()
    node.host.configure(monitoring={"capacity": {"*": 1e9}})
    with class_totals(node.context(), take(node.context())):
        pass  # the totals' files stay apart from the record of the counters
    assert not release_everything(node.context()).problems
    assert counted(node) == [""]
    assert not (node.host.state / FILE).exists()
