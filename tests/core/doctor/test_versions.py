"""doctor on the versions of services and manifests."""

import pytest
from hosts.patients import lines, older, run_service

from resctrl_hooks import __version__
from resctrl_hooks.core.doctor import versions as module
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.versions import versions
from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.node.watch.status import read_status


@pytest.fixture
def host(staged: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(Host, "live", True)
    return staged


def said(host: Host) -> str:
    return lines(versions(host))


def test_services_of_the_installed_version_are_ok(host: Host) -> None:
    run_service(host, "exec.json", code_age=60)
    assert said(host).startswith(f"ok: hook and services are of version {__version__}, the configuration of format 1")


def test_service_that_runs_older_code_is_named(host: Host) -> None:
    run_service(host, "exec.json", code_age=-60)
    assert said(host) == older("exec")


def test_services_of_all_houses_are_checked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    run_service(host, "exec.json", code_age=-60)
    units = [Unit(f"resctrl-hooks-{name}.service", "", 1, status=read_status) for name in ("one", "two")]
    monkeypatch.setattr(module, "ORDERED", units)
    assert said(host) == "\n".join((older("one"), older("two")))


def test_older_manifests_are_named(host: Host) -> None:
    assert host.manifest is not None
    host.manifest.manifests = "0.2.0"
    assert f"manifests are of version 0.2.0, its image is of {__version__}; apply contrib/daemonset" in said(host)
