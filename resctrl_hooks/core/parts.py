"""`Part`, the front door of a house: all that it adds to the project, in one value, in the house's ``part.py``.

Values are given as ``module:name`` and imported when they are used, so that a command imports no other house. A house
whose folder is missing adds nothing.
"""

import importlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple

_PROJECT: Final = __name__.partition(".")[0]
_FOLDER: Final = os.path.dirname(os.path.dirname(__file__))
_OTHERS: Final = (name for name in sorted(os.listdir(_FOLDER)) if os.path.exists(f"{_FOLDER}/{name}/part.py"))
HOUSES: Final = tuple(dict.fromkeys(("core", *_OTHERS)))
"""The houses that are here, core first, which is the order of help, documents and output."""

Task = Literal["Look", "Diagnose", "Set up", "Limit", "Try without hardware", "Called by the system"]
"""What an operator uses a command for, in the order of help and man page."""


class Entry(NamedTuple):
    """A command of the command line. A subcommand's examples are those that contain its name.

    Args:
        task: its task.
        summary: its line in the overview.
        examples: its calls, without the program's name unless they have a pipe.
        rank: its place in its task; commands of the same rank have the order of the houses.
        has_config: whether its calls in messages repeat the option ``--config`` of the caller.
        command: its `click.Command`, as ``module:name``; empty for `command` in the module of its name in ``cli``.
        hidden: whether the overview and the completion leave it out, because only programs call it.
    """

    task: Task
    summary: str
    examples: tuple[str, ...]
    rank: int = 0
    has_config: bool = True
    command: str = ""
    hidden: bool = False


class Keys(NamedTuple):
    """Keys of a section of the configuration.

    Args:
        model: the pydantic model with the keys, as ``module:name``.
        section: the section; empty for the top level.
        after: the section's key that they follow; empty for its end. Of several after one key, those of the first house
            come first.
    """

    model: str
    section: str = ""
    after: str = ""


class Rival(NamedTuple):
    """An NRI plugin of another program that sets what a feature sets.

    Args:
        plugin: a part of its name.
        sets: the values, in words.
        feature: the feature.
    """

    plugin: str
    sets: str
    feature: str


class Addition(NamedTuple):
    """A section that `install` can add to a configuration, by an option of the section's name.

    Args:
        section: its name.
        text: its text in YAML, which enables it.
        runtimes: those for which a new configuration has it without the option.
        help: the help of the option.
    """

    section: str
    text: bytes
    runtimes: tuple[str, ...]
    help: str


class Part(NamedTuple):
    """What one house adds.

    Args:
        name: the house.
        commands: its commands by name; ``GROUP NAME`` is one in another house's group. The overview
            has them here because reading them from the commands would import what all commands need.
        documents: the mapping of its JSON documents, each a `Document` of `cli.schemas` by the name of its schema.
        rivals: other programs' NRI plugins that set what its features set.
        units: its systemd units, a tuple of `install.unit.Unit`.
        choice: the help of `install`'s switch of the house's name, which chooses its service for other runtimes too;
            empty for none.
        delivered: the help of `machineconfig`'s switch of the house's name.
        runtimes: those that its service serves, a tuple of `install.runtime.Runtime`.
        rooms: its folders below the project's that a node has only if its settings or its installation need the house.
        held: a function of a node's context that returns the `rdt.held.Held` values of the house's processes.
        metrics: its metrics, a `core.metric.Table`.
        keys: the keys that it adds to the configuration.
        additions: the sections that `install` can add to a configuration.
        checks: its modules in ``doctor`` that have ``CHECKS``, by name a `doctor.finding.Check`.
        examples: further examples, by command, for commands of other houses.
        displays: by feature, its `inventory.feature_display.model.Display`.
        pod_fields: `inventory.pod_fields.PodField`s of the pods of `list` and `show`.
        details: those of the pods of `show` alone.
        clauses: clauses that it adds to sentences of core, by the name with which `clause` asks for them.
        options: by command, a decorator that adds the house's options to it (`cli.added.extended`).
    """

    name: str
    commands: Mapping[str, Entry] = {}
    documents: str = ""
    rivals: tuple[Rival, ...] = ()
    units: str = ""
    choice: str = ""
    delivered: str = ""
    runtimes: str = ""
    rooms: tuple[str, ...] = ()
    held: str = ""
    metrics: str = ""
    keys: tuple[Keys, ...] = ()
    additions: tuple[Addition, ...] = ()
    checks: tuple[str, ...] = ()
    examples: Mapping[str, tuple[str, ...]] = {}
    displays: Mapping[str, str] = {}
    pod_fields: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    clauses: Mapping[str, str] = {}
    options: Mapping[str, str] = {}


@cache
def parts() -> tuple[Part, ...]:
    """Return the parts of the houses that are here."""
    return tuple(importlib.import_module(f"{_PROJECT}.{name}.part").PART for name in HOUSES)


def clause(name: str) -> str:
    """Return what the houses add to a sentence of core; empty without such a house."""
    return "".join(part.clauses.get(name, "") for part in parts())


def load(name: str) -> Any:
    """Return the value that a part names as ``module:name``."""
    module, _, value = name.partition(":")
    return getattr(importlib.import_module(module), value)
