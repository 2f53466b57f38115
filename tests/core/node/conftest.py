"""Fixtures of this folder's tests that others have too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.ledgers import ledger, open_umask
from hosts.memtierd import MemtierdHost

__all__ = ("ledger", "open_umask")


@pytest.fixture
def node(host: Host) -> Iterator[MemtierdHost]:
    """Return a host with a stand-in for memtierd."""
    made = MemtierdHost(host)
    yield made
    made.clean()


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    """Return a node on the simulated kernel."""
    from hosts.cluster import Cluster  # noqa: PLC0415 - it needs lab, which can be missing

    return Cluster(tmp_path)
