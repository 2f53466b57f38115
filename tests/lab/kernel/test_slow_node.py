"""A node without processor time to spare: its units, hooks, and containers that wait for a group."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kernel.bare import clear_host, configure_host, failed_units
from kernel.bundles import FIRST_INSTRUCTION, hooks_from
from kernel.containers import Containers
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import succeeds
from kernel.runtimes import IMAGE, Podman, Runtime, run, wait_until
from kernel.test_installer_killed import compile_once
from resctrl_hooks.core.install import units
from resctrl_hooks.core.install.paths import VENDOR_HOOKS

pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
QUOTA = "CPUQuota=10%"
DEADLINE = "deadlineSeconds: 25\n"
"""A hook takes a second of an emulated processor, hence ten seconds of a tenth of one."""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation whose units have a tenth of a processor."""
    monkeypatch.setattr("resctrl_hooks.core.install.installation.compile_modules", compile_once)
    clear_host()
    succeeds("install", "--runtime", "podman")
    for unit in (units.RECONCILE, units.EXEC):
        run(["systemctl", "set-property", "--runtime", unit, QUOTA])
    yield
    run(["systemctl", "revert", units.RECONCILE, units.EXEC])  # other tests of this boot count what is left
    clear_host()


class Starved(Runtime):
    """An OCI runtime that has a tenth of a processor, together with the hooks that it calls."""

    limit: tuple[str, ...] = ("systemd-run", "--scope", "--quiet", "--collect", f"--property={QUOTA}")

    def command(self, *words: str, check: bool = True) -> str:
        return run([*self.limit, self.name, "--systemd-cgroup", *words], check=check)


@pytest.fixture
def starved(runtime: Runtime) -> Iterator[Starved]:
    made = Starved(runtime.name, runtime.driver)
    yield made
    made.limit = ()
    made.clean()


def reconcile_until(true: Callable[[], bool], what: str) -> None:
    """Run the unit as often as its timer would; each wait ends after two minutes."""
    for _ in range(3):
        run(["systemctl", "start", units.RECONCILE])
        if true():
            break
    wait_until(true, what)


def metric(name: str, text: str) -> float:
    """Return the value of a metric without labels."""
    (found,) = (one.samples[0].value for one in text_string_to_metric_families(text) if one.name == name)
    return found


def test_node_with_a_tenth_of_a_processor_fails_no_unit_and_adopts_a_container(
    installed: None, podman: Callable[..., Podman], tmp_path: Path
) -> None:
    del installed
    (tmp_path / "no-hooks").mkdir()
    engine = podman(str(tmp_path / "no-hooks"))
    engine.run(IMAGE, "sleep 1000", "-d", "--name=unseen")
    container, pid = engine.inspect("unseen", "{{.Id}}"), engine.pid("unseen")
    reconcile_until(lambda: place_of(pid) == Place("", container), "reconcile adopts it")
    assert failed_units() == ""
    engine.command("rm", "-f", "-t", "0", "unseen")


def test_hooks_with_a_tenth_of_a_processor_fail_no_container_and_waiting_one_gets_its_group(
    installed: None, starved: Starved, bundle: Callable[..., str], resctrl: Resctrl
) -> None:
    del installed
    configure_host(DEADLINE)
    containers = Containers(starved, bundle, lambda: hooks_from(VENDOR_HOOKS))
    taken = resctrl.use_up()
    pid = containers.start("late")
    assert place_of(pid) == Place("", "")
    for path in taken:
        os.rmdir(path)
    reconcile_until(lambda: place_of(pid) == Place("", "late"), "the waiting container gets its group")

    assert parse_place(containers.run("first", FIRST_INSTRUCTION)) == Place("", "first")
    assert failed_units() == ""
    before, text, after = time.time(), succeeds("metrics"), time.time()
    last = metric("resctrl_hooks_last_reconcile_timestamp_seconds", text)
    assert before <= last + metric("resctrl_hooks_reconcile_age_seconds", text) <= after
