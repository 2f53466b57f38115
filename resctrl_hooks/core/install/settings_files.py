"""The initial configuration of an installation, and its compiled form."""

import os
import tempfile
from collections.abc import Sequence
from typing import Final

import yaml

from resctrl_hooks.core.config.applied import compile_file, read_compiled
from resctrl_hooks.core.config.check import LARGEST, check_file
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.host.files import parse_json, read_file
from resctrl_hooks.core.node.settings import FORMAT, Settings, active_path, compiled_path, is_unapplied, last_valid_path
from resctrl_hooks.core.parts import Addition, parts

FIRST: Final = b"""\
# The configuration of resctrl-hooks. Everything has a default, so this file may stay as it is.
# After a change: resctrl-hook config check && resctrl-hook config apply
# All settings, with their meaning: resctrl-hook config schema

# Only pods of these namespaces get a monitoring group; an empty list means all.
#namespaces: []

# What a failure means for a container: ignore (it starts without) or fail (it is refused).
#failurePolicy: ignore
"""
ADDITIONS: Final = [one for part in parts() for one in part.additions]


def is_first(text: bytes) -> bool:
    """Return whether a configuration is one that `compiled_files` writes."""
    for one in ADDITIONS:
        text = text.removesuffix(one.text)
    return text == FIRST


def with_sections(config: str, added: Sequence[Addition], root: str = "") -> dict[str, bytes] | None:
    """Return the files that enable sections in an existing configuration; None if only the operator can.

    The sections are appended, so that the file keeps its comments. They are left to the operator if one exists, if the
    file is JSON, or if it has changes that are not applied.

    Raises:
        InvalidConfigError, OSError: the file is unusable.
    """
    active = read_compiled(active_path(root + config))
    if config.endswith(".json") or not os.path.lexists(root + config) or is_unapplied(root + config):
        return None
    added = [one for one in added if not ((active or {}).get(one.section) or {}).get("enabled")]
    if not added:
        return {}
    with open(root + config, "rb") as file:
        text = file.read()
    if not {one.section for one in added}.isdisjoint(yaml.safe_load(text) or {}):
        return None
    text = b"".join((text.rstrip(b"\n"), b"\n", *(one.text for one in added)))
    return {config: text, **_active(config, _compiled(text))}


def _active(config: str, compiled: bytes) -> dict[str, bytes]:
    """Return the compiled file and its copy; the copy is written first."""
    path = compiled_path(config)
    return {last_valid_path(path): compiled, path: compiled}


def _compiled(text: bytes) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return compile_file(file.name)


def unapplied(config: str, root: str = "") -> list[str]:
    """Return the problems of a configuration that stays unapplied because an older compiled one exists."""
    compiled = compiled_path(config)
    if config.endswith(".json") or not (os.path.lexists(root + config) and os.path.lexists(root + compiled)):
        return []
    found = check_file(root + config).problems
    wrong = [f"{problem.severity}: {problem}" for problem in found if problem.severity == "error"]
    return [*wrong, f"{compiled} stays active until {config} is fixed and applied"] if wrong else []


def edited_settings(config: str, root: str = "") -> Settings | None:
    """Return the settings of a valid configuration file with changes that are not applied; None without changes."""
    if not is_unapplied(root + config):
        return None
    checked = check_file(root + config)
    return Settings(checked.config.given()) if checked.config and not checked.errors else None


def compiled_files(config: str, root: str, added: Sequence[Addition] = ()) -> dict[str, bytes]:
    """Return the files that make a configuration active; empty if a compiled file exists.

    ``added``: the further sections of a new configuration.

    Raises:
        InvalidConfigError: the file to compile is invalid.
        OSError: it is unreadable.
    """
    if config.endswith(".json"):
        if not os.path.lexists(root + config):
            return {config: b'{"format": 1}\n'}
        _check_compiled(root + config)
        return {}
    files = {}
    active = active_path(root + config)
    if os.path.lexists(active):
        _check_compiled(active)
        return {}  # also without a YAML file, for example in an image
    if os.path.lexists(root + config):
        compiled = compile_file(root + config)
    else:
        files[config] = b"".join((FIRST, *(one.text for one in added)))
        compiled = _compiled(files[config])
    return files | _active(config, compiled)


def _check_compiled(path: str) -> None:
    """Refuse a compiled file that hooks could not read.

    Raises:
        SettingsError: it is invalid.
        OSError: it is unreadable.
    """
    try:
        value = parse_json(read_file(path, LARGEST, follow=True))
    except ValueError as error:
        value, why = None, f": {error}"
    else:
        why = ""
    if not isinstance(value, dict) or value.get("format", FORMAT) != FORMAT:
        raise SettingsError(f"{path} is not a compiled configuration{why}", hint="remove it, or run config apply")
    Settings(value, path)
