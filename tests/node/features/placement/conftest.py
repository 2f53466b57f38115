"""A host whose containers are placed."""

import pytest
from conftest import Host
from hosts.placed import PlacedHost


@pytest.fixture
def node(host: Host) -> PlacedHost:
    return PlacedHost(host)
