"""Judgements of a configuration that the tests of each section share."""

import json
from typing import Any

from conftest import Host

from resctrl_hooks.core.config import applied
from resctrl_hooks.core.config.check import Checked, check_file, check_text


def check(text: str) -> Checked:
    return check_text(text.encode(), "c.yaml")


def problems(text: str) -> list[str]:
    return [str(problem) for problem in check(text).problems]


def assert_refused(text: str, line: str) -> None:
    assert problems(text) == [line]
    assert check(text).config is None


def assert_remarked(text: str, key: str, words: str) -> None:
    """Check that a configuration is valid with remarks at some keys, which have some words."""
    checked = check(text)
    assert checked.errors == []
    assert [(note.key, note.severity) for note in checked.problems] == [(one, "note") for one in key.split(" ")]
    assert words in " ".join(note.what for note in checked.problems)


def cases(rows: list[tuple[str, str, str]], column: int) -> list[str]:
    """Return each configuration with a value of a column: 1 for those that are valid, 2 for the others."""
    return [row[0] % value for row in rows for value in row[column].split(" | ") if row[column]]


def assert_accepted_also_as_compiled(text: str) -> None:
    checked = check(text)
    assert checked.errors == []
    values = checked.valid().given()
    assert "null" not in json.dumps(values).replace("/dev/null", "")
    assert applied.effective(values) == (applied.explicit_values_of(checked.valid()), None)


def compiled(text: str, path: tuple[str | int, ...]) -> Any:
    """Return the value of a configuration at a path."""
    found: Any = check(text).valid()
    for part in path:
        found = found[part] if type(found) in (list, dict) else getattr(found, str(part))
    return found


def assert_remarked_here(host: Host, text: str, key: str, words: str) -> None:
    """Check that a value has a remark on a processor with MBA in steps of 10 per cent, from 10 on, without L2 masks."""
    folder = host.resctrl / "info" / "MB"
    folder.mkdir(parents=True)
    for name, number in {"min_bandwidth": "10", "bandwidth_gran": "10", "num_closids": "8"}.items():
        (folder / name).write_text(f"{number}\n")
    (host.resctrl / "schemata").write_text("MB:0=100;1=100\n")
    file = host.resctrl.parent / "c.yaml"
    file.write_text(f"resctrlPath: {host.resctrl}\n{text}\n")
    found = [problem for problem in check_file(str(file)).problems if "machine" in problem.what]
    assert [problem.key for problem in found] == [key]
    assert words in found[0].what
    assert check_text(file.read_bytes(), "c.yaml").errors == []
    assert not [one for one in check_text(file.read_bytes(), "c.yaml").problems if "machine" in one.what]
    file.write_text(f"resctrlPath: {host.resctrl}/none\n{text}\n")
    assert not [one for one in check_file(str(file)).problems if "machine" in one.what]


def assert_like(text: str, same: str) -> None:
    """Check that two configurations are valid and equal."""
    assert check(same).errors == []
    assert check(text).errors == []
    assert check(text).valid().given() == check(same).valid().given()


FOREIGN = {
    "BalloonsPolicy": "apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy\nspec: {}\n",
    "TopologyAwarePolicy": "kind: TopologyAwarePolicy\napiVersion: config.nri/v1alpha1\n",
    "TemplatePolicy": "apiVersion: config.nri/v1alpha1\nkind: TemplatePolicy\n",
    "memtierd's ConfigMap": "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n    classes: []\n",
    "CRI Resource Manager's ConfigMap": "apiVersion: v1\nkind: ConfigMap\ndata:\n  policy: |\n    Active: balloons\n",
    "CRI Resource Manager": "blockio: {}\nPolicy:\n  Active: balloons\n",
    "balloons' chart": "image: {name: nri-resource-policy-balloons}\nconfig: {pinCPU: on}\nnri: {plugin: {index: 9}}\n",
    "balloons' values": "config:\n  balloonTypes: []\n",
    "memory-policy's chart": "image: {name: x/nri-memory-policy}\nconfig:\n  classes: []\nnri: {runtime: {}}\n",
    "resctrl-mon's chart": "namespaces: [a]\nimage: {name: x/nri-resctrl-mon}\nnri: {plugin: {index: 95}}\n",
    "sgx-epc's chart": "image: {name: x/nri-sgx-epc}\nresources: {}\nnri: {plugin: {index: 9}}\n",
    "goresctrl's RDT classes": "options: {}\npartitions:\n  exclusive: {l3Allocation: '60%', classes: {gold: {}}}\n",
    "goresctrl's block I/O classes": "Classes:\n  nolimit:\n  slow:\n  - Devices: [/dev/sda]\n",
    "a policy's keys": "reservedResources: {cpu: 750m}\npinMemory: true\n",
}  # fmt: skip
"""Files of other programs."""
