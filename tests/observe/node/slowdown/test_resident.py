"""The resident part on a node whose victim is slowed by bronze: its status file, its lock, its baselines."""

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host

from observe.slowdown.world import CAPACITY, KEY, World
from resctrl_hooks.core.node import retried
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.node.resident import Moment
from resctrl_hooks.observe.node.slowdown import live
from resctrl_hooks.observe.node.slowdown.baseline import store
from resctrl_hooks.observe.node.slowdown.baseline.store import NAME
from resctrl_hooks.observe.node.slowdown.constants import FEWEST, UNWATCHED_WINDOWS, WINDOW
from resctrl_hooks.observe.node.slowdown.evidence import reader
from resctrl_hooks.observe.node.slowdown.resident import SlowdownResident, start
from resctrl_hooks.observe.node.slowdown.status import read_status
from resctrl_hooks.observe.node.snapshot.snapshot import take

QUIET, LOUD = 10, 100


class Resident:
    """The part in the world of the experiment, on its clock."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = World(host, monitoring=CAPACITY)
        self.store = self.world.store
        self.context = host.context()
        self.log = host.log
        own = Path(self.context.proc, str(os.getpid()))
        own.mkdir(parents=True, exist_ok=True)
        (own / "stat").write_text(Path("/proc/self/stat").read_text())
        for module in (reader, live, retried):
            clock = SimpleNamespace(monotonic=lambda: self.world.seconds, time=lambda: 1e9 + self.world.seconds)
            monkeypatch.setattr(module, "time", clock)
        self.path = Path(host.state, SLOWDOWN_STATUS)

    def start(self) -> SlowdownResident:
        found = start(self.context)
        assert found is not None
        return found

    def run(self, part: SlowdownResident, windows: int, bronze: int) -> None:
        (self.world.node.root / "bronze/schemata").write_text(f"MB:0={bronze}\n")
        for _ in range(windows):
            part.sample(Moment(self.world.seconds, lambda: take(self.context)))
            self.world.sleep(WINDOW)
        part.sample(Moment(self.world.seconds, lambda: take(self.context)))

    def protect(self, name: str, rule: "dict[str, float]") -> None:
        self.context.settings.rdt["guard"]["protect"] = {name: rule}

    @property
    def victim(self) -> Any:
        status = read_status(self.context)
        assert status is not None
        return status["pods"][KEY]

    @property
    def pressed(self) -> Any:
        return json.loads(self.path.read_text())["pressed"]


@pytest.fixture
def resident(host: Host, monkeypatch: pytest.MonkeyPatch) -> Resident:
    return Resident(host, monkeypatch)


def test_pod_is_unknown_then_normal_then_slowed_and_the_guard_hears_of_it(resident: Resident) -> None:
    resident.protect("gold", {"slowdown": 1.2})
    part = resident.start()
    resident.run(part, 5, QUIET)
    assert (resident.victim["verdict"], resident.victim["ratio"]) == ("unknown", None)
    resident.run(part, 10, QUIET)
    assert (resident.victim["verdict"], resident.pressed) == ("normal", {})
    resident.run(part, FEWEST, LOUD)
    found = resident.pressed[KEY]
    assert (found["classes"], found["domains"]) == (["gold"], [0])
    assert found["ratio"] > 1.5
    assert found["until"] - found["since"] == pytest.approx(FEWEST * WINDOW)
    resident.run(part, 12 - FEWEST, LOUD)
    victim = resident.victim
    assert (victim["verdict"], victim["method"], victim["domain"]) == ("slowed", "traffic", 0)
    assert victim["ratio"] == pytest.approx(1.96, abs=0.1)
    assert [one["cause"] for one in victim["causes"] if one["state"] == "supported"] == ["memory-bandwidth"]
    assert victim["load"] > 0.75
    assert 60 <= victim["slowedSeconds"]["memory-bandwidth"] <= 120, "the first windows are judged with quiet ones"
    assert len(part._live.windows) == UNWATCHED_WINDOWS
    resident.run(part, FEWEST, QUIET)
    assert resident.pressed == {}
    record = json.loads(resident.path.read_text())
    for text in (json.dumps({**record, "uptime": record["uptime"] - 3 * WINDOW}), "{"):
        resident.path.write_text(text)
        assert read_status(resident.context) is None, "it is not updated, or damaged"
    part.close()


def test_load_is_unknown_beside_a_group_without_an_assigned_counter(resident: Resident) -> None:
    root = resident.world.node.root
    (root / "info/L3_MON").mkdir()
    (root / "mbm_L3_assignments").write_text("mbm_total_bytes:0=e\n")
    part = resident.start()
    resident.run(part, 3, LOUD)
    assert resident.victim["load"] > 0.75
    group = root / "silver/mon_groups/pod"
    group.mkdir()
    (group / "mbm_L3_assignments").write_text("mbm_total_bytes:0=_\n")
    resident.run(part, 12, LOUD)
    assert resident.victim["load"] is None
    part.close()


@pytest.mark.parametrize("name, rule", [("silver", {"slowdown": 1.2}), ("gold", {})])
def test_pressure_on_a_class_without_a_slowdown_is_none(resident: Resident, name: str, rule: dict[str, float]) -> None:
    resident.protect(name, rule)
    part = resident.start()
    resident.run(part, 15, QUIET)
    resident.run(part, 12, LOUD)
    assert resident.victim["verdict"] == "slowed"
    assert resident.pressed == {}
    part.close()


def test_one_process_has_the_baselines_which_outlive_it(resident: Resident, host: Host) -> None:
    resident.store.mkdir()
    (resident.store / NAME).write_text("[")
    part = resident.start()
    assert (resident.store / f"{NAME}.damaged").exists()
    assert resident.log.read_text().count("are damaged") == 1
    with pytest.raises(HookError, match="it adds samples to the baselines"):
        start(resident.context)
    resident.run(part, 15, QUIET)
    part.close()
    assert read_status(resident.context) is None
    again = resident.start()
    resident.run(again, 4, LOUD)
    assert resident.victim["verdict"] == "slowed"
    again.close()
    host.configure(slowdown={})
    assert start(host.context()) is None, "it is off unless enabled"
    assert not resident.path.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_unwritable_baselines_stay_in_memory(resident: Resident, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    part = resident.start()

    def refuse(path: str, data: bytes, mode: int) -> None:
        raise OSError(number, os.strerror(number), path)

    with monkeypatch.context() as full:
        full.setattr(store, "replace_file", refuse)
        resident.run(part, 30, QUIET)
        resident.run(part, 30, LOUD)
        assert resident.victim["verdict"] == "slowed"
        assert "baselines" in part.unsaved
        assert not (resident.store / NAME).exists()
    resident.run(part, 60, QUIET)
    assert part.unsaved == {}
    assert json.loads((resident.store / NAME).read_text())["workloads"]
    lines = [line for line in resident.log.read_text().splitlines() if "slowdown: baselines" in line]
    assert len(lines) == 2
    assert errno.errorcode[number] in lines[0]
    part.close()
