"""The types of options for durations and whole numbers."""

from typing import Any

import click

from resctrl_hooks.core.node.durations import seconds_of

_HOUR = 3600.0
_LONGEST = 86_400.0  # one day; Python's sleep accepts at most 292 years, and "inf" is a typing error


class Duration(click.FloatRange):
    """Seconds from ``least`` to a day, with or without a unit: ``500ms``, ``2s``, ``1m``."""

    name = "duration"

    def __init__(self, least: float, most: float = _LONGEST) -> None:
        super().__init__(least, most)
        self._least, self._most = least, most

    def _describe_range(self) -> str:
        return ""  # the help; errors have the range with units

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of seconds."""
        if isinstance(value, str):
            found = seconds_of(value.strip())
            if found is None:
                self.fail(f"{value!r} is not a duration such as 500ms, 2s, 1m or 2h.", param, ctx)
            if not self._least <= found <= self._most:
                limits = f"{_in_words(self._least)} to {_in_words(self._most)}"
                self.fail(f"{value} is not in the range from {limits}.", param, ctx)
            value = found
        return super().convert(value, param, ctx)


class Number(click.IntRange):
    """Whole numbers from ``min`` on, up to ``max`` if it is given. The help has the range in words."""

    name = "number"

    def _describe_range(self) -> str:
        return f"{self.min} or more" if self.max is None else f"{self.min} to {self.max}"


def _in_words(seconds: float) -> str:
    """Return a duration as an option takes it."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds / _HOUR:g}h" if seconds and seconds % _HOUR == 0 else f"{seconds:g}s"
