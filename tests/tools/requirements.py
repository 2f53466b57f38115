"""Requirements of tests on the machine: tests without them are skipped with a message, but never where expected.

A test marked `runtime` or `fuse` is deselected without its requirement, and pytest's summary lists it. With
RESCTRL_HOOKS_TESTS=all in the environment, as in continuous integration, nothing is skipped: missing requirements fail
the tests.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

EXPECTED = os.environ.get("RESCTRL_HOOKS_TESTS") == "all"


def missing_for_runtimes() -> str:
    """Return the missing requirements of tests with real runtimes."""
    if os.geteuid():
        return "root is needed to run containers and mount a simulation"
    programs = [name for name in ("runc", "podman", "conmon") if shutil.which(name) is None]
    return f"not installed: {', '.join(programs)}" if programs else missing_for_fuse()


def missing_for_fuse() -> str:
    """Return the missing requirements of tests on a mounted simulation."""
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/fuse can't be opened: {error.strerror}"
    return ""


def missing_for_promtool() -> str:
    """Return the missing requirements of tests with Prometheus' checker."""
    return "" if shutil.which("promtool") else "promtool is not installed (Debian's package prometheus, 96 MB)"


def missing_for_victoriametrics() -> str:
    """Return the missing requirements of the test of the dashboards' queries; any version suffices."""
    return "" if shutil.which("victoria-metrics") else "victoria-metrics is not installed"


def missing_for_otlp() -> str:
    """Return the missing requirements of the test with an OpenTelemetry receiver."""
    program = shutil.which("victoria-metrics")
    if not program:
        return "victoria-metrics is not installed"
    told = subprocess.run([program, "-help"], capture_output=True, text=True, check=False)
    known = "-opentelemetry." in told.stdout + told.stderr
    return "" if known else "this victoria-metrics is older than OpenTelemetry's protocol"


def missing_for_ignition() -> str:
    """Return the missing requirements of the test with Ignition's validator."""
    return "" if shutil.which("ignition-validate") else "ignition-validate is not installed (Debian's package ignition)"


def grafana_schema() -> str:
    """The folder whose node_modules have TypeScript and Grafana's schema; empty where GRAFANA_SCHEMA names none."""
    named = os.environ.get("GRAFANA_SCHEMA", "")
    return named if os.path.exists(f"{named}/node_modules/@grafana/schema") else ""


def missing_for_grafana() -> str:
    """Return the missing requirements of the test with Grafana's schema."""
    how = "GRAFANA_SCHEMA names no folder where `npm install typescript @grafana/schema` was run"
    return "" if grafana_schema() else how


def missing_for_kubectl() -> str:
    """Return the missing requirements of tests of kustomizations."""
    return "" if shutil.which("kubectl") else "kubectl is not installed"


def missing_for_helm() -> str:
    """Return the missing requirements of tests of the chart."""
    return "" if importlib.util.find_spec("helm_python") else "helm-python-sdk is not installed (x86-64 only)"


def missing_for_browser() -> str:
    """Return the missing requirements of tests in a browser."""
    return "" if shutil.which("chromium") else "chromium is not installed"


def debian_root() -> str:
    """Return the root of a clean Debian 13 with this package's dependencies; empty unless DEBIAN_ROOT names one."""
    named = os.environ.get("DEBIAN_ROOT", "")
    return named if os.path.exists(f"{named}/usr/bin/dpkg") and os.geteuid() == 0 else ""


def missing_for_debian() -> str:
    """Return the missing requirements of the test of the installed Debian package."""
    return "" if debian_root() else "DEBIAN_ROOT names no clean Debian (docs/dev/testing.md), or this isn't root"


def missing_for_rpm() -> str:
    """Return the missing requirements of the test that builds the RPM."""
    return "" if shutil.which("rpmbuild") else "rpmbuild is not installed (Debian's package rpm)"


MISSING: dict[str, Callable[[], str]] = {
    "runtime": missing_for_runtimes,
    "fuse": missing_for_fuse,
    "browser": missing_for_browser,
    "promtool": missing_for_promtool,
    "otlp": missing_for_otlp,
    "victoriametrics": missing_for_victoriametrics,
    "ignition": missing_for_ignition,
    "grafana": missing_for_grafana,
    "kubectl": missing_for_kubectl,
    "helm": missing_for_helm,
    "debian": missing_for_debian,
    "rpm": missing_for_rpm,
}
OPTIONAL = {"promtool", "otlp", "victoriametrics", "ignition", "grafana", "kubectl", "debian", "rpm"}
"""Not expected even of continuous integration."""
_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests without their requirements, after other plug-ins have set their marks."""
    config.stash[_LEFT_OUT] = []
    for mark, missing in MISSING.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        reason = missing() if marked and (not EXPECTED or mark in OPTIONAL) else ""
        if reason:
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in marked]
            config.stash[_LEFT_OUT].append(f"{len(marked)} tests marked `{mark}`: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report skipped tests and the reasons."""
    for line in config.stash.get(_LEFT_OUT, []):
        terminalreporter.write_line(f"NOT RUN HERE: {line}", yellow=True, bold=True)
