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


@pytest.mark.parametrize(
    "house", [pytest.param(name, marks=pytest.mark.ci if place else ()) for place, name in enumerate(KEYS_OF)]
)
def test_configuration_without_a_house_has_the_other_keys_in_the_same_order(house: str) -> None:
    keys = by_key(Configuration)
    assert without(house)[0].split() == [key for key in keys if key not in KEYS_OF[house]] != [*keys]


def test_keys_and_conversion_of_missing_houses_are_unknown() -> None:
    text = "log: {}\nplacement: {}\nrdt:\n  guard: {}\nevents: true\nnri:\n  adjust: []\nclasses:\n- name: a\n  env: {}"
    commands, *problems = without(" ".join(KEYS_OF), text)[1:]
    assert commands.split() == ["check", "apply", "show", "schema"]
    unknown = [(2, "placement"), (4, "rdt.guard"), (5, "events"), (6, "nri"), (10, "classes[0].env")]
    assert [one.partition("; ")[0] for one in problems] == [
        f"c.yaml:{line}: {key}: unknown key" for line, key in unknown
    ]
    assert "placement," not in problems[0].partition("known here")[2]
