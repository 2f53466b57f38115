"""The ``memtierd`` section, and the check of the configuration templates in memory classes."""

import difflib
import re
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field

from resctrl_hooks.core.node.feature_table import FEATURES

from .section import AbsolutePath, Allow, FailurePolicy, FeatureSection, Remark, matching, wrong

# Variables that the memtierd NRI plugin fills in; it replaces plain text, so there are no braces.
VARIABLES = {
    "CGROUP2_ABS_PATH": "/sys/fs/cgroup/example",
    "MEMTIERD_SWAP_STATS_PATH": "/run/example/memtierd.stats",
}
_VARIABLE = re.compile(r"\$(\{?)([A-Z][A-Z0-9_]*)")


_MEMORY = matching(
    "[1-9][0-9]*[KMGT]?|infinity", "an amount of memory", "write bytes with K, M, G or T, such as 512M, or infinity"
)
LONGEST_START = 2.0  # seconds; every container of such a class waits this long


def _program(name: str) -> str:
    if not name or (("/" in name or "\0" in name) and not name.startswith("/")) or "/../" in f"{name}/":
        raise wrong(f"{name!r} is neither a program name nor an absolute path", "write memtierd or its path")
    return name


_DEFAULTS = FEATURES["memtierd"].defaults


class Memtierd(FeatureSection):
    """Instances of memtierd, for containers of classes with a `memtierdconfig`."""

    failure_policy: FailurePolicy | None = None
    """Deprecated: use `memory.failurePolicy`."""

    allow: Allow = _DEFAULTS["allow"]
    """Deprecated: use `memory.allow`. Both must allow the class."""

    run_dir: AbsolutePath = _DEFAULTS["runDir"]
    """Directory of memtierd's configurations and output."""

    binary: Annotated[str, AfterValidator(_program)] = _DEFAULTS["binary"]
    """Path of memtierd, or name in a standard program directory. Root must own the file."""

    supervisor: Literal["auto", "systemd", "process"] = _DEFAULTS["supervisor"]
    """Supervisor of memtierd: a service of `systemd`, or a small `process`. `auto`: systemd if possible."""

    start_seconds: Annotated[float, Field(ge=0, le=LONGEST_START)] = _DEFAULTS["startSeconds"]
    """Seconds that memtierd must run to count as started. The container waits."""

    memory_max: Annotated[str, _MEMORY] = _DEFAULTS["memoryMax"]
    """Memory limit of memtierd's service."""

    def remarks(self) -> list[Remark]:
        """Return a remark for keys that belong in `memory` and are still accepted here from earlier configurations."""
        moved = {"allow": "allow", "failurePolicy": "failure_policy"}
        where = "deprecated; use `memory.{}`, which also applies to memtierd"
        return [Remark((key,), where.format(key)) for key, name in moved.items() if name in self.model_fields_set]


def check_template(text: str) -> str:
    """Validate a ``memtierdconfig``: known variables, and YAML after substitution.

    memtierd reports neither an unknown variable nor a missing cgroup, so this function does.
    """
    for match in _VARIABLE.finditer(text):
        braces, name = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if name not in VARIABLES:
            close = difflib.get_close_matches(name, VARIABLES, 1, 0.6)
            known = " and ".join(f"${each}" for each in VARIABLES)
            right = f"did you mean ${close[0]}?" if close else f"known variables: {known}"
            raise wrong(f"unknown variable ${name}", right, line=line)
        if braces:
            raise wrong(f"${{{name}}} is not replaced", f"write ${name}, without braces", line=line)
    _check_yaml(_VARIABLE.sub(lambda match: VARIABLES[match[2]], text))
    return text


def _check_yaml(text: str, *, nested: bool = False) -> None:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        # Lines of a nested text are unknown from outside, so only the template's own lines are counted.
        line = mark.line + 1 if mark is not None and not nested else 0
        which = "a nested configuration in it" if nested else "it"
        what = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
        message = f"{which} is not valid YAML after the replacement of variables: {what}"
        raise wrong(message, "see memtierd's sample", line=line) from None
    if not nested and not isinstance(value, dict):
        raise wrong("memtierd's configuration should be a mapping", "begin it with `policy:`", line=1)
    for inner in _configs_in(value):
        _check_yaml(inner, nested=True)


def _configs_in(value: Any) -> list[str]:
    """Return the texts below ``config`` keys: memtierd parses each of them as YAML of its own."""
    if isinstance(value, list):
        return [text for item in value for text in _configs_in(item)]
    if not isinstance(value, dict):
        return []
    found = [text for item in value.values() for text in _configs_in(item)]
    text = value.get("config")
    return [*found, text] if isinstance(text, str) else found
