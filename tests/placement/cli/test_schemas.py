"""The documents of commands with placement fit their schemas."""

from pathlib import Path
from typing import Any

import pytest
from core.cli.test_list_show import check_items, host
from hosts.monitored import MonitoredHost

HOUSES = ("lab",)
__all__ = ("host",)
pytestmark = pytest.mark.fuse


@pytest.mark.parametrize(
    "name, words, wrong",
    [
        ("topology", "topology --usage", {"nodes": [{"id": "0"}]}),
        ("topology", "topology", {"cores": {}}),
        ("config-show", "config show", {"settings": {"monitoring": {"release": "never"}}}),
    ],
)
def test_items_of_each_command_match_its_schema(
    host: MonitoredHost, tmp_path: Path, name: str, words: str, wrong: dict[str, Any]
) -> None:
    classes = [{"name": "a", "energyPerformancePreference": None}]
    check_items(host, tmp_path, name, words, wrong, placement={"cpuClasses": classes})
