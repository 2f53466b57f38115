"""Option types for durations and bandwidths."""

from typing import Any

import click

from resctrl_hooks.node.durations import seconds_of

_LONGEST = 86_400.0  # one day; Python's sleep accepts at most 292 years, and "inf" is a typing error


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


class Bandwidth(click.FloatRange):
    """Bytes per second, with a decimal prefix as on disks and networks: ``120G`` is 120 000 000 000."""

    name = "bandwidth"

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        text = str(value).strip().removesuffix("B/s")
        number = text.rstrip("kMGT")
        if not number.isascii() or not number.replace(".", "", 1).isdecimal() or len(text) - len(number) > 1:
            self.fail(f"{value!r} is not a bandwidth such as 500M or 120G.", param, ctx)
        scale = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[text[len(number) :]]
        return super().convert(float(number) * scale, param, ctx)
