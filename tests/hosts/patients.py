"""The patient of each test, or a staged host for the checks of one subject."""

import functools
import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from core.doctor.patient import Patient
from core.doctor.unrecorded import Node
from core.install.staged import CONFIG, put

from resctrl_hooks import __version__
from resctrl_hooks.core.doctor.finding import Finding
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.core.install.payload import Payload, payload


@pytest.fixture
def patient(tmp_path: Path, one_version: None) -> Patient:
    return Patient(tmp_path)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@functools.cache
def shipped() -> Payload:
    """Return this version's node half; to read it takes a second of processor time."""
    return payload([])


@pytest.fixture
def one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the installed and the running version equal, even while the node half is being edited."""
    for module in ("plan", "payload"):
        monkeypatch.setattr(f"resctrl_hooks.core.install.{module}.payload", lambda *_, **__: shipped())


@pytest.fixture
def staged(tmp_path: Path) -> Host:
    """Return a host with an installation for CRI-O and an empty state directory."""
    return staged_host(tmp_path)


def lines(findings: Iterable[Finding]) -> str:
    return "\n".join(f"{finding.level}: {finding.text}; {finding.remedy}" for finding in findings)


def staged_host(root: Path, runtime: str = "crio") -> Host:
    """Return a host below a folder, with an installation for a runtime and an empty state directory."""
    put(root, runtime=runtime)
    made = Host(CONFIG, str(root))
    made.settings.state_dir = str(root / "state")
    (root / "state").mkdir()
    return made


def run_service(host: Host, status: str, *, code_age: int) -> None:
    """Let a service run whose process started some seconds after the code was written."""
    (Path(host.settings.state_dir) / status).write_text(json.dumps({"pid": os.getpid()}))
    started = Path(f"/proc/{os.getpid()}").stat().st_ctime
    os.utime(host.tree.real(LAUNCH), (started - code_age, started - code_age))


def older(name: str) -> str:
    """Return the finding for a service that runs older code, as a line."""
    unit = f"resctrl-hooks-{name}.service"
    return f"warning: {unit} still runs the code of an earlier version than {__version__}; systemctl restart {unit}"
