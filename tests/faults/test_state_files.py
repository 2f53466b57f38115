"""Every field of every state file with wrong values: no exception leaves a pass, and other pods are served."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import UID, Host
from hosts.hostile_inputs import SAME, WRONG, places, replaced
from hosts.placed import CPUS, PlacedHost, id_of
from houses import missing

from resctrl_hooks.core.node.ledger import WAITING
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.sharing.claims import begin_to_hold
from resctrl_hooks.core.node.watch.containers import Containers

PLACED = "placement" not in missing()
DAMAGED, OTHER = "damaged", "other"
POD = "5a0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c05"
HELD = {"found": "1", "wanted": "2", "now": "2", "refused": ""}
STAGE = {"runs": 1, "seconds": 0.1, "last": 1, "failures": {"fault": 1}, "buckets": [1] * 14}
BY_HAND: dict[str, Any] = {
    "vanished": {"total": 2, "last": 1.0, "pods": {UID: [2, 1.0, 2.0]}, "uptime": {UID: [1.0, 1.0, 2.0]}},
    "counter-turns": {"boot": "", "last": 1.0, "gap": 2.0, "since": {UID: [True, 1.0]}},
    "released-counters": {"boot": "", "counters": [["", "mbm_total_bytes", 1]]},
    "tally": {"format": 1, "stages": {"hook": STAGE}, "last": [[1, "hook", "fault", UID]], "folded": "8:1"},
    "placement.cpus": {"boot": "", "values": {"cpu0/x": HELD}},
    "placement.irqs": {"boot": "", "values": {"9/smp_affinity_list": HELD}, "facts": "1"},
    "placement.specified": {"c" * 64: "0-3"},
    "guard-lease.json": {
        "pid": 1, "start": 1, "boot": "", "declared": {"gold": {"0": 100}}, "ours": {"gold": {"0": [100, 90]}},
        "owner": "the guard", "deadline": 1.5,
    },
}  # fmt: skip
RECORD = {
    "unmet": {"memory": "no such class"}, "unplanned": ["memory"], "starts": {"memtierd": [1.0]},
    "startUptimes": {"memtierd": [1.0]}, "kept": {"memory": ["memory.high is 1"]}, "again": True, "late": True,
    "told": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
}  # fmt: skip
"""Fields that few members have."""


class TwoPods(PlacedHost):
    """A node with a pod of every feature that needs no program, and another pod that no hook has seen."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.cgroup_files |= {"io.weight": "default 100", "cpu.weight": "100", "memory.low": "0", "memory.high": "max"}
        self.add_class("gold")
        background = {"policy": "batch", "nice": 5, "cpuWeight": 20, "memoryLow": "16M"}
        kubelet = str(self.root / "kubelet")
        self.configure(
            **({"placement": {"enabled": True, "allow": {"shop": ["*"]}, "kubeletPath": kubelet}} if PLACED else {}),
            memory={"allowLimits": {"shop": ["memory.high"]}},
            rdt={"enabled": True, "defaults": {"namespaces": {"shop": "gold"}}},
            blockio={"enabled": True, "defaults": {"namespaces": {"shop": "s"}}, "classes": {"s": [{"weight": 50}]}},
            scheduling={"enabled": True, "defaults": {"namespaces": {"shop": "b"}}, "classes": {"b": background}},
        )
        self.begin(DAMAGED)
        asked = {"memory.high.memtierd.nri.io": "64M", CPUS: "exclusive"}
        assert self.call(self.told(DAMAGED, 1000, **asked)).code == 0
        context = self.context()
        with context.monitor.hold(UID) as locked:
            begin_to_hold(locked, context.ledger, 7, 1)
            locked.record["unread"] = ["epc-limit.nri.io"]
            locked.record["baselines"] = {"gold": ("1:2", {"mon_PERF_PKG_00/core_energy": 1.0})}
            locked.save()
            member: Any = locked.member(id_of(DAMAGED))
            context.ledger.write_member(UID, id_of(DAMAGED), member | RECORD)
        context.monitor.read_all()
        for name, value in BY_HAND.items():
            boot = {"boot": context.monitor.boot} if "boot" in value else {}
            (self.state / name).write_text(json.dumps(value | boot))
        self.run_unseen(OTHER, 500)
        self._kept = self.root / "kept"
        shutil.copytree(self.state, self._kept, symlinks=True)

    def pod_of(self, name: str) -> str:
        return POD if name == OTHER else UID

    def files(self) -> Iterator[tuple[Path, list[Any]]]:
        """Yield each file of the state directory whose lines are JSON, with their values."""
        for path in sorted(self._kept.rglob("*")):
            if path.is_file() and not path.is_symlink():
                with suppress(ValueError):
                    values = [json.loads(line) for line in path.read_bytes().splitlines()]
                    if values and all(isinstance(value, dict | list) for value in values):
                        yield path.relative_to(self._kept), values

    def serve_with(self, file: Path, values: list[Any]) -> str:
        """Make everything that reads state files work with this one; return the log."""
        shutil.rmtree(self.state)
        shutil.copytree(self._kept, self.state, symlinks=True)
        (self.state / file).write_text("".join(f"{json.dumps(value)}\n" for value in values))
        self.log.unlink(missing_ok=True)
        context = self.context()
        Containers(context.ledger).refresh()
        reconcile(context, Options(wait=False))
        assert id_of(OTHER) in context.ledger.members(POD), "the other pod is not served"
        assert POD not in context.ledger.marked(WAITING)
        assert self.call(self.told(DAMAGED, status="stopped")).code == 0
        return self.log.read_text() if self.log.exists() else ""


@pytest.mark.parametrize("every", [len(WRONG), pytest.param(1, marks=pytest.mark.ci)])
def test_wrong_value_in_a_state_file_affects_its_own_pod_only(tmp_path: Path, every: int) -> None:
    node = TwoPods(Host(tmp_path))
    files = dict(node.files())
    names = {path.name.partition("-")[0] for path in files}
    placements = {"topology", "placement"} if PLACED else set()
    assert {"pod", "c", *placements, *(name.partition("-")[0] for name in BY_HAND)} <= names, names
    found: list[str] = []
    turn = 0
    assert not PLACED or {len(values) for path, values in files.items() if path.name == "placement"} == {1 + SAME}
    for file, values in files.items():
        for path in ((number, *path) for number, value in enumerate(values) for path in places(value)):
            turn += 1
            for wrong in WRONG[turn % every :: every]:
                try:
                    log = node.serve_with(file, replaced(values, path, wrong))
                except Exception as error:  # noqa: BLE001  # all are listed at once
                    found.append(f"{file} {path} = {wrong!r}: {type(error).__name__}: {error}")
                    continue
                bugs = [line for line in log.splitlines() if "internal error" in line]
                found += [f"{file} {path} = {wrong!r}: {line}" for line in bugs[:1]]
    assert not found, "\n".join(found[:40])
