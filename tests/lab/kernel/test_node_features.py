"""The file for node-feature-discovery: what the kernel proves, with a class that is gone afterwards."""

import os
from pathlib import Path

from hosts.node_features import labels

from kernel.groups import Resctrl
from kernel.installed import Installed
from resctrl_hooks.core.node.nfd.features import FIRST, PREFIX


def test_kernel_proves_the_facts_and_keeps_no_class(resctrl: Resctrl, tmp_path: Path) -> None:
    file = tmp_path / "features.d/resctrl-hooks"
    file.parent.mkdir()
    file.write_text(FIRST)
    before = sorted(os.listdir(os.environ["RESCTRL_ROOT"]))
    installed = Installed(str(tmp_path / "installed"), nodeFeaturesPath=str(file))
    installed.reconcile()
    found = {key.removeprefix(PREFIX): value for key, value in labels(file.parent).items()}
    yes = {"monitoring", "bandwidth", "allocation", "allocation.L3", "allocation.MB"}
    assert {key for key, value in found.items() if value == "true"} == yes, installed.said()
    info = Path(os.environ["RESCTRL_ROOT"], "info")
    numbers = {"rmids": info / "L3_MON/num_rmids", "closids": info / "L3/num_closids"}
    assert {name: found[name] for name in numbers} == {name: of.read_text().strip() for name, of in numbers.items()}
    assert sorted(os.listdir(os.environ["RESCTRL_ROOT"])) == before
