"""Reconcile is linear: counted in calls of functions, which no busy machine disturbs, on the bench's own host."""

import importlib.util
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options

BENCH = Path(__file__).parents[2] / "bench/reconcile.py"
SIZES = (20, 40, 80)
ABOUT = 0.02
"""How far from linear it may be: what is done once has to be paid by few containers, too."""


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_reconcile", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls_of(host: Any) -> int:
    """Return how many functions one reconcile calls, those in C included."""
    context = host.context
    count = 0

    def see(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
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
