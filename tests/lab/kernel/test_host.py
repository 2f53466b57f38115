"""A whole host under systemd: installed for Podman, upgraded, starved, uninstalled; its units; and doctor."""

import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from core.install.staged import compile_once
from core.install.versions import version_0_2
from prometheus_client.parser import text_string_to_metric_families

from kernel.bundles import FIRST_INSTRUCTION, hooks_from
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import (
    CONFIG,
    clear_host,
    configure_host,
    failed_units,
    resctrl_hook,
    state_of,
    succeeds,
    unmounted,
)
from kernel.pods import Containers
from kernel.runtimes import IMAGE, Podman, Runtime, run, wait_until
from resctrl_hooks.core.install import unit_files, units
from resctrl_hooks.core.install.paths import CODE, LAUNCH, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload, payload

pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
NOT_HERE = {unit for unit in unit_files.RESIDENT if unit != units.EXEC}
"""Units of hosts with containerd, and of hosts whose configuration turns the guard on."""
STATE = "/run/resctrl-hooks"
SETTINGS = "deadlineSeconds: 8\n"  # A longer deadline: emulation is ten times slower than the hardware of the default
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
    clear_host()


@pytest.fixture
def installed(host: None, resctrl: Resctrl) -> Iterator[None]:
    """That host as it was installed: without groups, its timer on, its configuration as it was."""
    run(["systemctl", "start", units.TIMER])
    yield
    if CONFIG.read_text() != SETTINGS:
        configure_host(SETTINGS)


def ours() -> set[str]:
    """Return files on this host whose path has our name."""
    tops = ("/etc", "/usr/share/containers", "/usr/local", "/run")
    found = {os.path.join(at, name) for top in tops for at, _, names in os.walk(top) for name in names}
    return {one for one in found if "resctrl" in one and "/cgroup/" not in one and not one.startswith("/run/systemd")}


def test_install_upgrade_and_uninstall_keep_running_containers(podman: Callable[..., Podman], resctrl: Resctrl) -> None:
    clear_host()
    before = ours()
    succeeds("install", "--runtime", "podman")
    configure_host(SETTINGS)
    engine = podman()  # no --hooks-dir: as a host's user calls it
    engine.run(IMAGE, "sleep 1000", "-d", "--name=old")
    assert len(resctrl.names("mon_groups")) == 1
    # An upgrade: other modules, hence another folder.
    extra = Path(units.__file__).parents[1] / "node/extra.py"
    extra.write_text('"""Another version."""\n')
    try:
        succeeds("install", "--runtime", "podman")
    finally:
        extra.unlink()
    assert len(list(Path(CODE).glob("node-*/core/node/extra.py"))) == 1
    engine.run(IMAGE, "sleep 1000", "-d", "--name=new")
    assert len(resctrl.names("mon_groups")) == 2
    # The old container's hook is served by the new version.
    engine.command("rm", "-f", "-t", "0", "old")
    assert len(resctrl.names("mon_groups")) == 1
    # A plugin that was never installed is not loaded: systemd stops none of several units where one is not.
    succeeds("uninstall", "--release-groups")
    assert resctrl.names("mon_groups") == set()
    assert run(["systemctl", "list-units", "--all", "--plain", "--no-legend", OUR_UNITS]) == ""
    assert list(Path("/var/tmp").glob("systemd-private-*-resctrl-hooks-*")) == []
    for verb in ("stop", "reset-failed"):  # as the DaemonSet's removal says it, also where nothing is left
        run(["systemctl", verb, OUR_UNITS])
    assert "new" in engine.command("ps", "--format", "{{.Names}}")
    engine.command("rm", "-f", "-t", "0", "new")  # its bundle names a removed file
    assert engine.command("ps", "-aq").strip() == ""
    CONFIG.unlink()  # edited, hence kept
    for name in ("config.json", "config.last.json"):
        Path("/etc/resctrl-hooks", name).unlink(missing_ok=True)
    assert ours() - before == set()


def verified(*paths: str) -> list[str]:
    """Return systemd's remarks about our units."""
    said = run(["systemd-analyze", "verify", *paths], check=False)
    return [line for line in said.splitlines() if "resctrl" in line]


def test_units_are_valid_active_restricted_and_compile(installed: None) -> None:
    ours = [name for name in unit_files.units("/etc/resctrl-hooks/config.yaml") if name not in NOT_HERE]
    assert verified(*(f"{UNITS}/{name}" for name in ours)) == []
    assert {state_of(name) for name in (units.TIMER, units.WAKE, units.COMPILE)} == {"active"}
    for name in set(unit_files.ENABLED) - NOT_HERE:
        assert run(["systemctl", "is-enabled", name]).strip() == "enabled"
    printed = run(["systemd-analyze", "security", "--no-pager", units.RECONCILE], check=False)
    (found,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", printed)
    print(printed)  # for the report
    assert float(found) <= EXPOSURE
    for path in Path(CODE).glob("node-*/*.cpython-*"):
        path.unlink()
    run(["systemctl", "restart", units.COMPILE])
    assert len(list(Path(CODE).glob("node-*/*.cpython-*"))) == 2
    assert run(["/usr/bin/python3", "-I", "-S", "-B", LAUNCH], check=False).startswith("usage")


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
    wait_until(lambda: place_of(pid) == Place("", container), "the timer's reconcile, restricted, finds the RMID")
    wait_until(lambda: not os.listdir(f"{STATE}/waiting"), "and forgets that it waited")
    engine.command("rm", "-f", "-t", "0", "late")
    assert sorted(resctrl.groups()) == sorted(others[1:])


@pytest.fixture
def command_in_its_place() -> Iterator[None]:
    """Return the people's command where reconcile looks for it."""
    path, package = Path("/usr/local/bin/resctrl-hook"), Path(units.__file__).parents[3]
    path.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} -m resctrl_hooks "$@"\n')
    path.chmod(0o755)
    yield
    path.unlink()


@pytest.mark.usefixtures("installed", "command_in_its_place")
def test_edited_configuration_and_declared_classes_are_applied(resctrl: Resctrl) -> None:
    run(["systemctl", "stop", units.TIMER])
    CONFIG.write_text(f"{SETTINGS}failurePolicy: fail\n")
    later = CONFIG.stat().st_mtime + 5  # as if a while had gone by since it was applied
    os.utime(CONFIG, (later, later))
    run(["systemctl", "start", units.RECONCILE])
    said = run(["journalctl", "-t", "resctrl-hook", "--no-pager", "-n", "5"])
    assert '"failurePolicy": "fail"' in Path("/etc/resctrl-hooks/config.json").read_text(), said
    assert "applied the edited " in said
    name = "resctrl-hooks-classes.service"
    unit, gold = Path(UNITS, name), Path(resctrl.folder("gold"))
    shutil.copy(Path(units.__file__).parents[3] / "contrib/systemd" / name, unit)
    configure_host(f"{SETTINGS}rdt: {{enabled: true, classes: {{gold: {{L3: '3'}}}}}}\n")
    try:
        assert verified(str(unit)) == []
        run(["systemctl", "daemon-reload"])
        for _ in range(2):  # a boot begins without classes
            assert not gold.exists()
            run(["systemctl", "restart", name], check=False)
            assert gold.exists(), run(["journalctl", "-u", name, "--no-pager", "-n", "30"])
            assert "L3:0=3" in (gold / "schemata").read_text()
            gold.rmdir()
        assert "podman.service" in run(["systemctl", "show", "-P", "Before", name]).split()
    finally:
        run(["systemctl", "stop", name], check=False)
        unit.unlink()
        run(["systemctl", "daemon-reload"])


def findings() -> set[tuple[str, str]]:
    """Return doctor's findings that are not OK, but for groups that tests of this hour have removed."""
    result = resctrl_hook("doctor", "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code == 0) is said["ok"], result.output
    found = {(one["level"], one["check"]) for one in said["items"]}
    return {(level, check) for level, check in found if level != "ok" and check != "vanished"}


def test_doctor_finds_a_missing_mount_while_containers_start(installed: None, podman: Callable[..., Podman]) -> None:
    assert findings() == set()
    engine = podman()
    engine.run(IMAGE, "sleep 1000", "-d", "--name=before")
    with unmounted():
        assert engine.run(IMAGE, "echo started", "--rm").splitlines()[-1] == "started"
        engine.command("rm", "-f", "-t", "0", "before")
        assert ("problem", "mount") in findings()
    resctrl_hook("reconcile")  # effects that could not be undone then
    assert findings() == set()


DEADLINE = "deadlineSeconds: 25\n"
"""Below the alarm of 30 s: an emulated processor takes seconds for one hook, and ten of a tenth of one."""
BEFORE_RELEASE = pytest.param(20, marks=[pytest.mark.measures, pytest.mark.timeout(14000)])
"""One change takes 40 seconds or more of an emulated processor under load."""
COUNTER = "l3_mbm_total_bytes"


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Payload], None]]:
    resident = unit_files.resident
    monkeypatch.setattr("resctrl_hooks.core.install.installation.compile_modules", compile_once)

    def install(version: Payload) -> None:
        monkeypatch.setattr("resctrl_hooks.core.install.plan.payload", lambda *_, **__: version)
        knows = resident if "core/node/watch/__init__.py" in version.modules else lambda *_, **__: []
        monkeypatch.setattr("resctrl_hooks.core.install.plan.resident", knows)
        succeeds("install", "--runtime", "podman")
        assert version.folder in Path(f"{CODE}/launch.py").read_text()

    clear_host()
    yield install
    clear_host()


class Load:
    """Containers, one after another, each of which prints where its first instruction ran.

    The runtime is called directly, with the hooks that the vendor's folder has at that moment: Podman's own work would
    take most of the time.
    """

    def __init__(self, containers: Containers) -> None:
        self._containers, self._over = containers, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.places: list[tuple[str, Place]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def outside(self) -> list[tuple[str, Place]]:
        """Return the containers whose first instruction was outside their group."""
        return [(name, place) for name, place in self.places if place != Place("", name)]

    def _run(self) -> None:
        while not self._over.is_set():
            name = f"short{len(self.places)}"
            self.places.append((name, parse_place(self._containers.run(name, FIRST_INSTRUCTION))))


def counted(container: str) -> float:
    families = text_string_to_metric_families(succeeds("metrics", "--format", "prometheus"))
    samples = [sample for one in families if one.name == COUNTER for sample in one.samples]
    mine = [sample.value for sample in samples if container in sample.labels.values()]
    assert mine, samples
    return sum(mine)


@pytest.mark.parametrize("changes", [pytest.param(2, marks=pytest.mark.nightly), BEFORE_RELEASE])
def test_upgrades_and_rollbacks_under_load_lose_nothing(
    change: Callable[[Payload], None],
    podman: Callable[..., Podman],
    runtime: Runtime,
    bundle: Callable[..., str],
    resctrl: Resctrl,
    changes: int,
) -> None:
    engine = podman()
    versions = (version_0_2(), payload())
    change(versions[0])
    configure_host(DEADLINE)
    engine.run(IMAGE, "sleep 100000", "-d", "--name=long")
    long, pid = engine.inspect("long", "{{.Id}}"), engine.pid("long")
    group = Path(resctrl.folder(group=long)).stat().st_ino
    before = counted(long)
    begun = time.monotonic()
    with Load(Containers(runtime, bundle, lambda: hooks_from(VENDOR_HOOKS))) as load:
        for number in range(1, changes + 1):
            seen = len(load.places)
            change(versions[number % 2])
            assert Path(f"{UNITS}/{units.EXEC}").exists() is bool(number % 2)
            assert failed_units() == ""
            now = counted(long)
            assert now >= before, number
            before = now
            wait_until(lambda seen=seen: len(load.places) > seen, "a container starts after the change")
            assert load.outside() == []
            started = f"{len(load.places)} containers in {time.monotonic() - begun:.0f} s"
            print(f"{number} changes, {started}, 0 outside, 0 failed units", file=sys.__stderr__)
    assert load.outside() == []
    assert place_of(pid) == Place("", long)
    assert Path(resctrl.folder(group=long)).stat().st_ino == group
    assert failed_units() == ""
    engine.command("rm", "-f", "-t", "0", "long")


QUOTA = "CPUQuota=10%"


class Starved(Runtime):
    """An OCI runtime that has a tenth of a processor, together with the hooks that it calls."""

    limit: tuple[str, ...] = ("systemd-run", "--scope", "--quiet", "--collect", f"--property={QUOTA}")

    def command(self, *words: str, check: bool = True) -> str:
        return run([*self.limit, self.name, "--systemd-cgroup", *words], check=check)


@pytest.fixture
def starved(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> Iterator[Starved]:
    """Such a runtime, on an installation whose units have a tenth of a processor."""
    monkeypatch.setattr("resctrl_hooks.core.install.installation.compile_modules", compile_once)
    clear_host()
    succeeds("install", "--runtime", "podman")
    for unit in (units.RECONCILE, units.EXEC):
        run(["systemctl", "set-property", "--runtime", unit, QUOTA])
    made = Starved(runtime.name, runtime.driver)
    yield made
    made.limit = ()
    made.clean()
    run(["systemctl", "revert", units.RECONCILE, units.EXEC])  # other tests of this boot count what is left
    clear_host()


def test_hooks_with_a_tenth_of_a_processor_fail_no_container_and_waiting_one_gets_its_group(
    starved: Starved, bundle: Callable[..., str], resctrl: Resctrl
) -> None:
    configure_host(DEADLINE)
    containers = Containers(starved, bundle, lambda: hooks_from(VENDOR_HOOKS))
    taken = resctrl.use_up()
    pid = containers.start("late")
    assert place_of(pid) == Place("", "")
    for path in taken:
        os.rmdir(path)
    for _ in range(3):  # as often as the unit's timer would
        run(["systemctl", "start", units.RECONCILE])
        if place_of(pid) == Place("", "late"):
            break
    wait_until(lambda: place_of(pid) == Place("", "late"), "the waiting container gets its group")
    assert parse_place(containers.run("first", FIRST_INSTRUCTION)) == Place("", "first")
    assert failed_units() == ""
