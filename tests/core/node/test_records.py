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
from hosts.placed import id_of
from hosts.record_types import check
from houses import missing

from resctrl_hooks.core.node import bytecode
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features.memtierd.processes import SupervisorRecord
from resctrl_hooks.core.node.host.topology import TopologyRecord
from resctrl_hooks.core.node.part import load
from resctrl_hooks.core.node.records import MemberRecord, PodRecord
from resctrl_hooks.core.node.resctrl.counters_record import CountersRecord
from resctrl_hooks.core.node.sharing.claims import begin_to_wait

PROJECT = Path(__file__).parents[3]
PACKAGE = PROJECT / "resctrl_hooks"
NEEDS = {name: load(row.needs) for name, row in FEATURES.items()}
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


@pytest.mark.ci
def test_records_of_hooks_and_reconcile_match_types(crowd: Crowd) -> None:
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
        record = check(PodRecord if path.name == "pod" else MemberRecord, path.read_bytes())
        for step in record.get("steps", []):
            check(NEEDS[step["feature"]], json.dumps(step["needs"]))
            seen.add(step["feature"])
    assert seen == NEEDS.keys()
    assert "claim" in check(PodRecord, (host.state / f"pods/{POD}/pod").read_bytes())
    assert POD in check(CountersRecord, (host.state / "totals/counters").read_bytes())["keys"]
    check(TopologyRecord, json.dumps(json.loads((host.state / "topology").read_bytes())["topology"]))
    supervisors = list((host.root / "memtierds").rglob("memtierd.keeper"))
    assert any(id_of(MAIN) in str(path) for path in supervisors)
    for path in supervisors:
        check(SupervisorRecord, path.read_bytes())


def test_start_of_a_container_without_a_record_needs_no_types() -> None:
    assert not {"core.node.records", "core.node.shapes"} & {*bytecode.HOOK.split()}


@pytest.mark.ci
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
