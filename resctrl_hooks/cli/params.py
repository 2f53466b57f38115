"""Durations as options: a number of seconds that one can wait for."""

import re
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


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Duration(Seconds):
    """Seconds, or with a unit as Go's and systemd's durations have it: ``500ms``, ``1s``, ``10m``, ``2h``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of seconds."""
        if isinstance(value, str):
            found = _DURATION.fullmatch(value.strip())
            if found is None:
                self.fail(f"{value!r} is no duration such as 500ms, 1s, 10m or 2h.", param, ctx)
            value = float(found[1]) * _SECONDS[found[2]]
        return super().convert(value, param, ctx)
