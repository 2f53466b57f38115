"""The type of every option that takes an interval."""

from typing import Any

import click

from resctrl_hooks.node.durations import seconds_of

_LONGEST = 86_400.0  # a day; sleep(3) in Python ends at 292 years, and infinity is a typing error


class Duration(click.FloatRange):
    """Seconds from ``least`` to a day, with or without a unit: ``500ms``, ``2s``, ``1m``."""

    name = "duration"

    def __init__(self, least: float, most: float = _LONGEST) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of seconds."""
        if isinstance(value, str):
            found = seconds_of(value.strip())
            if found is None:
                self.fail(f"{value!r} is not a duration such as 500ms, 2s, 1m or 2h.", param, ctx)
            value = found
        return super().convert(value, param, ctx)
