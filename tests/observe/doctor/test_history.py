"""doctor on the history: off, written, late, missing or damaged."""

import os
import re
import time
from pathlib import Path

import pytest
from golden import Golden
from hosts.past import sample
from hosts.patients import lines, older, run_service

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.versions import versions
from resctrl_hooks.observe.doctor.history import history
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store

HOUR = 3600.0
CONDITIONS: dict[str, tuple[tuple[float, ...], float, float]] = {
    "no sample": ((), HOUR, HOUR),
    "recent samples": ((7200, 5), HOUR, HOUR),
    "late": ((600,), HOUR, HOUR),
    "enabled just now": ((), 5, HOUR),
    "samples from before a boot": ((1200, 600), HOUR, 5),
}
"""By name, the ages of samples, of the active configuration and of the boot, in seconds."""


def test_findings_on_the_history(tmp_path: Path, staged: Host, golden: Golden) -> None:
    file = tmp_path / "history.sqlite"
    staged.settings.proc_path = staged.tree.real("/proc")
    Path(staged.settings.proc_path).mkdir(exist_ok=True)
    texts = [f"off: {lines(history(staged))}"]
    staged.settings.sections["history"] = {"enabled": True, "file": str(file)}
    os.utime(staged.tree.real("/etc/resctrl-hooks/config.json"))
    texts.append(f"no file: {lines(history(staged))}")
    for name, (ages, configured, booted) in CONDITIONS.items():
        file.unlink(missing_ok=True)
        file.touch(0o600)
        os.utime(staged.tree.real("/etc/resctrl-hooks/config.json"), times=(time.time() - configured,) * 2)
        Path(staged.settings.proc_path, "uptime").write_text(f"{booted} 0.0\n")
        store = Store(str(file), write=True)
        for age in ages:
            made = sample(0, {"a": 1})
            store.add(Sample(int((time.time() - age) * 1000), made.uptime, made.boot, made.host, made.rows))
        store.close()
        texts.append(f"{name}: {lines(history(staged))}")
    file.write_bytes(b"garbage" * 1000)
    texts.append(f"damaged: {lines(history(staged))}")
    golden(re.sub(r"in [\d.]+ KiB", "in <size>", "\n".join(texts)), hide="time")


def test_sampling_process_that_runs_older_code_is_named(staged: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "live", True)
    run_service(staged, "guard.json", code_age=-60)
    assert lines(versions(staged)) == older("guard")
