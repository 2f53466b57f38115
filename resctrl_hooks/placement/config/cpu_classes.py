"""CPU classes in the ``placement`` section."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from resctrl_hooks.core.config.section import ClassName, Section, matching, wrong
from resctrl_hooks.placement.node.cpu_classes import BASE, SYMBOLS

_FREQUENCY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kMG]Hz|)", re.IGNORECASE)
_KHZ_IN = {"": 1, "khz": 1, "mhz": 10**3, "ghz": 10**6}
_MOST_KHZ = 10**9
_PREFERENCES = ("default", "performance", "balance_performance", "balance_power", "power")
_MOST_PREFERENCE = 255
_IDLE_STATE = matching(
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,15}", "a C-state", "the kernel lists their names in cpu0/cpuidle/state*/name"
)
_GOVERNOR = matching(r"[a-z][a-z0-9_]{0,14}", "a governor", "the kernel lists them in scaling_available_governors")


def _frequency(value: Any) -> Any:
    if isinstance(value, str) and value in SYMBOLS:
        return value
    found = _FREQUENCY.fullmatch(str(value)) if isinstance(value, (str, int)) else None
    number = round(float(found[1]) * _KHZ_IN[found[2].lower()]) if found else 0
    if not 0 < number < _MOST_KHZ:
        raise wrong(f"{value!r} is not a frequency", f"write 2.4GHz, 2400MHz, kHz as a number, or {', '.join(SYMBOLS)}")
    return str(number)


def _uncore(value: Any) -> Any:
    if value == BASE:
        raise wrong(f"the uncore has no frequency {BASE!r}", "write min, turbo, or a frequency as in 1.8GHz")
    return _frequency(value)


def _preference(value: Any) -> Any:
    if type(value) not in (str, int) or str(value) not in (*_PREFERENCES, *map(str, range(_MOST_PREFERENCE + 1))):
        raise wrong(
            f"{value!r} is not an energy performance preference",
            f"write 0 to {_MOST_PREFERENCE}, or {', '.join(_PREFERENCES)}",
        )
    return str(value)


_TEXT_OR_NUMBER = [{"type": "string"}, {"type": "integer", "minimum": 0}]
Frequency = Annotated[str, BeforeValidator(_frequency), WithJsonSchema({"anyOf": _TEXT_OR_NUMBER})]
"""A CPU frequency in kHz, with a unit, or by name."""

Uncore = Annotated[str, BeforeValidator(_uncore), WithJsonSchema({"anyOf": _TEXT_OR_NUMBER})]
"""A frequency of the uncore."""

Preference = Annotated[str, BeforeValidator(_preference), WithJsonSchema({"anyOf": _TEXT_OR_NUMBER})]
"""An energy performance preference, by number or the kernel's name."""


class CpuClass(Section):
    """One class of CPUs."""

    name: ClassName
    """Name. `default` applies to CPUs without another class, except reserved and isolated CPUs."""

    min_freq: Frequency | None = None
    """Minimum frequency: `2.4GHz`, `2400MHz`, kHz, or the CPU's `min`, `base` or `turbo`."""

    max_freq: Frequency | None = None
    """Maximum frequency, same values."""

    energy_performance_preference: Preference | None = None
    """0 (performance) to 255 (energy), or a name such as `balance_performance`."""

    freq_governor: Annotated[str | None, _GOVERNOR] = None
    """cpufreq governor, such as `performance`."""

    turbo_priority: Annotated[int, Field(ge=0)] = 0
    """For CPUs of this class, `turbo` means `base` while a class with a higher value has CPUs in the `turboDomain`."""

    uncore_min_freq: Uncore | None = None
    """Minimum frequency of the uncore, as `minFreq`, except `base`."""

    uncore_max_freq: Uncore | None = None
    """Maximum frequency of the uncore, same values."""

    disabled_cstates: list[Annotated[str, _IDLE_STATE]] = []
    """C-states that the CPUs do not enter, such as `[C6, C8]`."""

    max_cstate_latency: Annotated[int, Field(ge=0)] | None = None
    """Longest exit latency of C-states, in microseconds."""

    @model_validator(mode="after")
    def _in_order(self) -> "CpuClass":
        self.check_order(("minFreq", "maxFreq"), ("uncoreMinFreq", "uncoreMaxFreq"))
        return self
