"""A host with a stand-in for memtierd."""

from collections.abc import Iterator

import pytest
from conftest import Host
from hosts.memtierd import MemtierdHost


@pytest.fixture
def node(host: Host) -> Iterator[MemtierdHost]:
    made = MemtierdHost(host)
    yield made
    made.clean()
