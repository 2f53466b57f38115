"""The MachineConfig for defaults."""

import copy
from typing import Any

import pytest
import yaml

from openshift.rendering import rendered


@pytest.fixture(scope="module")
def text() -> str:
    return rendered()


@pytest.fixture(scope="module")
def parsed(text: str) -> dict[str, Any]:
    """Parsing takes a third of a second: once for all."""
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.fixture
def value(parsed: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(parsed)
