"""The ``memtierd`` section, and the check of the configuration templates that classes have for memtierd."""

import difflib
import re
from typing import Any

import yaml

from .section import AbsolutePath, Section, wrong

# What the memtierd NRI plugin fills in; it replaces the plain text, so there are no braces.
VARIABLES = {
    "CGROUP2_ABS_PATH": "/sys/fs/cgroup/example",
    "MEMTIERD_SWAP_STATS_PATH": "/run/example/memtierd.stats",
}
_VARIABLE = re.compile(r"\$(\{?)([A-Z][A-Z0-9_]*)")


class Memtierd(Section):
    """How memtierd is run for containers of a class that has a `memtierdconfig`."""

    run_dir: AbsolutePath = "/run/resctrl-hooks/memtierd"
    """The folder for memtierd's configurations, output and pids: NAMESPACE/POD/CONTAINER/ID below it."""


def check_template(text: str) -> str:
    """Validates a ``memtierdconfig``: known variables, and YAML once they are filled in.

    memtierd notices neither a variable that is left nor a cgroup that isn't there, so it is noticed here.
    """
    for match in _VARIABLE.finditer(text):
        braces, name = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if name not in VARIABLES:
            close = difflib.get_close_matches(name, VARIABLES, 1, 0.6)
            known = " and ".join(f"${each}" for each in VARIABLES)
            right = f"did you mean ${close[0]}?" if close else f"known are {known}"
            raise wrong(f"unknown variable ${name}", right, line=line)
        if braces:
            raise wrong(f"${{{name}}} is not replaced", f"write ${name}, without braces", line=line)
    _check_yaml(_VARIABLE.sub(lambda match: VARIABLES[match[2]], text), 0)
    return text


def _check_yaml(text: str, before: int) -> None:
    try:
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        # Lines of a text within the template can't be told from outside it, so only the template's own are counted.
        line = mark.line + 1 if mark is not None and not before else 0
        which = "a config text within it" if before else "it"
        message = f"{which} is not YAML once filled in: {error.problem}"
        raise wrong(message, "see memtierd's sample", line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise wrong(f"it is not YAML once filled in: {error}", "see memtierd's sample") from None
    if not before and not isinstance(value, dict):
        raise wrong("memtierd's configuration should be a mapping", "begin it with `policy:`", line=1)
    for inner in _configs_in(value):
        _check_yaml(inner, before + 1)


def _configs_in(value: Any) -> list[str]:
    """The texts below ``config`` keys: memtierd reads each of them as YAML of its own."""
    if isinstance(value, list):
        return [text for item in value for text in _configs_in(item)]
    if not isinstance(value, dict):
        return []
    found = [text for item in value.values() for text in _configs_in(item)]
    text = value.get("config")
    return [*found, text] if isinstance(text, str) else found
