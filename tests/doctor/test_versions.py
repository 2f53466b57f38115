"""doctor on the versions of services and manifests."""

import json
import os
from pathlib import Path

import pytest

from doctor.conftest import lines
from resctrl_hooks import __version__
from resctrl_hooks.doctor.host import Host
from resctrl_hooks.doctor.versions import versions
from resctrl_hooks.install.paths import LAUNCH


@pytest.fixture
def host(staged: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(Host, "live", True)
    return staged


def said(host: Host) -> str:
    return lines(versions(host))


def runs(host: Host, name: str, code_age: int) -> None:
    """Let a service run whose process started some seconds after the code was written."""
    (Path(host.settings.state_dir) / name).write_text(json.dumps({"pid": os.getpid()}))
    started = Path(f"/proc/{os.getpid()}").stat().st_ctime
    os.utime(host.tree.real(LAUNCH), (started - code_age, started - code_age))


def test_services_of_the_installed_version_are_ok(host: Host) -> None:
    runs(host, "exec.json", 60)
    assert said(host).startswith(f"ok: hook and services are of version {__version__}, the configuration of format 1")


@pytest.mark.parametrize("name, unit", [("exec.json", "exec"), ("nri.json", "nri"), ("guard.json", "guard")])
def test_service_that_runs_older_code_is_named(host: Host, name: str, unit: str) -> None:
    runs(host, name, -60)
    assert said(host) == (
        f"warning: resctrl-hooks-{unit}.service still runs the code of an earlier version than {__version__}; "
        f"systemctl restart resctrl-hooks-{unit}.service"
    )


def test_older_manifests_are_named(host: Host) -> None:
    assert host.manifest is not None
    host.manifest.manifests = "0.2.0"
    assert f"manifests are of version 0.2.0, its image is of {__version__}; apply contrib/daemonset" in said(host)
