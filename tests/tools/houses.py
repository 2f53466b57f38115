"""Tests that need houses beside their own: pytest does not collect them where one of these houses is missing.

Such a module has a line ``HOUSES = ("lab",)``; a single test of another module is marked `houses("lab")`. `core` and
the house whose folder the module is in need no mention.
"""

import importlib.util
import os
import re
from functools import cache
from pathlib import Path

import pytest

ALL = ("observe", "placement", "nri", "openshift", "lab")
"""The houses that can be removed."""
_LINE = re.compile(r"^HOUSES = \((.*)\)$", re.MULTILINE)


@cache
def missing() -> frozenset[str]:
    project = importlib.util.find_spec("resctrl_hooks")
    folders = list(project.submodule_search_locations or ()) if project else []
    return frozenset(name for name in ALL if not any(os.path.exists(f"{folder}/{name}/part.py") for folder in folders))


def needed(module: Path) -> frozenset[str]:
    found = _LINE.search(module.read_text())
    return frozenset(re.findall(r'"(\w+)"', found[1])) if found else frozenset()


class _WithoutHouse(pytest.Module):
    def collect(self) -> list[pytest.Item | pytest.Collector]:
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leave out a module that needs a missing house, also one that the command line names."""
    absent = missing() and needed(module_path) & missing()
    return _WithoutHouse.from_parent(parent, path=module_path) if absent else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [
        item for item in items if any(missing().intersection(mark.args) for mark in item.iter_markers("houses"))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
