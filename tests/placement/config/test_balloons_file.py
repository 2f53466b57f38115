"""Configurations of NRI's balloons policy as the placement section."""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config.document import parse_document
from resctrl_hooks.placement.config.balloons_file import Conversion

WHOLE = """\
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata: {name: default}
spec:
  reservedResources: {cpu: "cpuset:0,48"}
  pinCPU: true
  pinMemory: false
  idleCPUClass: slow
  allocatorTopologyBalancing: true
  reservedPoolNamespaces: [kube-system, monitoring]
  balloonTypes:
  - name: low-latency
    matchExpressions:
    - {key: pod/labels/latency, operator: In, values: [critical]}
    minBalloons: 4
    minCPUs: 4
    maxCPUs: 8
    allocatorPriority: high
    preferNewBalloons: true
    allocatorTopologyBalancing: false
    shareIdleCPUsInSame: numa
    cpuClass: fast
    irqMode: isolate
  - name: teams
    namespaces: [team-*]
    groupBy: ${namespace}
    preferSpreadOnPhysicalCores: true
    hideHyperthreads: true
    preferIsolCpus: true
    maxBalloons: 3
  - name: reserved
    namespaces: [infra]
  - name: default
    namespaces: ["*"]
  cpuClasses:
  - {name: fast, minFreq: base, maxFreq: turbo, energyPerformancePreference: 0}
  - {name: slow, maxFreq: 1.2GHz}
"""


def converted(text: str) -> tuple[dict[str, Any], list[str]]:
    found = Conversion(parse_document(text.encode(), "b.yaml"))
    found.check(yaml.dump({"placement": found.placement}).encode())
    return found.placement, [f"{problem.severity}: {problem}" for problem in found.problems]


def test_whole_file_becomes_a_valid_section() -> None:
    placement, problems = converted(WHOLE)
    assert problems == [
        (
            "warning: b.yaml:18: spec.balloonTypes[0].allocatorPriority: has no counterpart here; "
            "pools are served in the order of the list"
        )
    ]
    assert placement == {
        "enabled": True,
        "policy": "pools",
        "pinMemory": False,
        "idleCpuClass": "slow",
        "reservedNamespaces": ["kube-system", "monitoring", "infra"],
        "reservedCpus": "0,48",
        "cpuClasses": [
            {"name": "fast", "minFreq": "base", "maxFreq": "turbo", "energyPerformancePreference": 0},
            {"name": "slow", "maxFreq": "1.2GHz"},
        ],
        "pools": [
            {
                "name": "low-latency",
                "matchExpressions": [{"key": "pod/labels/latency", "operator": "In", "values": ["critical"]}],
                "minInstances": 4, "minCpus": 4, "maxCpus": 8, "maxInstances": 0, "instancePer": "pod",
                "shareIdleCpus": "numa", "cpuClass": "fast", "irqMode": "isolate",
            },
            {
                "name": "teams", "namespaces": ["team-*"], "instancePer": "${namespace}", "spreadCores": True,
                "hideHyperthreads": True, "preferIsolCpus": True, "maxInstances": 3, "spread": True,
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    "text, problem",
    [
        ("spec: {pinCPU: true, loadClases: [{}]}", "b.yaml:1: spec.loadClases: unknown key of the balloons policy"),
        ("spec: {loadClasses: [{name: a}]}", "b.yaml:1: spec.loadClasses: has no counterpart here"),
        ("spec: {pinCPU: true, config: {pinCPU: false}}", "spec.config: unknown key of the balloons policy"),
        ("config: {log: {debug: [policy]}}", "b.yaml:1: config.log: has no counterpart here; see `log`"),
        ("pinCPU: false", "b.yaml:1: pinCPU: placement always sets CPUs; set placement.enabled to false"),
        (
            "reservedResources: {cpu: 750m}",
            "reservedResources.cpu: '750m' has no counterpart here; write the CPUs in reservedCpus",
        ),
        ("balloonTypes: [{name: a, minCpu: 4}]", "balloonTypes[0].minCpu: unknown key of the balloons policy"),
        ("balloonTypes: [{name: a, loads: [x]}]", "balloonTypes[0].loads: has no counterpart here"),
        ("balloonTypes: [{name: a, irqMode: sink}]", "balloonTypes[0].irqMode: 'sink' has no counterpart here"),
        ("balloonTypes: [{name: a, maxCPUs: -1}]", "balloonTypes[0].maxCPUs: -1 has no counterpart here"),
        ("balloonTypes: [{name: a, shareIdleCPUsInSame: l2cache}]", "'l2cache' has no counterpart here"),
        (
            "balloonTypes: [{name: a, groupBy: 'x${name}', preferNewBalloons: true}]",
            "balloonTypes[0].preferNewBalloons: instances are already per x${name}",
        ),
        (
            "balloonTypes: [{name: default, minCPUs: 2}]",
            "balloonTypes[0].minCPUs: has no counterpart here; its containers share all CPUs that no pool uses",
        ),
        ("balloonTypes: [{name: default, namespaces: [a]}]", "balloonTypes[0].namespaces: has no counterpart here"),
        ("cpuClasses: [{name: a, pctPriority: high}]", "cpuClasses[0].pctPriority: has no counterpart here"),
        (
            "balloonTypes: [{name: a, cpuClass: x}]",
            "warning: b.yaml:1: balloonTypes[0].cpuClass: CPU class 'x' is not declared in this file; left out",
        ),
        ("idleCPUClass: x", "warning: b.yaml:1: idleCPUClass: CPU class 'x' is not declared in this file; left out"),
        ("spec: {idleCPUClass: x, control: {rdt: {enable: true}}}", "control.rdt: has no counterpart in `placement`"),
        ("balloonTypes: {a: {}}", "error: b.yaml:1: balloonTypes: should be a list"),
        ("reservedPoolNamespaces: infra", "error: b.yaml:1: reservedPoolNamespaces: should be a list"),
        ("balloonTypes: [{name: reserved, namespaces: infra}]", "balloonTypes[0].namespaces: should be a list"),
        ("cpuClasses: 5", "error: b.yaml:1: cpuClasses: should be a list"),
        ("balloonTypes: [{name: a, minCPUs: many}]", "error: b.yaml:1: balloonTypes[0].minCPUs: should be a whole"),
        ("[1]", "this is not a configuration of the balloons policy"),
    ],
)
def test_each_key_without_counterpart_is_named(text: str, problem: str) -> None:
    assert problem in " ".join(converted(text)[1])


def test_keys_that_change_nothing_are_not_named() -> None:
    text = "showContainersInNrt: false\nballoonTypes: [{name: a, preferSpreadingPods: false, loads: []}]"
    assert converted(text)[1] == []
    assert converted("pinMemory: true") == (
        {"enabled": True, "pinMemory": True, "reservedNamespaces": ["kube-system"]}, []
    )  # fmt: skip


def test_invalid_section_is_not_printed(tmp_path: Any) -> None:
    (tmp_path / "balloons.yaml").write_text("balloonTypes: [{name: a, minCPUs: many}]")
    done = CliRunner().invoke(main, ["config", "balloons", f"{tmp_path}/balloons.yaml"])
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize(
    "keys, per", [("", "pod"), (", preferSpreadingPods: false", "pod"), (", preferSpreadingPods: true", "container")]
)
def test_new_balloons_are_for_pods_unless_their_containers_spread(keys: str, per: str) -> None:
    placement, problems = converted(f"balloonTypes: [{{name: a, preferNewBalloons: true{keys}}}]")
    assert (placement["pools"][0]["instancePer"], problems) == (per, [])
