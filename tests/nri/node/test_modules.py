"""The modules in the plugin's processes: each takes memory in all of them."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Host

from resctrl_hooks.core.node.parts import PARTS
from resctrl_hooks.nri import node as nri

CODE = """
import sys
from resctrl_hooks.core.node.host.notify import Notify
from resctrl_hooks.nri.node import command, plugin
from resctrl_hooks.nri.node.status import Status
plugin.NodePlugin("p", "97", sys.argv[1], notify=Notify(), status=Status(sys.argv[2], ""), stderr=False)
print(*(name.removeprefix("resctrl_hooks.") for name in sys.modules))
"""
FOR_CREATIONS = {"nri.node.creation", "nri.node.adjustments"}
FOR_CPUSETS = {"placement.node.allocations", "placement.node.specified"}
FOR_FEW = (
    FOR_CREATIONS
    | FOR_CPUSETS
    | {"core.node.watch.watcher", "core.node.reconcile.reconcile", "core.node.features.rdt_class"}
)


@pytest.mark.houses("placement")
@pytest.mark.parametrize(
    "config, needed",
    [
        ({}, set()),
        ({"failurePolicy": "fail"}, FOR_CREATIONS),
        ({"nri": {"adjust": ["placement"]}, "placement": {"enabled": True}}, FOR_CREATIONS | FOR_CPUSETS),
        ({"rdt": {"enabled": True}}, {"core.node.features.rdt_class"}),
    ],
    ids=["defaults", "refusals", "adjustments", "a feature"],
)
def test_modules_are_imported_if_settings_need_them(host: Host, config: dict[str, Any], needed: set[str]) -> None:
    host.configure(**config)
    words = [sys.executable, "-c", CODE, str(host.config), str(host.state)]
    found = set(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())
    assert found & FOR_FEW == needed


@pytest.mark.houses("placement")
def test_plugin_names_no_feature_of_another_house() -> None:
    features = {name for part in PARTS for name in part.get("features", {})}
    sources = [path.read_text() for path in Path(nri.__file__).parent.glob("*.py")]
    words = {one.value for text in sources for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant)}
    assert features == {"placement"}
    assert not features & words
