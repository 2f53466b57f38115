"""Data of `config show`: the active settings with their defaults, and the differences to the YAML file."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler

from resctrl_hooks.core.node.feature_table import FEATURES, KEYS
from resctrl_hooks.core.node.settings import DEFAULTS

from .applied import (
    Change,
    changes_between,
    effective,
    explicit_values_of,
    read_compiled,
    without_own_keys,
)
from .check import check_file, trust_problems
from .effective import Effective, Source, find_effective
from .root import Configuration

YamlState = Literal["applied", "differs", "never-applied", "invalid", "missing"]


class _LikeConfiguration:
    """The JSON Schema of settings: the configuration's keys, and keys that another version may have compiled."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(Configuration.__pydantic_core_schema__)


class YamlFile(BaseModel):
    """The YAML file, compared with the active settings."""

    path: str
    state: YamlState
    differences: list[Change]


class Shown(BaseModel):
    """The active settings: all values, those that are set, and the differences to the YAML file."""

    source: Source
    path: str
    problem: str
    settings: Annotated[dict[str, Any], _LikeConfiguration()]
    set: list[str] = Field(description="The keys that are set; all other keys have their defaults.")
    yaml: YamlFile
    warnings: list[str]


def show_settings(config: str) -> Shown:
    """Return the active settings for a ``--config FILE``.

    Raises:
        SettingsError: no usable settings exist.
    """
    found = find_effective(config)
    given = _given(found)
    settings, foreign = effective(given, found.path)
    warnings = [str(problem) for problem in trust_problems(found.path)] if found.path else []
    if foreign is not None:
        warnings.append(f"{found.path} was written by another version: {foreign.key}: {foreign.what}")
    state, differences = _compare(config, found, settings)
    set_ = sorted(change.key for change in changes_between({}, given))
    return Shown(
        source=found.source,
        path=found.path,
        problem=found.problem,
        settings=settings,
        set=set_,
        yaml=YamlFile(path=config, state=state, differences=differences),
        warnings=warnings,
    )


def _given(found: Effective) -> dict[str, Any]:
    """Return the explicit settings, without defaults."""
    if found.source == "yaml":
        return check_file(found.path).valid().given()
    known = without_own_keys(read_compiled(found.path) if found.path else None)
    return {key: value for key, value in known.items() if key in DEFAULTS or key in FEATURES or key in KEYS}


def _compare(config: str, found: Effective, settings: dict[str, Any]) -> tuple[YamlState, list[Change]]:
    if config == found.path and found.source != "yaml":
        return "applied", []  # the path of a compiled file: no YAML to compare
    checked = check_file(config)
    if checked.config is None:
        return ("invalid" if checked.readable else "missing"), []
    if found.source in ("yaml", "defaults"):
        return "never-applied", changes_between(explicit_values_of(Configuration()), explicit_values_of(checked.config))
    differences = changes_between(settings, explicit_values_of(checked.config))
    return ("differs" if differences else "applied"), differences
