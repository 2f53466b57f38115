"""The patient of each test."""

from pathlib import Path

import pytest

from doctor.patient import Patient
from resctrl_hooks.install.payload import payload


@pytest.fixture
def patient(tmp_path: Path, one_version: None) -> Patient:
    return Patient(tmp_path)


@pytest.fixture
def one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the installed and the running version equal, even while the node half is being edited."""
    shipped = payload()
    for module in ("plan", "payload"):
        monkeypatch.setattr(f"resctrl_hooks.install.{module}.payload", lambda: shipped)
