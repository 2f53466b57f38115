"""The patient of each test, or a staged host for the checks of one subject."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from install.staged import CONFIG, put

from doctor.patient import Patient
from resctrl_hooks.doctor.finding import Finding
from resctrl_hooks.doctor.host import Host
from resctrl_hooks.install.payload import payload


@pytest.fixture
def patient(tmp_path: Path, one_version: None) -> Patient:
    return Patient(tmp_path)


@pytest.fixture
def one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the installed and the running version equal, even while the node half is being edited."""
    shipped = payload([])
    for module in ("plan", "payload"):
        monkeypatch.setattr(f"resctrl_hooks.install.{module}.payload", lambda *_, **__: shipped)


@pytest.fixture
def staged(tmp_path: Path) -> Host:
    """Return a host with an installation for CRI-O and an empty state directory."""
    return staged_host(tmp_path)


def lines(findings: Iterable[Finding]) -> str:
    """Return findings as text, a line for each."""
    return "\n".join(f"{finding.level}: {finding.text}; {finding.remedy}" for finding in findings)


def staged_host(root: Path, runtime: str = "crio") -> Host:
    """Return a host below a folder, with an installation for a runtime and an empty state directory."""
    put(root, runtime=runtime)
    made = Host(CONFIG, str(root))
    made.settings.state_dir = str(root / "state")
    (root / "state").mkdir()
    return made
