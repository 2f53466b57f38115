"""Keys and commands of the configuration that houses add, with their house and without it."""

import subprocess
import sys

import pytest

from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.section import by_key
from resctrl_hooks.core.parts import load, parts

# The same in a process without a house, because the models are created when they are imported.
WITHOUT = """
import sys
import click
from resctrl_hooks.core import parts
parts.HOUSES = [house for house in parts.HOUSES if house not in sys.argv[1].split()]
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.section import by_key
print(*by_key(Configuration))
print(*main.get_command(click.Context(main), "config").commands)
print(*check_text(sys.argv[2].encode(), "c.yaml").problems, sep="\\n")
"""


def without(houses: str, text: str = "") -> list[str]:
    command = [sys.executable, "-c", WITHOUT, houses, text]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


KEYS_OF = {
    part.name: {f"{keys.section}.{key}".lstrip(".") for keys in part.keys for key in by_key(load(keys.model))}
    for part in parts()
    if part.keys
}


@pytest.mark.parametrize("house", KEYS_OF)
def test_configuration_without_a_house_has_the_other_keys_in_the_same_order(house: str) -> None:
    keys = by_key(Configuration)
    assert without(house)[0].split() == [key for key in keys if key not in KEYS_OF[house]] != [*keys]


@pytest.mark.parametrize(
    "text, house, key",
    [
        ("log: {}\nplacement: {enabled: true}", "placement", "placement"),
        ("rdt:\n  guard: {}", "observe", "rdt.guard"),
        ("events: true", "observe", "events"),
        ("nri:\n  adjust: []", "nri", "nri"),
        ("classes:\n- name: a\n  env: {}", "nri", "classes[0].env"),
    ],
)
def test_key_of_a_missing_house_is_one_unknown_key(text: str, house: str, key: str) -> None:
    line = text.count("\n", 0, text.index(key.rpartition(".")[2])) + 1
    (problem,) = without(house, text)[2:]
    assert problem.startswith(f"c.yaml:{line}: {key}: unknown key; ")


def test_unknown_key_without_any_house_is_an_unknown_key() -> None:
    found = without(" ".join(KEYS_OF), "placements: {}")[2]
    assert found.startswith("c.yaml:1: placements: unknown key; known here: resctrlPath, ")
    assert "placement," not in found.partition("known here")[2]


def test_conversion_is_not_offered_without_placement() -> None:
    policy = "apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy"
    commands, problem = without("placement", policy)[1:]
    assert commands.split() == ["check", "apply", "show", "schema"]
    assert problem == "c.yaml:2: kind: this is a BalloonsPolicy of nri-plugins"
