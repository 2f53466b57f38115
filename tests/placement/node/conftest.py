"""A host whose containers are placed."""

import pytest
from conftest import Host
from hosts.ledgers import ledger
from hosts.placed import PlacedHost

__all__ = ("ledger",)


@pytest.fixture
def node(host: Host) -> PlacedHost:
    return PlacedHost(host)
