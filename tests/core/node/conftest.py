"""Fixtures of this folder's tests that others have too."""

from pathlib import Path
from typing import Any

import pytest
from hosts.ledgers import ledger, open_umask

__all__ = ("ledger", "open_umask")


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    """Return a node on the simulated kernel."""
    from hosts.cluster import Cluster  # noqa: PLC0415 - it needs lab, which can be missing

    return Cluster(tmp_path)
