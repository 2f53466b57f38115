"""What `config show` shows: the settings in force with their defaults filled in, and how the YAML file compares."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.settings import DEFAULTS

from .applied import (
    Change,
    changes_between,
    effective,
    explicit_values_of,
    read_compiled,
    values_of,
    without_own_keys,
)
from .check import check_file, trust_problems
from .effective import Effective, find_effective
from .root import Configuration

YamlState = Literal["applied", "differs", "never-applied", "invalid", "missing"]


@dataclass(frozen=True)
class Shown:
    """Settings in force: all of them, those that are set, and what stands between them and the YAML file."""

    source: str
    path: str
    problem: str
    settings: dict[str, Any]
    set_: list[str]
    yaml: str
    yaml_state: YamlState
    differences: list[Change] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "source": self.source,
            "path": self.path,
            "problem": self.problem,
            "settings": self.settings,
            "set": self.set_,
            "yaml": {
                "path": self.yaml,
                "state": self.yaml_state,
                "differences": [asdict(change) for change in self.differences],
            },
            "warnings": self.warnings,
        }


def show_settings(config: str) -> Shown:
    """Gathers what is in force for a ``--config FILE``.

    Raises:
        SettingsError: nothing that can be used is.
    """
    found = find_effective(config)
    given = _given(found)
    settings, foreign = effective(given, found.path)
    warnings = [str(problem) for problem in trust_problems(found.path)] if found.path else []
    if foreign is not None:
        warnings.append(f"{found.path} was not written by this version: {foreign.key}: {foreign.what}")
    state, differences = _compare(config, found, settings)
    set_ = sorted(change.key for change in changes_between({}, given))
    return Shown(found.source, found.path, found.problem, settings, set_, config, state, differences, warnings)


def _given(found: Effective) -> dict[str, Any]:
    """What is set, as opposed to a default."""
    if found.source == "yaml":
        return values_of(check_file(found.path).valid())
    known = without_own_keys(read_compiled(found.path) if found.path else None)
    return {key: value for key, value in known.items() if key in DEFAULTS or key in FEATURES}


def _compare(config: str, found: Effective, settings: dict[str, Any]) -> tuple[YamlState, list[Change]]:
    if config == found.path and found.source != "yaml":
        return "applied", []  # a compiled file was named; there is no YAML to compare
    checked = check_file(config)
    if checked.config is None:
        missing = not checked.errors[0].line and "can't be read" in checked.errors[0].what
        return ("missing" if missing else "invalid"), []
    if found.source in ("yaml", "defaults"):
        return "never-applied", changes_between(explicit_values_of(Configuration()), explicit_values_of(checked.config))
    differences = changes_between(settings, explicit_values_of(checked.config))
    return ("differs" if differences else "applied"), differences
