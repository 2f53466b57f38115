"""One error of the kernel at each system call, with every feature on: what a hook then misses, one reconcile does.

strace answers a call with an error in the kernel's place. In the suite one call in ``FAULTS_EVERY`` is tried, another
choice in each test; `nox -s deep` tries all of them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host
from hosts.crowded import HIGH, LIMITS, MAIN, POD, Crowd
from hosts.memtierd import CLASS
from hosts.placed import CPUS
from houses import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hosts.traced_hook import SystemCall

pytestmark = pytest.mark.no_cover
EVERY = int(os.environ.get("FAULTS_EVERY", "24"))
NAP = "--inject=clock_nanosleep:delay_exit=50000"  # waits for a memtierd's end poll once, mostly
ALL_MAY: dict[str, Any] = {"enabled": True, "allow": {"shop": ["*"]}}
WEIGHTS = {"cpu.weight": "20", "io.weight": "default 50"}
ASKED = {
    CLASS: "track",
    HIGH: "64M",
    CPUS: "exclusive",
    "class.rdt.resctrl-hooks.io": "gold",
    "class.blockio.resctrl-hooks.io": "slow",
    "class.scheduling.resctrl-hooks.io": "background",
}
FEATURES = {"rdt", "monitoring", "memory", "memtierd", "blockio", "scheduling"} | {"placement"} - missing()


class FullHost(Crowd):
    """A crowded host with all features, whose failures refuse no container."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.cgroup_files |= {"cpu.weight": "100", "io.weight": "default 100"}
        self.add_class("gold")

    def use(self, **config: Any) -> None:
        super().use(
            rdt=ALL_MAY,
            blockio=ALL_MAY | {"classes": {"slow": [{"weight": 50}]}},
            scheduling=ALL_MAY | {"classes": {"background": {"cpuWeight": 20}}},
            **config,
        )
        values = json.loads(self.config.read_text())
        for section in ("memory", "memtierd"):
            values[section]["failurePolicy"] = "ignore"
        self.config.write_text(json.dumps(values))

    def told(self, name: str, milli: int = 0, status: str = "created", **annotations: str) -> dict[str, Any]:
        return super().told(name, milli, status, **annotations | (ASKED if name == MAIN else {}))

    def result(self) -> dict[str, Any]:
        """Return all that a container's start is to come to."""
        written = {name: (self.folder(MAIN) / name).read_text().strip() for name in (*LIMITS, *WEIGHTS)}
        group = f"gold/mon_groups/{POD}"
        seen = self.seen()
        group, before = f"gold/mon_groups/{POD}", f"mon_groups/{POD}"
        # A plain tree's group keeps a task that joins a class, so the group cannot follow. On the simulated kernel it
        # does: core/node/reconcile/test_failed_plan.py.
        if before in seen["groups"] and {self.pids[MAIN]} <= {*self.host.tasks("gold")} & {*self.host.tasks(before)}:
            seen["groups"] = sorted(group if one == before else one for one in seen["groups"])
            joined = True
        else:
            joined = group in seen["groups"] and self.pids[MAIN] in self.host.tasks(group)
        return seen | {"written": written, "joined": joined, "features": self.recorded()}


@pytest.fixture
def full(tmp_path: Path) -> Iterator[FullHost]:
    host = FullHost(Host(tmp_path))
    yield host
    host.clean()


def points(calls: list[SystemCall], first: int) -> list[SystemCall]:
    """Return the calls that are tried."""
    return calls[first % EVERY :: EVERY]


def error_at(call: SystemCall) -> str:
    """Return strace's option for an error at a call: one that does not mean a missing file."""
    number = "ENFILE" if call.name == "openat" else "EIO"
    return f"--inject={call.name}:error={number}:when={call.number}"


def try_all(full: FullHost, what: str, calls: list[SystemCall], first: int, once: Callable[[SystemCall], None]) -> None:
    """Call ``once`` for each call that is tried; fail at the end, with all that went wrong."""
    hits, wrong = 0, []
    for call in points(calls, first):
        try:
            once(call)
        except AssertionError as error:
            wrong.append((call, str(error)))
        hits += full.traced.was_refused
        if MAIN in full.pids:
            full.end_and_reconcile()
    print(f"{what}: {hits} errors at {len(calls)} system calls, {len(wrong)} with another result")
    assert hits
    assert not wrong


def test_error_in_create_runtime_is_repaired_by_one_reconcile(full: FullHost) -> None:
    state = full.created()
    assert full.traced.run(state).returncode == 0
    calls = full.traced.calls()
    full.runs(state)
    wanted = full.result()
    assert wanted["features"] == FEATURES
    assert wanted["written"] == LIMITS | WEIGHTS
    assert wanted["joined"]
    full.end_and_reconcile()

    def once(call: SystemCall) -> None:
        state = full.created()
        done = full.traced.run(state, error_at(call))
        full.runs(state)
        assert done.returncode == 0, done.stderr
        full.pass_alone()
        assert full.result() == wanted, done.stderr

    try_all(full, "createRuntime", calls, 1, once)


def test_error_in_poststop_is_repaired_by_one_reconcile(full: FullHost) -> None:
    assert full.traced.run(full.ended(), NAP).returncode == 0
    assert full.seen() == full.before

    def once(call: SystemCall) -> None:
        done = full.traced.run(full.ended(), NAP, error_at(call))
        assert done.returncode == 0, done.stderr
        full.pass_alone()
        assert full.seen() == full.before, done.stderr

    try_all(full, "poststop", full.traced.calls(), 2, once)


def test_error_in_reconcile_is_repaired_by_the_next(full: FullHost) -> None:
    full.runs(full.created())
    assert full.traced.run({}, command="reconcile").returncode == 0
    calls = full.traced.calls()
    wanted = full.result()
    assert wanted["features"] == FEATURES
    full.end_and_reconcile()

    def once(call: SystemCall) -> None:
        full.runs(full.created())
        done = full.traced.run({}, error_at(call), command="reconcile")
        assert b"Traceback" not in done.stderr, done.stderr
        full.pass_alone()
        full.pass_alone()  # placement takes a container in once its group is recorded
        assert full.result() == wanted, done.stderr

    try_all(full, "reconcile", calls, 3, once)
