"""A node for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    from hosts.cluster import Cluster  # noqa: PLC0415 - it needs lab, which can be missing

    return Cluster(tmp_path)
