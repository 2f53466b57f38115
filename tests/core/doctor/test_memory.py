"""doctor on a node's requirements for memory classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from conftest import FIXTURES

from resctrl_hooks.core.doctor.memory import requirements
from resctrl_hooks.core.node.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.core.doctor.finding import Finding

SAMPLE = yaml.safe_load((FIXTURES / "nri-memtierd.yaml").read_text())


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Any]:
    """Return a node without anything that memory classes need."""
    for name in ("cgroup", "proc", "sys"):
        (tmp_path / name).mkdir()
    section = {"runDir": str(tmp_path / "run"), "binary": str(tmp_path / "memtierd")}
    folders = {f"{name}Path": str(tmp_path / name) for name in ("cgroup", "proc", "sys")}
    return {**folders, "memtierd": section}


def looked(**values: Any) -> dict[str, Finding]:
    return {check.text.partition(": ")[0]: check for check in requirements(Settings(values))}


def test_no_classes_need_no_checks(paths: dict[str, Any]) -> None:
    assert looked(**paths) == {}


def test_bare_node_lacks_requirements_of_plugin_sample(paths: dict[str, Any], tmp_path: Path) -> None:
    found = looked(**SAMPLE, **paths)
    levels = {name: check.level for name, check in found.items()}
    assert levels.items() >= {
        ("cgroup", "problem"),
        ("swap", "warning"),
        ("memtierd", "problem"),
        ("tracker idlepage", "problem"),
        ("memtierd supervision", "ok"),
    }
    assert "swap-idle-data" in found["swap"].text
    assert all(check.remedy for check in found.values() if check.level != "ok")


def test_complete_node_meets_all_requirements(paths: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "cgroup/cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "proc/meminfo").write_text("SwapTotal: 2048 kB\n")
    (tmp_path / "sys/kernel/mm/page_idle").mkdir(parents=True)
    (tmp_path / "memtierd").write_text("#!/bin/sh\n")
    (tmp_path / "memtierd").chmod(0o755)
    found = looked(**SAMPLE, **paths)
    found.pop("capabilities", None)  # the tests' own process may have fewer than a hook
    assert {check.level for check in found.values()} == {"ok"}
    assert found["swap"].text == "swap: 2 MiB of swap space"


def test_missing_memory_controller_is_reported(paths: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "cgroup/cgroup.controllers").write_text("cpu\n")
    found = looked(classes=[{"name": "a", "allowswap": False}], **paths)
    assert list(found) == ["cgroup"]
    assert "no memory controller" in found["cgroup"].text
