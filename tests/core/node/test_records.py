"""The types of records match the written files, and mypy finds misspelt keys."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Host
from hosts.crowded import MAIN, POD, Crowd
from hosts.machines import MACHINES
from hosts.placed import id_of
from hosts.record_types import MODULES, Types, types
from houses import missing

from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.refusals import FILE as REFUSALS
from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.core.node.sharing.claims import begin_to_wait

HOUSES = ("placement",)
PROJECT = Path(__file__).parents[3]
PACKAGE = PROJECT / "resctrl_hooks"
NEEDS = {
    "monitoring": "ClassNeeds",
    "rdt": "ClassNeeds",
    "memory": "LimitNeeds",
    "memtierd": "MemtierdNeeds",
    "blockio": "CgroupNeeds",
    "scheduling": "SchedulingNeeds",
    "placement": "PlacementNeeds",
}
__all__ = ("types",)
USES = {
    "core/node/resctrl/locked_key.py": "born",
    "core/node/resctrl/key_counts.py": "spent",
    "core/node/lifecycle.py": "steps",
    "core/node/container/running.py": "podCgroup",
    "core/node/features/monitoring.py": "class",
    "core/node/features/memory.py": "limits",
    "core/node/features/memtierd/feature.py": "supervisor",
    "core/node/features/scheduling.py": "process",
    "core/node/features/blockio.py": "properties",
    "placement/node/policy.py": "owned",
    "placement/node/reconcile.py": "decision",
    "core/node/host/topology.py": "distances",
    "core/node/call_metrics.py": "buckets",
    "core/node/reconcile/discovery.py": "start",
    "core/node/sharing/claims.py": "entry",
    "nri/node/status.py": "drops",
    "core/inventory/gather.py": "claim",
    "core/inventory/feature_display/memtierd.py": "class",
}
"""A module for each kind of record, and a key that it uses."""


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(Host(tmp_path))
    yield crowd
    crowd.clean()


def test_records_of_hooks_and_reconcile_match_types(crowd: Crowd, types: Types) -> None:
    host = crowd.host
    host.add_class("gold")
    host.configure(
        **{name: value for name, value in json.loads(host.config.read_text()).items() if name != "format"},
        rdt={"enabled": True, "defaults": {"namespaces": {"shop": "gold"}}},
        blockio={"enabled": True, "defaults": {"namespaces": {"shop": "slow"}}, "classes": {"slow": [{"weight": 50}]}},
        scheduling={
            "enabled": True,
            "defaults": {"namespaces": {"shop": "batch"}},
            "classes": {"batch": {"policy": "batch", "nice": 5, "cpuWeight": 20, "memoryLow": "16M"}},
        },
        failurePolicy="ignore",
    )
    state = crowd.created()
    for file, value in {"io.weight": "default 100", "cpu.weight": "100", "memory.low": "0"}.items():
        (crowd.folder(MAIN) / file).write_text(value)
    host.call(state)
    crowd.runs(state)
    with host.context().monitor.hold(POD) as locked:
        begin_to_wait(locked, host.context().ledger, (7, 1))
    host.context().monitor.read_all()

    seen: set[str] = set()
    for path in host.state.glob("pods/*/*"):
        record = types.check("PodRecord" if path.name == "pod" else "MemberRecord", path.read_bytes())
        for step in record.get("steps", []):
            types.check(NEEDS[step["feature"]], json.dumps(step["needs"]))
            seen.add(step["feature"])
    assert seen == NEEDS.keys()
    assert "claim" in types.check("PodRecord", (host.state / f"pods/{POD}/pod").read_bytes())
    assert POD in types.check("CountersRecord", (host.state / "totals/counters").read_bytes())["keys"]
    types.check("KeptTopologyRecord", (host.state / "topology").read_bytes())
    supervisors = list((host.root / "memtierds").rglob("memtierd.keeper"))
    assert any(id_of(MAIN) in str(path) for path in supervisors)
    for path in supervisors:
        types.check("SupervisorRecord", path.read_bytes())


def test_other_records_match_types(tmp_path: Path, types: Types) -> None:
    record_refusal(str(tmp_path), {"key": "k", "namespace": "shop", "pod": "web", "container": "c", "id": "i"}, "full")
    types.check("RefusalRecord", (tmp_path / REFUSALS).read_bytes())
    metrics = call_metrics.CallMetrics()
    metrics.add_lines(b"1700000000 createRuntime 1500 no-rmids key\n")
    types.check("CallMetricsRecord", json.dumps(metrics.as_record("8:1")))
    for machine in MACHINES.values():
        types.check("TopologyRecord", json.dumps(machine.as_record()))


def test_shared_step_parameters_have_a_type(types: Types) -> None:
    assert NEEDS.keys() <= FEATURES.keys()
    assert all(hasattr(types.module, name) for name in NEEDS.values())


def test_record_types_cost_hooks_nothing() -> None:
    for of in MODULES:
        assert {name for name in vars(of) if not name.startswith("__")} == {"TYPE_CHECKING"}


def test_misspelt_key_is_a_mypy_error(tmp_path: Path) -> None:
    # A separate cache: results for modified sources must not be shared.
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(PROJECT / ".mypy_cache/misspelt")]
    uses = {name: key for name, key in USES.items() if name.partition("/")[0] not in missing()}
    for number, (name, key) in enumerate(uses.items()):
        misspelt, found = re.subn(f'"{key}"', f'"{key}x"', (PACKAGE / name).read_text())
        assert found, f"{name} doesn't use {key}"
        shadow = tmp_path / f"{number}.py"
        shadow.write_text(misspelt)
        command += ["--shadow-file", str(PACKAGE / name), str(shadow)]
    command += [str(PACKAGE / name) for name in uses]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    told = set(re.findall(r"^resctrl_hooks/([^:]*):[0-9]+: error: ", done.stdout, re.MULTILINE))
    assert told == set(uses), done.stdout + done.stderr
