"""A host on which commands of the house run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.monitored import MonitoredHost, host_of_counted_pod


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a host with pod shop/web."""
    with host_of_counted_pod(tmp_path) as host:
        yield host
