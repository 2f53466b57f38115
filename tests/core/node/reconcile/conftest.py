"""A node for each test."""

from pathlib import Path

import pytest
from hosts.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)
