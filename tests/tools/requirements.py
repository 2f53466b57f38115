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
    if os.geteuid():
        return "root is needed to run containers and mount a simulation"
    programs = [name for name in ("runc", "podman", "conmon") if shutil.which(name) is None]
    return f"not installed: {', '.join(programs)}" if programs else missing_for_fuse()


def missing_for_fuse() -> str:
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


MISSING: dict[str, Callable[[], str]] = {
    "runtime": missing_for_runtimes,
    "fuse": missing_for_fuse,
    "browser": program("chromium"),
    "promtool": program("promtool", "prometheus, 96 MB"),
    "otlp": missing_for_otlp,
    "victoriametrics": program("victoria-metrics"),
    "ignition": program("ignition-validate", "ignition"),
    "grafana": lambda: "" if grafana_schema() else "GRAFANA_SCHEMA names no folder with Grafana's schema",
    "kubectl": program("kubectl"),
    "helm": lambda: "" if importlib.util.find_spec("helm_python") else "helm-python-sdk is not installed (x86-64 only)",
    "debian": lambda: "" if debian_root() else "DEBIAN_ROOT names no clean Debian, or this isn't root",
    "rpm": program("rpmbuild", "rpm"),
}
OPTIONAL = {"promtool", "otlp", "victoriametrics", "ignition", "grafana", "kubectl", "debian", "rpm"}
"""Not expected even of continuous integration."""
_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests without their requirements, after other plug-ins have set their marks."""
    left_out = config.stash[_LEFT_OUT] = []
    reasons = {
        mark: "" if chosen or mark in config.option.markexpr else f"they run with `-m {mark}`"
        for mark, chosen in (("removal", False), ("ci", EXPECTED))
    }
    for mark in (*reasons, *MISSING):
        marked = [item for item in items if item.get_closest_marker(mark)]
        optional = mark in MISSING and (not EXPECTED or mark in OPTIONAL)
        if marked and (reason := MISSING[mark]() if optional else reasons.get(mark)):
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in marked]
            left_out.append(f"{len(marked)} tests marked `{mark}`: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT_OUT, []):
        terminalreporter.write_line(f"NOT RUN HERE: {line}", yellow=True, bold=True)
