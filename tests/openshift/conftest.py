"""The MachineConfig for defaults."""

from collections.abc import Iterator
from typing import Any

import pytest
from hosts.node_half import payload_once

from openshift.rendering import value_of
from resctrl_hooks.openshift import delivery


@pytest.fixture(autouse=True, scope="package")
def _payload_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "payload", payload_once)
        yield


@pytest.fixture
def value() -> dict[str, Any]:
    return value_of()
