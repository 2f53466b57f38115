"""Other programs' files in place of a configuration: each is refused with line, kind and remedy, or is valid."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from resctrl_hooks.core.cli import main

FIXTURES = Path(__file__).parents[2] / "fixtures"
PLUGINS = ("memory-qos", "memtierd", "resctrl-mon")


def check(path: Path, text: str) -> Result:
    path.write_text(text)
    return CliRunner().invoke(main, ["--config", str(path), "config", "check"])


REFUSED = {
    "BalloonsPolicy": (
        "apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy\nspec: {}\n",
        "2: kind: this is a BalloonsPolicy of nri-plugins",
    ),
    "TopologyAwarePolicy": (
        "kind: TopologyAwarePolicy\napiVersion: config.nri/v1alpha1\n",
        "1: kind: this is a TopologyAwarePolicy of nri-plugins",
    ),
    "TemplatePolicy": (
        "apiVersion: config.nri/v1alpha1\nkind: TemplatePolicy\n",
        "2: kind: this is a Kubernetes object of the kind TemplatePolicy",
    ),
    "memtierd's ConfigMap": (
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n    classes: []\n",
        "2: kind: this is a Kubernetes object of the kind ConfigMap; write the text of `data.config.yaml`",
    ),
    "CRI Resource Manager's ConfigMap": (
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  policy: |\n    Active: balloons\n",
        "4: data.policy: this is CRI Resource Manager's ConfigMap",
    ),
    "CRI Resource Manager": (
        "blockio: {}\nPolicy:\n  Active: balloons\n",
        "2: Policy: this is CRI Resource Manager's configuration",
    ),
    "balloons' chart": (
        "image: {name: ghcr.io/x/nri-resource-policy-balloons}\nconfig: {pinCPU: true}\nnri: {plugin: {index: 90}}\n",
        "2: config: this is a Helm chart's values",
    ),
    "balloons' values": ("config:\n  balloonTypes: []\n", "1: config: this is a Helm chart's values"),
    "memory-policy's chart": (
        "image: {name: x/nri-memory-policy}\nconfig:\n  classes: []\nnri: {runtime: {}}\n",
        "2: config: this is a Helm chart's values; write what is below `config` into the file",
    ),
    "resctrl-mon's chart": (
        "namespaces: [a]\nimage: {name: x/nri-resctrl-mon}\nnri: {plugin: {index: 95}}\n",
        "2: image: this is a Helm chart's values, which are for Kubernetes only; the files of resctrl-mon",
    ),
    "sgx-epc's chart": (
        "image: {name: x/nri-sgx-epc}\nresources: {}\nnri: {plugin: {index: 90}}\n",
        "1: image: this is a Helm chart's values",
    ),
    "goresctrl's RDT classes": (
        "options: {}\npartitions:\n  exclusive: {l3Allocation: '60%', classes: {gold: {}}}\n",
        "2: partitions: this is goresctrl's configuration of RDT classes; declare each class",
    ),
    "goresctrl's block I/O classes": (
        "Classes:\n  nolimit:\n  slow:\n  - Devices: [/dev/sda]\n",
        "1: Classes: this is goresctrl's configuration of block I/O classes; put its `classes` into",
    ),
    "a policy's keys": (
        "reservedResources: {cpu: 750m}\npinMemory: true\n",
        "1: reservedResources: this is a configuration of the balloons policy or the topology-aware policy",
    ),
}


@pytest.mark.parametrize("text, words", REFUSED.values(), ids=REFUSED)
def test_file_of_another_program_is_refused_with_line_kind_and_remedy(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.yaml"
    done = check(path, text)
    assert done.exit_code == 2
    assert f"error: {path}:{words}" in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "namespaces: [a]\nclasses: {gold: []}\n",  # a mapping by mistake
        "rdt: {enabled: true}\nkind: x\n",
        "rdt: {}\nclasses: {gold: {}}\n",
        "image: x\n",
    ],
)
def test_wrong_key_of_a_configuration_is_named_itself(tmp_path: Path, text: str) -> None:
    done = check(tmp_path / "config.yaml", text)
    assert done.exit_code == 2
    assert "this is a" not in done.output


@pytest.mark.parametrize("plugin", PLUGINS)
def test_file_of_a_plugin_is_valid_as_configuration(tmp_path: Path, plugin: str) -> None:
    text = (FIXTURES / f"nri-{plugin}.yaml").read_text()
    assert check(tmp_path / "config.yaml", text).exit_code == 0
