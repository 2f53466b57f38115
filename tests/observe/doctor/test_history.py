"""doctor on the history: off, written, late, missing or damaged."""

import os
import time
from pathlib import Path

import pytest
from hosts.past import sample
from hosts.patients import lines, older, run_service

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.versions import versions
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.observe.doctor.history import history
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store


@pytest.fixture
def host(tmp_path: Path, staged: Host) -> Host:
    staged.settings.sections["history"] = {"enabled": True, "file": str(tmp_path / "history.sqlite")}
    configured(staged, ago=3600)
    booted(staged, ago=3600)
    return staged


def configured(host: Host, *, ago: float) -> None:
    """Let the active configuration have this age in seconds."""
    os.utime(host.tree.real("/etc/resctrl-hooks/config.json"), times=(time.time() - ago,) * 2)


def booted(host: Host, *, ago: float) -> None:
    """Let the host have booted these seconds ago."""
    host.settings.proc_path = host.tree.real("/proc")
    Path(host.settings.proc_path).mkdir(exist_ok=True)
    Path(host.settings.proc_path, "uptime").write_text(f"{ago} 0.0\n")


def said(host: Host) -> str:
    return lines(history(host))


def write(host: Host, *ages: float) -> None:
    """Write a sample of each age in seconds."""
    Path(host.settings.sections["history"]["file"]).touch(0o600)
    store = Store(host.settings.sections["history"]["file"], write=True)
    for age in ages:
        made = sample(0, {"a": 1})
        store.add(Sample(int((time.time() - age) * 1000), made.uptime, made.boot, made.host, made.rows))
    store.close()


def test_history_that_is_off_is_ok(host: Host) -> None:
    host.settings.sections["history"] = {}
    assert said(host).startswith("ok: no history, as configured by history.enabled")


def test_history_with_recent_samples_is_ok(host: Host) -> None:
    write(host, 7200, 5)
    first, last = (clock(time.time() - age) for age in (7200, 5))
    assert said(host).startswith(f"ok: the history has 2 samples from {first[:-5]}")
    assert f" to {last[:-5]}" in said(host)


@pytest.mark.parametrize("ages, text", [((), "has no sample"), ((600,), "has no sample of the last 60")])
def test_history_without_recent_samples_is_a_warning_with_its_unit(
    host: Host, ages: tuple[float, ...], text: str
) -> None:
    write(host, *ages)
    assert said(host).startswith(f"warning: the history {text}")
    assert "systemctl status resctrl-hooks-guard.service" in said(host)


def test_history_that_was_enabled_just_now_is_ok(host: Host) -> None:
    configured(host, ago=5)
    assert said(host).startswith("ok: the history has no sample yet")


def test_samples_from_before_a_boot_are_not_late_after_it(host: Host) -> None:
    write(host, 1200, 600)
    booted(host, ago=5)
    assert said(host).startswith("ok: the history has 2 samples from ")


def test_missing_and_damaged_file_are_warnings(host: Host) -> None:
    assert said(host).startswith("warning: the history has no sample;")
    Path(host.settings.sections["history"]["file"]).write_bytes(b"garbage" * 1000)
    assert "not a database" in said(host)


def test_sampling_process_that_runs_older_code_is_named(staged: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "live", True)
    run_service(staged, "guard.json", code_age=-60)
    assert lines(versions(staged)) == older("guard")
