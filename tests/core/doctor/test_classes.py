"""doctor on declared RDT classes that the node does not have as declared."""

from pathlib import Path

import pytest
from conftest import Host as Made

from resctrl_hooks.core.doctor.finding import Finding
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.runner import checks
from resctrl_hooks.core.doctor.state import classes
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.core.rdt.classes import Classes
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)


def found(host: Made) -> list[Finding]:
    return list(classes(Host(str(host.config))))


@pytest.mark.fuse
def test_missing_or_changed_class_is_named_until_it_is_applied(host: Made, tmp_path: Path) -> None:
    assert checks()["classes"].find is classes
    with mounted(tmp_path / "sim") as path:
        root = Path(path)
        declared = {"gold": {"L3": "50%"}, "batch": {"MB": 20}, "rest": {"L3": "25%"}}
        host.configure(resctrlPath=str(root), rdt={"classes": declared})
        (root / "rest").mkdir()
        [finding] = found(host)
        assert finding.level == "warning"
        assert finding.text == "declared RDT classes: gold (missing), batch (missing), rest (differs)"
        assert "`resctrl-hook rdt apply`" in finding.remedy
        Classes.of_node(Context(load(str(host.config))[0])).apply()
        assert [one.level for one in found(host)] == ["ok"]
        (root / "gold/schemata").write_text("L3:0=1\n")
        assert [one.text for one in found(host)] == ["declared RDT classes: gold (differs)"]
