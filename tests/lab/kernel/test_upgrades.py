"""Upgrades and rollbacks between 0.2.0's node half and this version under systemd, while containers start and end.

The guest has no history: the earlier version is its node half, installed by this version's installer without the units
that 0.2.0 does not have. tests/core/install/test_versions.py runs whole versions on a simulated resctrl.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from core.install.versions import version_0_2
from prometheus_client.parser import text_string_to_metric_families

from kernel.bare import clear_host, configure_host, failed_units
from kernel.bundles import FIRST_INSTRUCTION, hooks_from
from kernel.containers import Containers
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import succeeds
from kernel.runtimes import IMAGE, Podman, Runtime, wait_until
from kernel.test_installer_killed import compile_once
from resctrl_hooks.core.install import unit_files, units
from resctrl_hooks.core.install.paths import CODE, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload, payload

pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
DEADLINE = "deadlineSeconds: 25\n"
"""Below the alarm of 30 s: an emulated processor that an installation shares takes seconds for one hook."""
BEFORE_RELEASE = pytest.param(20, marks=[pytest.mark.measures, pytest.mark.timeout(14000)])
"""One change takes 40 seconds or more of an emulated processor under load."""
COUNTER = "l3_mbm_total_bytes"


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Payload], None]]:
    """Return a function that installs a version on this host."""
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
        self._containers = containers
        self._over = threading.Event()
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
    """Return a container's traffic by this version's metrics."""
    families = text_string_to_metric_families(succeeds("metrics", "--format", "prometheus"))
    samples = [sample for one in families if one.name == COUNTER for sample in one.samples]
    mine = [sample.value for sample in samples if container in sample.labels.values()]
    assert mine, samples
    return sum(mine)


@pytest.mark.parametrize("changes", [2, BEFORE_RELEASE])
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
    group = Path(resctrl.path(group=long)).stat().st_ino
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
    assert Path(resctrl.path(group=long)).stat().st_ino == group
    assert failed_units() == ""
    engine.command("rm", "-f", "-t", "0", "long")
