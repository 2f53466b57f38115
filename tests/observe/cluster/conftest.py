"""A fake cluster for the tests of this folder, in whose commands no time passes but the interval."""

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace

import pytest

from resctrl_hooks.observe.cluster import readings

from .fake_cluster import FakeCluster, running


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Return an API server without nodes."""
    now = ContextVar("now", default=0.0)  # each node's reading runs in a context of its own

    async def sleep(seconds: float) -> None:
        now.set(now.get() + seconds)

    monkeypatch.setattr(readings, "asyncio", SimpleNamespace(sleep=sleep, TaskGroup=asyncio.TaskGroup))
    monkeypatch.setattr(readings, "time", SimpleNamespace(monotonic=now.get))
    with running(tmp_path) as found:
        yield found
