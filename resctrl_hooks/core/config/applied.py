"""Applying a configuration: compile it for the node half, activate it, and report the changes.

The compiled file contains only the YAML's settings, so that defaults come from the node half that runs. It is JSON of
format 1: the camelCase keys of the YAML, ``format``, ``formerPrefixes`` (`former_prefixes`), and ``managedBy`` if
another program owns the file.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.failure_policies import failure_policy
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host.durable import replace_file
from resctrl_hooks.core.node.host.files import format_json, parse_json, read_file, stamp
from resctrl_hooks.core.node.settings import (
    APPLIED_FROM,
    DEFAULT_CONFIG,
    DEFAULTS,
    FORMAT,
    FORMER_PREFIXES,
    MANAGED_BY,
    Settings,
    active_path,
    compiled_path,
    last_valid_path,
)

from .check import LARGEST, Checked, check_file, check_text, trust_problems
from .problems import InvalidConfigError, Problem, dotted
from .root import Configuration
from .section import KeyPath
from .state_folder import lead_to_present

_MODE = 0o644
_LONGEST_SHOWN = 60
MACHINE_CONFIG = "machineconfig"
_OWN_KEYS = ("format", MANAGED_BY, FORMER_PREFIXES, APPLIED_FROM)
_MOST_FORMER = 8


@dataclass(frozen=True)
class Change:
    """A changed setting; None stands for an absent value or an empty list."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.old)} -> {_shown(self.new)}"


@dataclass(frozen=True)
class Applied:
    """The result of `apply`: the active file, the settings, the changes, and the remarks of `check_file`."""

    path: str
    settings: Settings
    changes: list[Change]
    remarks: list[Problem]


def explicit_values_of(config: Configuration) -> dict[str, Any]:
    """Return every setting with its value, defaults included."""
    values: dict[str, Any] = config.model_dump(mode="json", by_alias=True)
    settings = Settings(config.given())
    for name in FEATURES:
        values[name]["failurePolicy"] = failure_policy(name, settings)
    return values


def effective(given: dict[str, Any], path: str = "") -> tuple[dict[str, Any], Problem | None]:
    """Return settings with defaults filled in, and the reason if this version would reject them."""
    checked = check_text(format_json(given), path)
    if checked.config is None:
        return {**explicit_values_of(Configuration()), **given}, checked.errors[0]
    return explicit_values_of(checked.config), None


def compiled(
    config: Configuration, *, managed_by: str = "", former: Sequence[str] = (), applied_from: str = ""
) -> bytes:
    """Return the text of the compiled file.

    ``managed_by`` names its owner if `config apply` must not rewrite it; ``former`` are `former_prefixes`;
    ``applied_from`` is the stamp of the YAML file, if later edits of it are applied.
    """
    head: dict[str, Any] = {"format": FORMAT, **({MANAGED_BY: managed_by} if managed_by else {})}
    if former:
        head[FORMER_PREFIXES] = list(former)
    if applied_from:
        head[APPLIED_FROM] = applied_from
    return format_json({**head, **config.given()})


def former_prefixes(before: dict[str, Any] | None, config: Configuration) -> list[str]:
    """Return the earlier values of ``groupPrefix``, the latest first: `reconcile --claim` looks for their groups.

    ``before`` is the content of the active compiled file; None without one, when the defaults are active.
    """
    values = before or {}
    prefix = values.get("groupPrefix") or ""
    known = [
        prefix if isinstance(prefix, str) else "",
        *Settings({FORMER_PREFIXES: values.get(FORMER_PREFIXES)}).former_prefixes,
    ]
    return [one for one in dict.fromkeys(known) if one != config.group_prefix][:_MOST_FORMER]


def compile_file(path: str, *, managed_by: str = "") -> bytes:
    """Check and compile a YAML file, for an image or a MachineConfig.

    Raises:
        InvalidConfigError: it is invalid.
    """
    return compiled(check_file(path).valid(), managed_by=managed_by)


def read_compiled(path: str) -> dict[str, Any] | None:
    """Return the settings of a compiled file; None if missing or unusable."""
    try:
        value = parse_json(read_file(path, LARGEST, follow=True))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def without_own_keys(values: dict[str, Any] | None) -> dict[str, Any]:
    """Return a compiled file's settings without its metadata."""
    return {key: value for key, value in (values or {}).items() if key not in _OWN_KEYS}


def check_compiled(path: str) -> Checked:
    """Check the settings of a compiled file."""
    values = read_compiled(path)
    if values is None:
        return check_file(path)
    checked = check_text(format_json(without_own_keys(values)), path)
    checked.problems += trust_problems(path)
    return checked


def apply_file(path: str, *, dry_run: bool = False) -> Applied:
    """Validate a YAML file and activate it atomically: hooks see the old settings or the new ones.

    Raises:
        InvalidConfigError: it is invalid, or writable by others than root; the old settings stay active.
        SettingsError: the compiled file belongs to a MachineConfig, or two state directories have records.
        OSError: from the kernel; the old settings stay active.
    """
    if path.endswith(".json"):
        what = "this is a compiled configuration; it is already active"
        raise InvalidConfigError([Problem(what, "apply the YAML file next to it", file=path)])
    applied_from = str(stamp(path))  # first: an edit meanwhile is applied later
    checked = check_file(path)
    config = checked.valid()
    untrusted = trust_problems(path)
    if untrusted:
        raise InvalidConfigError([replace(problem, severity="error") for problem in untrusted])
    target = compiled_path(path)
    before = read_compiled(active_path(path))
    if before is not None and before.get(MANAGED_BY):
        raise SettingsError(
            f"{target} belongs to {before[MANAGED_BY]}",
            hint="change its source: the next update would be rejected or would revert a change made here",
        )
    changes = changes_between(effective(without_own_keys(before))[0], explicit_values_of(config))
    if before is not None or path == DEFAULT_CONFIG:  # hooks do nothing with another file that was never applied
        lead_to_present(_state_folder(before), config.state_dir, dry_run=dry_run)
    if not dry_run:
        text = compiled(config, former=former_prefixes(before, config), applied_from=applied_from)
        for name in (last_valid_path(target), target):
            replace_file(name, text, _MODE)
    return Applied(target, Settings(config.given(), target), changes, checked.remarks)


def _state_folder(before: dict[str, Any] | None) -> str:
    """Return the ``stateDir`` of the active compiled file."""
    folder = (before or {}).get("stateDir")
    return folder if isinstance(folder, str) and folder.startswith("/") else DEFAULTS["stateDir"]


def apply_if_newer(path: str) -> Applied | None:
    """Apply a YAML file that was edited after its last application; return None if it was not.

    Raises:
        InvalidConfigError, SettingsError, OSError: as `apply_file`.
    """
    return apply_file(path) if is_newer(path) else None


def is_newer(path: str) -> bool:
    """Return whether a YAML file was edited after its last application, and belongs to the active configuration."""
    target = compiled_path(path)
    if path == target or not os.path.exists(path):
        return False
    active = read_compiled(target) or {}
    if active.get(MANAGED_BY):
        return False
    if active.get(APPLIED_FROM):
        return bool(active[APPLIED_FROM] != str(stamp(path)))
    try:
        return os.stat(target).st_mtime < os.stat(path).st_mtime
    except FileNotFoundError:
        return True


def changes_between(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Return the differences between two sets of settings, key by key."""
    before, after = _flat(old), _flat(new)
    keys = [*before, *(key for key in after if key not in before)]
    return [Change(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


def _flat(value: Any, at: KeyPath = ()) -> dict[str, Any]:
    """Return settings by dotted key path; a list is one setting unless it contains mappings."""
    if isinstance(value, dict) and value:
        return {key: leaf for name, item in value.items() for key, leaf in _flat(item, (*at, name)).items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return {key: leaf for index, item in enumerate(value) for key, leaf in _flat(item, (*at, index)).items()}
    return {dotted(at): value} if value not in (None, [], {}) else {}


def _shown(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, str) and "\n" in value:
        return f"({len(value.splitlines())} lines)"
    text = format_json(value).decode().strip()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
