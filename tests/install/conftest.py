"""Installations that compile nothing twice."""

import pytest

from install.staged import compile_once


@pytest.fixture
def compiles() -> None:
    """For a test that is about what compiling comes to: there it is done."""


@pytest.fixture(autouse=True)
def compiled_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "compiles" not in request.fixturenames:
        monkeypatch.setattr("resctrl_hooks.install.installation.compile_modules", compile_once)
