"""A whole host under systemd: installed for Podman, upgraded while containers run, uninstalled; and the units."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.bare import CONFIG, clear_host, configure_host, state_of
from kernel.groups import Place, Resctrl, place_of
from kernel.installed import succeeds
from kernel.runtimes import IMAGE, Podman, run, wait_until
from resctrl_hooks.core.install import unit_files, units
from resctrl_hooks.core.install.paths import CODE, LAUNCH, UNITS

# The installation does not depend on Podman's runtime, and each takes a minute.
pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
NOT_HERE = {unit for unit in unit_files.RESIDENT if unit != units.EXEC}
"""Units of hosts with containerd, and of hosts whose configuration turns the guard on."""
STATE = "/run/resctrl-hooks"
SETTINGS = "deadlineSeconds: 8\n"
"""A longer deadline: emulation is ten times slower than the hardware of the default."""
EXPOSURE = 3.0
"""The most that `systemd-analyze security` may say of reconcile; 10 is a service without any restriction."""


OUR_UNITS = "resctrl-hooks-*"


@pytest.fixture(scope="module")
def host() -> Iterator[None]:
    """Return our hook on this host, for Podman; installed once for all tests that change nothing of it."""
    clear_host()
    succeeds("install", "--runtime", "podman")
    configure_host(SETTINGS)
    yield
    succeeds("uninstall", "--release-groups")
    clear_host()


@pytest.fixture
def installed(host: None, resctrl: Resctrl) -> Iterator[None]:
    """That host as it was installed: without groups, its timer on, its configuration as it was."""
    del host, resctrl
    run(["systemctl", "start", units.TIMER])
    yield
    if CONFIG.read_text() != SETTINGS:
        configure_host(SETTINGS)


def groups(resctrl: Resctrl) -> list[str]:
    return sorted(os.listdir(resctrl.path("", "x").removesuffix("/x")))


def ours() -> set[str]:
    """Return files on this host whose path has our name."""
    folders = ("/etc", "/usr/share/containers", "/usr/local", "/run")
    found = set()
    for top in folders:
        for folder, _, names in os.walk(top):
            found |= {path for name in names if "resctrl" in (path := os.path.join(folder, name))}
    return {path for path in found if "/cgroup/" not in path and not path.startswith("/run/systemd")}


def test_install_upgrade_and_uninstall_keep_running_containers(podman: Callable[..., Podman], resctrl: Resctrl) -> None:
    clear_host()
    before = ours()
    succeeds("install", "--runtime", "podman")
    configure_host(SETTINGS)
    engine = podman()  # no --hooks-dir: as a host's user calls it
    engine.run(IMAGE, "sleep 1000", "-d", "--name=old")
    assert len(groups(resctrl)) == 1
    # An upgrade: other modules, hence another folder.
    extra = Path(units.__file__).parents[1] / "node/extra.py"
    extra.write_text('"""Another version."""\n')
    try:
        succeeds("install", "--runtime", "podman")
    finally:
        extra.unlink()
    assert len(list(Path(CODE).glob("node-*/core/node/extra.py"))) == 1
    engine.run(IMAGE, "sleep 1000", "-d", "--name=new")
    assert len(groups(resctrl)) == 2
    # The old container's hook is served by the new version.
    engine.command("rm", "-f", "-t", "0", "old")
    assert len(groups(resctrl)) == 1
    # A plugin that was never installed is not loaded: systemd stops none of several units where one is not.
    succeeds("uninstall", "--release-groups")
    assert groups(resctrl) == []
    assert run(["systemctl", "list-units", "--all", "--plain", "--no-legend", OUR_UNITS]) == ""
    assert list(Path("/var/tmp").glob("systemd-private-*-resctrl-hooks-*")) == []
    for verb in ("stop", "reset-failed"):  # as the DaemonSet's removal says it, also where nothing is left
        run(["systemctl", verb, OUR_UNITS])
    assert "new" in engine.command("ps", "--format", "{{.Names}}")
    engine.command("rm", "-f", "-t", "0", "new")  # its bundle names a removed file
    assert engine.command("ps", "-aq").strip() == ""
    CONFIG.unlink()  # edited, hence kept
    for name in ("config.json", "config.last.json"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/etc/resctrl-hooks/{name}")
    assert ours() - before == set()


def test_units_are_valid_and_active(installed: None) -> None:
    ours = [name for name in unit_files.units("/etc/resctrl-hooks/config.yaml") if name not in NOT_HERE]
    paths = [f"{UNITS}/{name}" for name in ours]
    said = run(["systemd-analyze", "verify", *paths], check=False)
    assert [line for line in said.splitlines() if "resctrl" in line] == []
    assert state_of(units.TIMER) == "active"
    assert state_of(units.WAKE) == "active"
    assert state_of(units.COMPILE) == "active"
    for name in set(unit_files.ENABLED) - NOT_HERE:
        assert run(["systemctl", "is-enabled", name]).strip() == "enabled"


def test_reconcile_works_inside_its_restrictions(
    installed: None, podman: Callable[..., Podman], resctrl: Resctrl
) -> None:
    engine = podman()
    engine.run(IMAGE, "sleep 1000", "-d", "--name=adopted")
    (group,) = groups(resctrl)
    os.rmdir(resctrl.path("", group))  # as CRI-O's pruning might, or a person
    run(["systemctl", "stop", units.TIMER])
    run(["systemctl", "start", units.RECONCILE])
    assert groups(resctrl) == [group], run(["journalctl", "-u", units.RECONCILE, "--no-pager", "-n", "30"])
    engine.command("rm", "-f", "-t", "0", "adopted")
    assert groups(resctrl) == []


def last_reconcile() -> int:
    """When the service was started last, in microseconds since boot; 0 if never."""
    return int(run(["systemctl", "show", "-P", "ExecMainStartTimestampMonotonic", units.RECONCILE]))


def test_waiting_pod_wakes_reconcile_and_gets_a_free_rmid(
    installed: None, podman: Callable[..., Podman], resctrl: Resctrl
) -> None:
    run(["systemctl", "stop", units.TIMER])
    others = resctrl.use_up()
    engine = podman()
    wait_until(lambda: state_of(units.RECONCILE) in {"inactive", "failed"}, "no reconcile runs")
    before = last_reconcile()
    engine.run(IMAGE, "sleep 1000", "-d", "--name=late")
    pid, container = engine.pid("late"), engine.inspect("late", "{{.Id}}")
    assert place_of(pid) == Place("", "")
    assert os.listdir(f"{STATE}/waiting") == [container]
    wait_until(lambda: last_reconcile() > before, "the wake-up call starts reconcile, the timer being stopped")
    wait_until(lambda: state_of(units.RECONCILE) != "activating", "it ends")
    assert os.listdir(f"{STATE}/waiting") == [container]
    assert state_of(units.RECONCILE) == "inactive", "a pod that waits leaves no failed unit"
    os.rmdir(others[0])
    run(["systemctl", "start", units.TIMER])
    wait_until(lambda: place_of(pid) == Place("", container), "the timer's reconcile finds the RMID")
    wait_until(lambda: not os.listdir(f"{STATE}/waiting"), "and forgets that it waited")
    engine.command("rm", "-f", "-t", "0", "late")
    assert sorted(resctrl.groups()) == sorted(others[1:])


@pytest.fixture
def command_in_its_place() -> Iterator[None]:
    """Return the people's command where reconcile looks for it."""
    path = Path("/usr/local/bin/resctrl-hook")
    package = Path(units.__file__).parents[3]
    path.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} -m resctrl_hooks "$@"\n')
    path.chmod(0o755)
    yield
    path.unlink()


def test_restricted_reconcile_applies_edited_configuration(installed: None, command_in_its_place: None) -> None:
    run(["systemctl", "stop", units.TIMER])
    CONFIG.write_text(f"{SETTINGS}failurePolicy: fail\n")
    later = CONFIG.stat().st_mtime + 5  # as if a while had gone by since it was applied
    os.utime(CONFIG, (later, later))
    run(["systemctl", "start", units.RECONCILE])
    said = run(["journalctl", "-t", "resctrl-hook", "--no-pager", "-n", "5"])
    assert '"failurePolicy": "fail"' in Path("/etc/resctrl-hooks/config.json").read_text(), said
    assert "applied the edited " in said


def test_declared_classes_come_back_with_a_boot(installed: None, command_in_its_place: None, resctrl: Resctrl) -> None:
    name = "resctrl-hooks-classes.service"
    unit, gold = Path(UNITS, name), Path(resctrl.path("gold"))
    shutil.copy(Path(units.__file__).parents[3] / "contrib/systemd" / name, unit)
    configure_host(f"{SETTINGS}rdt: {{enabled: true, classes: {{gold: {{L3: '3'}}}}}}\n")
    try:
        said = run(["systemd-analyze", "verify", str(unit)], check=False)
        assert [line for line in said.splitlines() if "resctrl" in line] == []
        run(["systemctl", "daemon-reload"])
        for _ in range(2):  # a boot begins without classes
            assert not gold.exists()
            run(["systemctl", "restart", name], check=False)
            assert gold.exists(), run(["journalctl", "-u", name, "--no-pager", "-n", "30"])
            assert "L3:0=3" in (gold / "schemata").read_text()
            gold.rmdir()
        order = run(["systemctl", "show", "-P", "Before", name])
        assert "podman.service" in order.split()
    finally:
        run(["systemctl", "stop", name], check=False)
        unit.unlink()
        run(["systemctl", "daemon-reload"])


def test_exposure_of_units_is_low(installed: None) -> None:
    printed = run(["systemd-analyze", "security", "--no-pager", units.RECONCILE], check=False)
    (found,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", printed)
    print(printed)  # for the report
    assert float(found) <= EXPOSURE


def test_oneshot_compiles_for_this_interpreter(installed: None) -> None:
    for path in Path(CODE).glob("node-*/*.cpython-*"):
        path.unlink()
    run(["systemctl", "restart", units.COMPILE])
    assert len(list(Path(CODE).glob("node-*/*.cpython-*"))) == 2
    assert run(["/usr/bin/python3", "-I", "-S", "-B", LAUNCH], check=False).startswith("usage")
