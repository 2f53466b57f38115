"""A node for each test."""

from pathlib import Path

import pytest
from hosts.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    from hosts.cluster import Cluster  # noqa: PLC0415 - it needs lab, which can be missing

    return Cluster(tmp_path)
