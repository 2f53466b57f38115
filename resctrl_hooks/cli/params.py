"""Durations as options: a number of seconds that one can wait for."""

from typing import Any

import click

_LONGEST = 86_400.0  # a day; sleep(3) in Python ends at 292 years, and infinity is a typing error


class Seconds(click.FloatRange):
    """Seconds from ``least`` up to a day."""

    def __init__(self, least: float) -> None:
        super().__init__(least, _LONGEST)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; ``nan`` is neither below nor above any bound, and none."""
        found = super().convert(value, param, ctx)
        if found != found:  # noqa: PLR0124  # what only that isn't
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return found
