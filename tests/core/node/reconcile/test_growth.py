"""Reconcile is linear: counted in calls of functions, which no busy machine disturbs, on the bench's own host."""

import importlib.util
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

HOUSES = ("lab",)
BENCH = Path(__file__).parents[3] / "lab/bench/reconcile.py"
SIZES = (20, 40, 80)
ABOUT = 0.02
"""Tolerance of linearity: constant work counts more for few containers."""
SYSTEM_CALLS = 14
"""For each container, alone in its pod, with one thread."""


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_reconcile", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH.parent)  # for the bench's own imports
        spec.loader.exec_module(module)
    return module


def calls_of(host: Any, module: str = "") -> int:
    """Return how many functions one reconcile calls, those in C included; only those of a C module, if one is named."""
    context = host.context
    count = 0

    def see(_frame: FrameType, event: str, called: object) -> None:
        nonlocal count
        if module:
            count += event == "c_call" and getattr(called, "__module__", "") == module
        else:
            count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        report = reconcile(context, Options(wait=False))
    finally:
        sys.setprofile(before)
    assert report.ok
    assert not report.changed
    return count


def test_doubled_containers_double_system_calls(tmp_path: Path) -> None:
    hosts = bench().Host
    few, some, many = (calls_of(hosts(tmp_path / str(size), size)) for size in SIZES)
    assert few > 0
    first, second = some - few, many - some
    assert abs(second / first - 2) < 2 * ABOUT, (few, some, many)


def test_reconcile_that_changes_nothing_makes_few_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = bench()
    monkeypatch.setattr(module, "PER_POD", 1)
    few, many = (calls_of(module.Host(tmp_path / str(size), size), "posix") for size in SIZES[:2])
    assert many - few <= SYSTEM_CALLS * (SIZES[1] - SIZES[0])
