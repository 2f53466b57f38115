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


def program(name: str, package: str = "") -> Callable[[], str]:
    """Return a check of a program, which a package of Debian's has."""
    missing = f"{name} is not installed" + (f" (Debian's package {package})" if package else "")
    return lambda: "" if shutil.which(name) else missing


def missing_for_otlp() -> str:
    """Return the missing requirements of the test with an OpenTelemetry receiver."""
    if missing := program("victoria-metrics")():
        return missing
    told = subprocess.run(["victoria-metrics", "-help"], capture_output=True, text=True, check=False)
    known = "-opentelemetry." in told.stdout + told.stderr
    return "" if known else "this victoria-metrics is older than OpenTelemetry's protocol"


def grafana_schema() -> str:
    """The folder whose node_modules have TypeScript and Grafana's schema; empty where GRAFANA_SCHEMA names none."""
    named = os.environ.get("GRAFANA_SCHEMA", "")
    return named if os.path.exists(f"{named}/node_modules/@grafana/schema") else ""


def debian_root() -> str:
    """Return the root of a clean Debian 13 with this package's dependencies; empty unless DEBIAN_ROOT names one."""
    named = os.environ.get("DEBIAN_ROOT", "")
    return named if os.path.exists(f"{named}/usr/bin/dpkg") and os.geteuid() == 0 else ""


def named(path: Callable[[], str], missing: str) -> Callable[[], str]:
    """Return a check of a path that the environment names."""
    return lambda: "" if path() else missing


MISSING: dict[str, Callable[[], str]] = {
    "runtime": missing_for_runtimes,
    "fuse": missing_for_fuse,
    "browser": program("chromium"),
    "promtool": program("promtool", "prometheus, 96 MB"),
    "otlp": missing_for_otlp,
    "victoriametrics": program("victoria-metrics"),
    "ignition": program("ignition-validate", "ignition"),
    "grafana": named(
        grafana_schema, "GRAFANA_SCHEMA names no folder where `npm install typescript @grafana/schema` was run"
    ),
    "kubectl": program("kubectl"),
    "helm": lambda: "" if importlib.util.find_spec("helm_python") else "helm-python-sdk is not installed (x86-64 only)",
    "debian": named(debian_root, "DEBIAN_ROOT names no clean Debian (docs/dev/testing.md), or this isn't root"),
    "rpm": program("rpmbuild", "rpm"),
}
OPTIONAL = {"promtool", "otlp", "victoriametrics", "ignition", "grafana", "kubectl", "debian", "rpm"}
"""Not expected even of continuous integration."""
_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests without their requirements, after other plug-ins have set their marks."""
    config.stash[_LEFT_OUT] = []
    for mark, chosen in (("removal", False), ("ci", EXPECTED)):
        marked = [item for item in items if item.get_closest_marker(mark)]
        if marked and not chosen and mark not in config.option.markexpr:
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in marked]
            config.stash[_LEFT_OUT].append(f"{len(marked)} tests marked `{mark}`: they run with `-m {mark}`")
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
