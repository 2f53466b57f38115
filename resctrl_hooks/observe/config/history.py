"""The ``history`` section: the file of past samples that the resident process writes."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.core.config.section import AbsolutePath, Duration, Remark, Section, wrong
from resctrl_hooks.core.node.feature_table import KEYS

_DEFAULTS = KEYS["history"]
_FOLDER = "/var/lib/resctrl-hooks"  # StateDirectory= of the unit
_SIZE = re.compile(r"([0-9]+)(k|M|G)?i?")
_UNITS = {None: 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAST_SIZE = 16 << 20
_LEAST_INTERVAL = 1.0
_MINUTE = 60.0


def _size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value)
    if found is None:
        raise wrong(f"{value!r} is not a size", "write bytes, or a number with k, M or G: 256M")
    return int(found[1]) * _UNITS[found[2]]


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+([kMG]i?)?$"}]}),
    Field(ge=_LEAST_SIZE),
]


class Keep(Section):
    """How long samples are kept."""

    samples: Annotated[Duration, Field(ge=_MINUTE)] = _DEFAULTS["keep"]["samples"]
    """Age at which the samples of a minute become one."""

    minutes: Annotated[Duration, Field(ge=_MINUTE)] = _DEFAULTS["keep"]["minutes"]
    """Age at which minutes are deleted."""

    @model_validator(mode="after")
    def _in_order(self) -> "Keep":
        if self.minutes < self.samples:
            raise wrong("minutes are deleted before samples become minutes", "keep minutes longer", at=("minutes",))
        return self


class History(Section):
    """Past samples of all counters, for `--at` and `report --since`."""

    enabled: bool = _DEFAULTS["enabled"]
    """Write the history. `install --history` sets this key, as does the first `install --runtime podman`."""

    interval: Annotated[Duration, Field(ge=_LEAST_INTERVAL)] = _DEFAULTS["interval"]
    """Time between two samples."""

    keep: Keep = Keep()
    """How long single samples, and then one sample per minute, are kept."""

    size: Size = _DEFAULTS["size"]
    """Largest size of the file, such as `256M` (powers of 1024). The oldest samples are deleted first."""

    file: AbsolutePath = _DEFAULTS["file"]
    """The file, below `/var/lib/resctrl-hooks`."""

    def remarks(self) -> list[Remark]:
        """Return a remark for a file that the unit cannot write."""
        if self.enabled and not self.file.startswith(f"{_FOLDER}/"):
            return [Remark(("file",), f"resctrl-hooks-guard.service can write only below {_FOLDER}")]
        return []
