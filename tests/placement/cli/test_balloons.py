"""`config balloons`: its output, its errors, and the files for which `config check` offers it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import FIXTURES
from core.config.judged import FOREIGN, problems

from resctrl_hooks.core.cli import main

CONVERTED = (
    "BalloonsPolicy",
    "TopologyAwarePolicy",
    "CRI Resource Manager's ConfigMap",
    "CRI Resource Manager",
    "balloons' chart",
    "balloons' values",
    "a policy's keys",
)


def convert(path: Path, text: str) -> Result:
    path.write_text(text)
    return CliRunner().invoke(main, ["config", "balloons", str(path)])


def test_balloons_names_what_it_cannot_convert(tmp_path: Path) -> None:
    policy = tmp_path / "balloons.yaml"
    done = CliRunner().invoke(main, ["config", "balloons", str(policy)])
    assert (done.exit_code, f"cannot read {policy}: No such file" in done.stderr) == (1, True)
    policy.write_text("a: [")
    done = CliRunner().invoke(main, ["config", "balloons", str(policy)])
    assert (done.exit_code, f"{policy}:1: not YAML: expected" in done.stderr) == (2, True)
    policy.write_text("apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy\nspec: {reservedResources: {cpu: 1}}\n")
    done = CliRunner().invoke(main, ["config", "balloons", str(policy)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("placement:\n")
    policy.write_text("balloonTypes: [{name: a, minCPUs: 1, loads: [x]}]\nreservedResources: {cpu: 1}\n")
    assert "loads" in CliRunner().invoke(main, ["config", "balloons", str(policy)]).stderr


@pytest.mark.parametrize("name", FOREIGN)
def test_conversion_is_offered_for_policies(name: str) -> None:
    offer = "; `resctrl-hook config balloons FILE` prints its `placement` section"
    assert problems(FOREIGN[name])[0].endswith(offer) is (name in CONVERTED)


def test_placement_with_a_key_of_a_policy_is_a_configuration() -> None:
    (found,) = problems("placement: {enabled: true}\npinCPU: true\n")
    assert "this is a" not in found


@pytest.mark.parametrize("plugin", ["memory-qos", "memtierd", "resctrl-mon", "memory-policy"])
def test_file_of_a_plugin_is_named_by_the_converter(tmp_path: Path, plugin: str) -> None:
    done = convert(tmp_path / "plugin.yaml", (FIXTURES / f"nri-{plugin}.yaml").read_text())
    assert done.exit_code == 2
    assert "plugin.yaml:1: this is not a configuration of the balloons policy" in done.output
    assert "valid as config.yaml as they are" in done.output


@pytest.mark.parametrize("name", ["goresctrl's RDT classes", "goresctrl's block I/O classes", "sgx-epc's chart"])
def test_converter_names_a_file_of_another_program(tmp_path: Path, name: str) -> None:
    done = convert(tmp_path / "other.yaml", FOREIGN[name])
    what = problems(FOREIGN[name])[0].partition("this is ")[2].partition("; ")[0].partition(", which")[0]
    assert done.exit_code == 2
    assert f"it is {what}" in done.output


@pytest.mark.parametrize(
    "text, place",
    [
        ("balloonTypes:\n- name: a\n- name: b\n  minCPUs: 3\n  maxCPUs: 2\n", "4: balloonTypes[1].minCPUs"),
        (
            "balloonTypes:\n- name: default\n- {name: b, minBalloons: 2, maxBalloons: 1}\n",
            "3: balloonTypes[1].minBalloons",
        ),
        ("reservedResources:\n  cpu: 'cpuset:x'\nballoonTypes: []\n", "1: reservedResources"),
        ("cpuClasses:\n- {name: a, minFreq: 2, maxFreq: 1}\nballoonTypes: []\n", "2: cpuClasses[0]"),
    ],
)
def test_error_of_a_converted_value_has_its_line_in_the_file(tmp_path: Path, text: str, place: str) -> None:
    done = convert(tmp_path / "policy.yaml", text)
    assert done.exit_code == 2
    assert f"policy.yaml:{place}" in done.output
