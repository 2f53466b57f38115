"""Installations that compile nothing twice."""

import pytest

from install.staged import compile_once


@pytest.fixture
def compiles() -> None:
    """Enable real compilation for tests of its results."""


@pytest.fixture(autouse=True)
def compiled_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "compiles" not in request.fixturenames:
        monkeypatch.setattr("resctrl_hooks.install.installation.compile_modules", compile_once)
