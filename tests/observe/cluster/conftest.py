"""A fake cluster for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .fake_cluster import FakeCluster, running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    """Return an API server without nodes."""
    with running(tmp_path) as found:
        yield found
