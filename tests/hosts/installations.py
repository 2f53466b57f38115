"""Installations that parse and compile nothing twice, of any version."""

from collections.abc import Callable

import pytest
from core.install.staged import compile_once

from hosts.node_half import payload_once
from resctrl_hooks.core.install.payload import Payload


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[[Payload], None]:
    """Make the package be a version."""
    return lambda shipped: monkeypatch.setattr("resctrl_hooks.core.install.plan.payload", lambda *_, **__: shipped)


@pytest.fixture
def compiles() -> None:
    """Enable real compilation for tests of its results."""


@pytest.fixture(autouse=True)
def compiled_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.core.install.plan.payload", payload_once)
    if "compiles" not in request.fixturenames:
        monkeypatch.setattr("resctrl_hooks.core.install.installation.compile_modules", compile_once)
