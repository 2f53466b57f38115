"""Files of nri-plugins and CRI Resource Manager: which are converted, and by which policy."""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config.document import parse_document
from resctrl_hooks.placement.config.balloons_file import Conversion

RESOURCE_MANAGER = """\
policy:
  Active: balloons
  ReservedResources: {CPU: "cpuset:15"}
  balloons:
    PinMemory: false
    IdleCPUClass: slow
    BalloonTypes:
    - {Name: fast, MinCPUs: 2, MaxCPUs: 4, CPUClass: turbo, Namespaces: [hpc], PreferNewBalloons: true}
cpu:
  Classes:
    turbo: {MinFreq: 3300000, maxFreq: 3600000, energyPerformancePreference: 0}
    slow: {maxFreq: 1200000}
logger: {Debug: policy}
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cri-resmgr-config.default}
data:
  policy: |+
    Active: topology-aware
    ReservedResources: {cpu: cpuset:0-1}
    topology-aware:
      PinMemory: false
      PreferIsolatedCPUs: false
      PreferSharedCPUs: true
      ColocateNamespaces: true
  rdt: |+
    options: {mode: Full}
"""
BASE: dict[str, Any] = {"enabled": True, "reservedNamespaces": ["kube-system"]}
TOPOLOGY = {**BASE, "policy": "topology-aware", "preferIsolCpus": True, "allow": {"*": ["exclusive"]}}


def converted(text: str) -> tuple[dict[str, Any], list[str]]:
    found = Conversion(parse_document(text.encode(), "p.yaml"))
    if found.placement:
        found.check(yaml.dump({"placement": found.placement}).encode())
    return found.placement, [f"{problem.severity}: {problem}" for problem in found.problems]


def test_file_of_resource_manager_becomes_a_valid_section() -> None:
    placement, problems = converted(RESOURCE_MANAGER)
    assert placement == {
        **BASE,
        "policy": "pools",
        "reservedCpus": "15",
        "pinMemory": False,
        "idleCpuClass": "slow",
        "cpuClasses": [
            {"name": "turbo", "minFreq": 3300000, "maxFreq": 3600000},
            {"name": "slow", "maxFreq": 1200000},
        ],
        "pools": [
            {
                "name": "fast", "minCpus": 2, "maxCpus": 4, "cpuClass": "turbo", "namespaces": ["hpc"],
                "instancePer": "pod", "maxInstances": 0,
            },
        ],
    }  # fmt: skip
    assert problems == [
        "warning: p.yaml:13: logger: has no counterpart in `placement`; see `log` in docs/configuration-reference.md"
    ]


def test_config_map_of_resource_manager_becomes_a_valid_section() -> None:
    placement, problems = converted(CONFIG_MAP)
    assert placement == {
        **BASE, "policy": "topology-aware", "reservedCpus": "0-1", "pinMemory": False, "preferIsolCpus": False
    }  # fmt: skip
    assert problems == [
        "warning: p.yaml:13: data.rdt: has no counterpart in `placement`; declare classes in rdt",
        "warning: p.yaml:12: data.policy.topology-aware.ColocateNamespaces: has no counterpart here",
    ]


@pytest.mark.parametrize(
    "text, placement",
    [
        ("kind: TopologyAwarePolicy\nspec: {pinCPU: true}", TOPOLOGY),
        ("kind: TopologyAwarePolicy\nspec: {}", TOPOLOGY),
        ("config: {preferIsolatedCPUs: true}", TOPOLOGY),
        ("image: {name: x/nri-resource-policy-topology-aware}\nconfig: {pinCPU: true}", TOPOLOGY),
        ("image: {name: x/nri-resource-policy-balloons}\nconfig: {pinCPU: true}", BASE),
        ("policy: {active: topology-aware}", TOPOLOGY),
        ("policy: {Active: balloons}", BASE),
        ("kind: BalloonsPolicy\nspec: {idleCPUClass: normal}", BASE),
        ("colocatePods: true\ndefaultCPUPriority: none\ncontrollableInterrupts: ['*']", TOPOLOGY),
        (
            "kind: BalloonsPolicy\nspec: {idleCPUClass: a, control: {cpu: {classes: {a: {minFreq: 800000}}}}}",
            {**BASE, "idleCpuClass": "a", "cpuClasses": [{"name": "a", "minFreq": 800000}]},
        ),
        (
            "kind: BalloonsPolicy\nspec: {cpuClasses: [{name: a}], control: {cpu: {classes: {a: {minFreq: 8}}}}}",
            {**BASE, "cpuClasses": [{"name": "a"}]},
        ),
    ],
)
def test_policy_is_recognized_by_kind_image_or_keys(text: str, placement: dict[str, Any]) -> None:
    found, problems = converted(text)
    assert found == placement
    assert all(problem.startswith("warning") for problem in problems)


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "this is not a configuration"),
        ("[1]", "this is not a configuration"),
        ("a: 5", "this is not a configuration"),
        ("spec: {loadClases: [{}]}", "this is not a configuration"),
        ("kind: TemplatePolicy\nspec: {reservedResources: {cpu: 1}}", "its kind is 'TemplatePolicy'"),
        ("kind: []\nspec: {pinCPU: true}", "its kind is '[]'"),
        ("kind: Pod\nspec: {containers: []}", "p.yaml:1: kind: this is not a configuration"),
        ("kind: BalloonsPolicy", "its kind is 'BalloonsPolicy'"),
        ("kind: ConfigMap\ndata: {config.yaml: 'classes: []'}", "its ConfigMap has no `policy`"),
        ("kind: ConfigMap", "its ConfigMap has no `policy`"),
        ("kind: ConfigMap\ndata:\n  policy: |\n    Active: [\n", "data.policy: not YAML"),
        ("kind: ConfigMap\ndata: {policy: 'Active: none'}", "the policy 'none' has no counterpart here"),
        ("policy: {Active: podpools, podpools: {PinCPU: true}}", "the policy 'podpools' has no counterpart here"),
        ("policy: {Active: [balloons]}", "has no counterpart here"),
        ("image: {name: x/nri-memtierd}\nconfig: {pinCPU: true}", "this is not a configuration"),
        ("config: {classes: [{name: gold}]}", "this is not a configuration"),
        ("placement: {enabled: true}", "this is not a configuration"),
    ],
)
def test_file_without_one_of_the_policies_is_an_error(tmp_path: Any, text: str, why: str) -> None:
    placement, problems = converted(text)
    assert placement == {}
    assert [problem.startswith("error: ") and why in problem for problem in problems] == [True]
    (tmp_path / "p.yaml").write_text(text)
    done = CliRunner().invoke(main, ["config", "balloons", f"{tmp_path}/p.yaml"])
    assert (done.exit_code, done.stdout) == (2, "")


def test_second_document_is_an_error_with_a_remedy(tmp_path: Any) -> None:
    (tmp_path / "p.yaml").write_text(f"{CONFIG_MAP}---\n{CONFIG_MAP}")
    done = CliRunner().invoke(main, ["config", "balloons", f"{tmp_path}/p.yaml"])
    assert done.exit_code == 2
    assert "p.yaml:15: a second document begins here; keep one configuration in one file" in done.stderr
